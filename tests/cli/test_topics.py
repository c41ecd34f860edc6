"""`drlnet help`: plain in a pipe, drawn and paged in a terminal, a remedy for a wrong topic."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from system.command import PROGRAM, finished

from drlnet.cli.help import DOCS, drawn, topics
from drlnet.errors import ConfigError


def test_topics_are_listed_with_a_line_each(tmp_path: Path) -> None:
    shown = finished(tmp_path, "help").out.decode()
    for name, line in topics().items():
        assert any(row.split(maxsplit=1) == [name, line] for row in shown.splitlines())


def test_a_pipe_gets_the_text_as_it_is_written(tmp_path: Path) -> None:
    shown = finished(tmp_path, "help", "security").out.decode()
    assert shown == (DOCS / "security.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("word", "cause", "remedy"),
    [
        ("transprots", "no help topic 'transprots'", "did you mean 'transports'?"),
        ("run", "run is a command, not a topic", "drlnet run --help"),
        ("zzz", "no help topic 'zzz'", "choose one of algorithms, "),
    ],
)
def test_a_wrong_topic_has_a_remedy(tmp_path: Path, word: str, cause: str, remedy: str) -> None:
    ended = finished(tmp_path, "help", word, error=ConfigError)
    first, second = ended.err.decode().splitlines()
    assert first == f"error: {cause}"
    assert second.startswith(f"  try: {remedy}")


def in_a_terminal(*topic: str, **environment: str) -> str:
    """What `drlnet help` writes to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    command = [*PROGRAM, "help", *topic]
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "500"} | environment,
    ) as running:
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 65536):
                shown += data
        except OSError:  # how a terminal without a writer ends
            pass
        os.close(ours)
        assert running.wait(timeout=60) == 0
    return shown.decode()


def test_a_terminal_gets_it_drawn_and_paged() -> None:
    marked = in_a_terminal("clusters", PAGER="sed s/^/paged/")
    assert "paged" in marked and "\x1b[" not in marked, "a pager that may not know colours"
    assert "```" not in marked and "## " not in marked
    assert "drlnet help security" in marked and "security.md" not in marked


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less: apt-get install less")
def test_less_gets_colours() -> None:
    assert "\x1b[1" in in_a_terminal("security", PAGER="less")


@pytest.mark.parametrize("topic", sorted(topics()))
def test_nothing_is_cut_in_80_columns(topic: str) -> None:
    console = Console(width=80, file=StringIO())
    console.print(drawn((DOCS / f"{topic}.md").read_text(encoding="utf-8")), crop=False)
    assert "…" not in console.file.getvalue()  # type: ignore[attr-defined]


def code_of(topic: str) -> list[str]:
    """The lines of a topic's blocks of code."""
    text = (DOCS / f"{topic}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("topic", sorted(topics()))
def test_code_can_be_pasted(topic: str) -> None:
    console = Console(width=40, file=StringIO())
    console.print(drawn((DOCS / f"{topic}.md").read_text(encoding="utf-8")), crop=False)
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert {line.rstrip() for line in code_of(topic)} <= {line.rstrip() for line in shown}
    assert not [line for line in code_of(topic) if len(line) > 80], "a terminal would fold it"


def test_the_list_of_topics_fits_80_columns() -> None:
    shown = in_a_terminal()
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    assert all(f"{name} {' '.join(line.split())}" in words for name, line in topics().items())
