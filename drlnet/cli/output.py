"""Where a command's words go: people read lines, scripts read the last line of stdout."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TextIO

from drlnet.errors import DISK_FULL, MUTED, ConfigError, cannot_write, tell

_USUAL_BYTES = 1 << 18  # of results


class Output:
    """Results on standard output; notes there too, or on standard error with --json.

    What cannot be written because the terminal was closed or a disk is full ends nothing, unless it
    is a result: what was measured is kept. main() tells of the full disk as the command ends.
    """

    lost: ClassVar[OSError | None] = None  # of a note that a full disk did not take
    apart: ClassVar[TextIO | None] = None  # see keep_for_json

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.notes: TextIO = sys.stderr if as_json else sys.stdout

    def note(self, line: str) -> None:
        """A line for a person, or several (see shown)."""
        self._write(shown(line), self.notes)

    def _write(self, line: str, file: TextIO) -> None:
        try:
            print(line, file=file, flush=True)
        except OSError as error:
            if error.errno not in MUTED:
                raise
            if error.errno in DISK_FULL and not self.as_json:
                Output.lost = error

    def hint(self, command: str, what: str) -> None:
        """A command that may come next; nothing with --json."""
        if self.as_json:
            return
        dim, plain = ("\x1b[2m", "\x1b[0m") if coloured(self.notes) else ("", "")
        self._write(f"{dim}  {shown(command)}  # {what}{plain}", self.notes)

    def event(self, name: str, **values: Any) -> None:
        """A JSON line for the process that watches this one; nothing without --json."""
        if self.as_json:
            self._write(json.dumps({"event": name, **values}), json_file())

    def result(self, line: str) -> None:
        """The JSON object that ends the command; nothing without --json."""
        if self.as_json:
            print(line, file=json_file(), flush=True)


def keep_for_json() -> None:
    """Keeps standard output for the command's JSON: what other code prints there, an environment's
    C++ for one, goes to standard error from here on."""
    output = sys.stdout.fileno()
    Output.apart = os.fdopen(os.dup(output), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), output)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # in order with what standard error has


def json_file() -> TextIO:
    """Where the command's JSON goes: standard output, as it was at the start."""
    return Output.apart or sys.stdout


def shown(text: str) -> str:
    """The lines of a text, with escapes in place of what would steer a terminal: the network, a
    state or a file may have brought a part of them."""
    if all(line.isprintable() for line in text.split("\n")):  # the extension takes time to load
        return text
    from drlnet import native

    return "\n".join(map(native.printable, text.split("\n")))


def typed(path: Path | str) -> str:
    """A path as it can be typed here: relative to the working directory, where it lies below."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)


def coloured(file: TextIO) -> bool:
    """Whether it is a terminal whose user allows colours."""
    return file.isatty() and "NO_COLOR" not in os.environ


def require_writable(out: Path, option: str = "--out") -> None:
    """Raises ConfigError where results cannot be written: before they are measured, not after."""
    from tempfile import TemporaryFile

    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out) as tried:
            tried.write(bytes(_USUAL_BYTES))
    except OSError as error:
        raise cannot_write(f"to {out}", error, f"choose another folder with {option}") from error


def require_writable_file(out: Path | None) -> None:
    """Raises ConfigError where that file cannot be written; None: no file is wanted."""
    if out is None:
        return
    if out.is_dir():
        raise ConfigError(f"{out} is a folder", "name a file in it with --out")
    if not out.exists() or out.is_file():  # it is replaced as a whole, by one beside it
        require_writable(out.resolve().parent)
    elif not os.access(out, os.W_OK):
        raise ConfigError(f"cannot write to {out}", "choose another file with --out")


def drop(*streams: TextIO) -> None:
    """Lets what the streams still hold go nowhere: their files take nothing."""
    for stream in streams:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def report_and_exit(error: BaseException, *, as_json: bool, debug: bool) -> NoReturn:
    """One line of cause, one of remedy on stderr (and as JSON on stdout), its own exit code."""
    told = tell(error)
    if told.trace:
        print(told.trace, end="", file=sys.stderr)
    elif debug:
        traceback.print_exception(error)
    label = "\x1b[1;31merror:\x1b[0m" if coloured(sys.stderr) else "error:"
    try:
        print(f"{label} {shown(told.cause)}", file=sys.stderr)
        if told.remedy:
            print(f"  try: {shown(told.remedy)}", file=sys.stderr, flush=True)
    except OSError:  # the reader is gone, or the disk is full; the error keeps its exit code
        drop(sys.stderr)
    try:
        if as_json:
            print(json.dumps({"error": told.said()}), file=json_file(), flush=True)
        sys.stdout.flush()
    except OSError:  # it may be standard output that cannot be written
        drop(sys.stdout, json_file())
    sys.exit(told.exit_code)
