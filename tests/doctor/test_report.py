"""The report: lines for a terminal, for a pipe, and as JSON."""

from __future__ import annotations

import io
import json

import pytest

from drlnet.doctor import Report, Result, as_json

PATH = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
RESULTS = [
    Result("server", "run", "pass", "answers over UDP; " + "and goes on " * 8, ""),
    Result("DPDK", "dpdk", "fail", "[not] there", "install it: " + "word " * 30),
    Result("clock", "speed", "warn", "slow", f"as root: echo tsc > {PATH}"),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


def shown(file: io.StringIO) -> str:
    report = Report(file)
    for result in RESULTS:
        report.show(result)
    report.sum_up(RESULTS)
    return file.getvalue()


def test_a_pipe_gets_a_line_for_each_finding_and_each_remedy() -> None:
    text = shown(io.StringIO())
    assert "\x1b" not in text
    lines = [line.rstrip() for line in text.splitlines()]
    assert [line for line in lines if line.startswith("  ")] == [
        f"  pass  server          {RESULTS[0].found}".rstrip(),
        "  fail  DPDK            [not] there",
        f"        fix: {RESULTS[1].remedy}".rstrip(),
        "  warn  clock           slow",
        f"        fix: {RESULTS[2].remedy}",
    ]
    assert lines[-1] == "drlnet run would work; DPDK would not work. 1 pass, 1 warn, 1 fail."
    assert [line for line in lines if line in {"drlnet run", "DPDK", "Speed"}] == [
        "drlnet run",
        "DPDK",
        "Speed",
    ]


def test_a_terminal_gets_lines_that_fit_without_tearing_paths(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(terminal)
    for code in ("\x1b[1m", "\x1b[0m"):  # bold is not a colour
        text = text.replace(code, "")
    assert "\x1b" not in text
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(PATH in line for line in lines)
    continued = lines[lines.index("drlnet run") + 2]
    assert continued.startswith(" " * 24 + "a")  # below what was found


def test_colours_are_for_terminals(terminal: Terminal) -> None:
    text = shown(terminal)
    assert "\x1b[32m  pass" in text
    assert "\x1b[33m  warn" in text
    assert "\x1b[1;31m  fail" in text


@pytest.mark.parametrize("columns", ["20", "44", "200"])
def test_other_widths(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("NO_COLOR", "1")
    words = shown(terminal).replace("\x1b[1m", "").replace("\x1b[0m", "").split()
    assert words == shown(io.StringIO()).split()


def test_json_says_what_would_work_and_why_not() -> None:
    line = as_json(RESULTS, 25)
    assert "\n" not in line
    values = json.loads(line)
    assert (values["run"], values["dpdk"], values["exit_code"]) == (True, False, 25)
    assert values["checks"][1] == {
        "name": "DPDK",
        "needed_for": "dpdk",
        "verdict": "fail",
        "found": "[not] there",
        "remedy": RESULTS[1].remedy,
    }
    assert values["host"]["cores"] > 0
