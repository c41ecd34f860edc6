"""Where a command's words go."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from system.command import PROGRAM

from drlnet.cli.output import Output, report_and_exit
from drlnet.errors import ConfigError, RunFolderError, UserCodeError, tell


@contextmanager
def output_to(descriptor: int) -> Iterator[Output]:
    output = Output(as_json=True)
    output.notes = io.TextIOWrapper(io.FileIO(descriptor, "w"), line_buffering=True)
    yield output
    with suppress(OSError):  # what is left of it has no reader
        output.notes.close()


def test_a_note_to_a_closed_terminal_ends_nothing() -> None:
    ours, theirs = os.openpty()
    with output_to(theirs) as output:
        output.note("one")
        said = b""
        while not said.endswith(b"\n"):  # a terminal hands on what it has, the line's end later
            said += os.read(ours, 100)
        assert said == b"one\r\n"
        os.close(ours)
        output.note("two")
        output.note("three")


def test_no_note_or_error_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output, text = Output(as_json=False), "\x1b[2J\x9b\u202e\r\udc80é\nnext"
    shown = "\\x1b[2J\\x9b\\u202e\\x0d\\udc80é\nnext"
    output.note(text)
    output.hint(text, "does it")
    with pytest.raises(SystemExit):
        report_and_exit(ConfigError(text, text), as_json=False, debug=False)
    said = capsys.readouterr()
    assert said.out == f"{shown}\n  {shown}  # does it\n"
    assert said.err == f"error: {shown}\n  try: {shown}\n"


def test_a_note_or_event_to_a_full_disk_ends_nothing_and_a_result_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with output_to(os.open("/dev/full", os.O_WRONLY)) as output:
        monkeypatch.setattr("sys.stdout", output.notes)
        output.note("one")
        output.event("two")
        with pytest.raises(OSError, match="No space left"):
            output.result("{}")


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_full_disk_is_told_as_the_command_ends(
    monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("wb") as full:
        for errors in (subprocess.PIPE, full):
            ended = subprocess.run(
                [*PROGRAM, "version"], stdout=full, stderr=errors, text=True, check=False
            )
            assert ended.returncode == ConfigError.exit_code
            assert ended.stderr is None or "cannot write: No space left" in ended.stderr


@pytest.mark.parametrize("args", [["--help"], ["bench", "distribution", "--batches", "20"]])
def test_a_reader_that_has_had_enough_is_no_internal_error(args: list[str]) -> None:
    unread, output = os.pipe()
    os.close(unread)
    ended = subprocess.run(
        [*PROGRAM, *args], stdout=output, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(output)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")


def test_an_error_that_nobody_reads_keeps_its_exit_code() -> None:
    unread, output = os.pipe()
    os.close(unread)
    ended = subprocess.run([*PROGRAM, "eval", "nowhere"], stdout=output, stderr=output, check=False)
    os.close(output)
    assert ended.returncode == RunFolderError.exit_code


def test_a_path_that_this_user_may_not_use_is_no_internal_error() -> None:
    told = tell(PermissionError(errno.EACCES, "Permission denied", "/root/run"))
    assert told.cause == "cannot use /root/run: Permission denied"
    assert (told.exit_code, told.trace) == (ConfigError.exit_code, "")
    assert told.remedy
    with pytest.raises(PermissionError) as of_user:  # an environment's file, for one
        raise PermissionError(errno.EACCES, "Permission denied", "/root/levels")
    assert tell(of_user.value).exit_code == UserCodeError.exit_code
