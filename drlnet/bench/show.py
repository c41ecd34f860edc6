"""Records as a table of 80 columns and as bars, in one style for every benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drlnet.bench.records import Key, Record, key_of
from drlnet.plots import Axis, Bar, Figure

_WIDTH, _NAMES = 80, 28  # of all, of the names at least
_CROWDED = "* fewer cores than threads that want one: they take turns, which is measured too"


def show(
    records: Sequence[Record],
    derived: Mapping[str, Callable[[Record], str]],
    caption: Sequence[str],
    *,
    file: TextIO,
    without: Sequence[str] = (),
) -> None:
    """Prints a row per record under its operation and workload, and the caption; nothing of none.

    derived: further columns, by heading. without: headings to leave out.
    """
    if not records:
        return
    console = console_on(file)
    console.print()  # what went before may end in ^C
    columns = {name: of for name, of in {**TIMES, **derived}.items() if name not in without}
    figures = {record: [of(record) for of in columns.values()] for record in records}
    widths = [max(map(len, words)) for words in zip(columns, *figures.values(), strict=True)]
    longest = max(len(record.subject) for record in records) + 4
    # Names give way: they may be long, and figures are shown whole.
    first = min(max(longest, _NAMES), console.width - sum(widths) - len(widths) - 1)
    console.print(_table(dict(zip(columns, widths, strict=True)), first, titled=True))
    for heading, of_cell in groupby(records, lambda record: f"{record.op}, {record.workload}"):
        console.print(Text(heading, style="bold"))
        table = _table(dict(zip(columns, widths, strict=True)), first)
        for record in of_cell:
            star = " *" if record.oversubscribed else ""
            table.add_row(Padding(f"{record.subject}{star}", (0, 0, 0, 2)), *figures[record])
        console.print(table)
    crowded = any(record.oversubscribed for record in records)
    for line in [*caption, *([_CROWDED] if crowded else [])]:
        console.print(line, style="dim")


def column(words: Mapping[Key, str]) -> Callable[[Record], str]:
    """What stands in a column of these words: nothing for a record that has none."""
    return lambda record: words.get(key_of(record), "")


def console_on(file: TextIO) -> Console:
    """In colour and as wide as it is on a terminal, plain elsewhere; of 80 columns at least.

    A narrower terminal wraps the lines, which names and figures need whole.
    """
    console = Console(file=file, highlight=False)
    console.width = max(_WIDTH, console.width) if console.is_terminal else _WIDTH
    return console


def _table(columns: Mapping[str, int], first: int, *, titled: bool = False) -> Table:
    """Columns of these widths behind one of names."""
    table = Table(
        box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False, show_header=titled
    )
    table.add_column("", width=first)
    for heading, width in columns.items():
        table.add_column(heading, justify="right", no_wrap=True, width=width)
    return table


def included(records: Sequence[Record], includes: Mapping[str, str]) -> list[str]:
    """A line of a caption for each peer that was measured."""
    measured = {record.subject for record in records}
    return [f"  {name}: {words}" for name, words in includes.items() if name in measured]


def times(ratio: float) -> str:
    """4.00x, 250x."""
    return f"{figure(ratio)}x"


def _us(value: float | None) -> str:
    return "" if value is None else figure(value)


def figure(value: float) -> str:
    """12.34, 123: three digits or more."""
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


TIMES: dict[str, Callable[[Record], str]] = {
    "p50 us": lambda record: _us(record.p50_us),
    "p99 us": lambda record: _us(record.p99_us),
    "p99.9 us": lambda record: _us(record.p999_us),
    "GB/s": lambda record: (
        "" if record.bytes_per_second is None else f"{record.bytes_per_second / 1e9:.2f}"
    ),
}


def plot_bars(title: str, records: Sequence[Record]) -> Figure:
    """Every record's p50 as a bar, operation by operation; a thin line reaches to its p99.

    As in the tables, a * is behind what had fewer cores than threads that poll.
    """
    groups: dict[str, dict[str, Bar]] = {}
    for record in records:
        cell = groups.setdefault(f"{record.op}, {record.workload}", {})
        star = " *" if record.oversubscribed else ""
        cell[record.subject] = Bar(record.p50_us, high=record.p99_us, behind=star)
    crowded = any(record.oversubscribed for record in records)
    stars = "; * fewer cores than threads that want one" if crowded else ""
    figure = Figure(f"{title}: p50 (bar) to p99 (line){stars}")
    figure.bars("", groups, axis=Axis("us", log=10))
    return figure
