"""Records as a table of 80 columns and as bars, in one style for every benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from drlnet.bench.records import Key, Record, key_of
from drlnet.plots import Axis, Bar, Figure

_WIDTH = 80


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
    console.print(_table(records, derived, without))
    for line in caption:
        console.print(line, style="dim")


def column(words: Mapping[Key, str]) -> Callable[[Record], str]:
    """What stands in a column of these words: nothing for a record that has none."""
    return lambda record: words.get(key_of(record), "")


def console_on(file: TextIO) -> Console:
    """In colour and as wide as it is on a terminal, plain and of 80 columns elsewhere."""
    console = Console(file=file, highlight=False)
    return console if console.is_terminal else Console(file=file, highlight=False, width=_WIDTH)


def _table(
    records: Sequence[Record],
    derived: Mapping[str, Callable[[Record], str]],
    without: Sequence[str],
) -> Table:
    columns = {
        name: column for name, column in {**_TIMES, **derived}.items() if name not in without
    }
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    table.add_column("", min_width=28)  # gives way: names may be long, figures are shown whole
    for heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    cell: tuple[str, str] | None = None
    for record in records:
        if (record.op, record.workload) != cell:
            cell = (record.op, record.workload)
            table.add_row(Text(f"{record.op}, {record.workload}", style="bold"))
        table.add_row(
            Padding(f"{record.subject}{' *' if record.oversubscribed else ''}", (0, 0, 0, 2)),
            *(column(record) for column in columns.values()),
        )
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


_TIMES: dict[str, Callable[[Record], str]] = {
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
    stars = "; * fewer cores than threads that poll" if crowded else ""
    figure = Figure(f"{title}: p50 (bar) to p99 (line){stars}")
    figure.bars("", groups, axis=Axis("us", log=10))
    return figure
