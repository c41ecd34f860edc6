"""The report: lines as the results come, or one JSON object."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TextIO

from rich.console import Console
from rich.text import Text

from drlnet import __version__
from drlnet.doctor.finding import NeededFor, Result, Verdict, fit_for
from drlnet.metrics import host_facts

_STYLES: dict[Verdict, str] = {"pass": "green", "warn": "yellow", "fail": "bold red"}
_HEADINGS: dict[NeededFor, str] = {"run": "drlnet run", "dpdk": "DPDK", "speed": "Speed"}
_NAME_WIDTH = 14
_FIX = " " * 8 + "fix: "
_NARROWEST = 40  # a terminal that is narrower wraps by itself
_NARROW = 64  # below, what was found goes on under the name


class Report:
    """Shows results one below the other, in the order in which they come.

    A terminal gets colour (not with NO_COLOR) and lines that fit it, anything else one line for
    what was found and one for what to do.
    """

    def __init__(self, file: TextIO) -> None:
        self._console = Console(file=file, highlight=False, emoji=False)
        terminal = self._console.is_terminal
        self._width = max(_NARROWEST, self._console.width) if terminal else None
        self._heading: NeededFor | None = None

    def show(self, result: Result) -> None:
        """One result, under the heading of what it is needed for."""
        if result.needed_for != self._heading:
            lead = "" if self._heading is None else "\n"
            self._heading = result.needed_for
            self._print(Text(lead + _HEADINGS[result.needed_for], style="bold"))
        name = f"  {result.name:<{_NAME_WIDTH}}  "
        line = Text(f"  {result.verdict}", style=_STYLES[result.verdict])
        line.append(name + self._fitted(result.found, len(line) + len(name)), style="default")
        self._print(line)
        if result.remedy:
            self._print(Text(_FIX + self._fitted(result.remedy, len(_FIX))))

    def sum_up(self, results: Sequence[Result]) -> None:
        """Whether `drlnet run` would work, and whether DPDK would."""
        able = {what: fit_for(what, results) for what in _HEADINGS}
        words = {True: "would work", False: "would not work"}
        counts = {verdict: sum(r.verdict == verdict for r in results) for verdict in _STYLES}
        text = (
            f"drlnet run {words[able['run']]}; DPDK {words[able['dpdk']]}. "
            f"{counts['pass']} pass, {counts['warn']} warn, {counts['fail']} fail."
        )
        self._print(Text("\n" + self._fitted(text, 0), style="bold"))

    def _fitted(self, text: str, begin: int) -> str:
        """The text wrapped for what is left of each line behind the column `begin`."""
        if self._width is None:
            return text
        lines = textwrap.wrap(
            text,
            self._width,
            initial_indent=" " * begin,
            subsequent_indent=" " * (begin if self._width >= _NARROW else len(_FIX)),
            break_on_hyphens=False,
            break_long_words=False,  # a path or a command is to be copied
        )
        return "\n".join(lines).lstrip()

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def as_json(results: Sequence[Result], exit_code: int) -> str:
    """One line: `run` and `dpdk` say what would work, `checks` why, `host` where that was."""
    return json.dumps(
        {
            "run": fit_for("run", results),
            "dpdk": fit_for("dpdk", results),
            "exit_code": exit_code,
            "version": __version__,
            "host": host_facts(),
            "checks": [asdict(result) for result in results],
        }
    )
