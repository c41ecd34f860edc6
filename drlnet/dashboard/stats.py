"""A server's throughput and latency: live on a terminal, plain tables elsewhere, or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from drlnet.dashboard.reading import (
    Histogram,
    clients,
    clock,
    compact,
    count,
    duration,
    number,
    rates,
    short,
)
from drlnet.dashboard.view import View

_PERCENTILES = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999}


def as_json(reading: Mapping[str, Any]) -> str:
    """One line of JSON; a histogram becomes its count, mean, percentiles and maximum."""

    def plain(value: Any) -> Any:
        if isinstance(value, Histogram):
            return {
                "count": value.count,
                "mean_us": value.mean_us,
                **{name: value.percentile_us(q) for name, q in _PERCENTILES.items()},
                "max_us": value.max_us,
            }
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value

    return json.dumps({key: plain(value) for key, value in reading.items()})


class StatsView(View):
    """Shows one server. Feed it readings with their times; rates come from two of them."""

    def __init__(self, address: str, *, file: TextIO) -> None:
        super().__init__(file)
        self._address = address
        self._previous: tuple[Mapping[str, Any], float] | None = None

    def show(self, reading: Mapping[str, Any], time_s: float) -> None:
        """Draws a reading taken at `time_s`, on a clock that only moves forward."""
        before, then = self._previous or ({}, time_s)
        self._previous = (reading, time_s)
        self.draw(self.render(reading, rates(before, reading, time_s - then)))

    def gone(self, why: str) -> None:
        """Says that the server does not answer; the view stays."""
        self._previous = None
        self.draw(Text(f"{self._address} does not answer: {why}", style="bold red"))

    def render(self, reading: Mapping[str, Any], per_second: Mapping[str, float]) -> Group:
        """The reading as tables that fit 80 columns."""
        title = Text(f"drlnet server {self._address}", style="bold")
        up, peers = number(reading.get("server.uptime_s")), number(reading.get("server.clients"))
        title.append(f"   up {clock(up)}   {count(peers)} clients", style="not bold")
        parts: list[RenderableType] = [title, _latency_table(reading, per_second)]
        for build in (_tables_table, _clients_table):
            table = build(reading, per_second)
            if table.row_count:
                parts.append(table)
        return Group(*parts)


def _table(first: str, *rest: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    table.add_column(f"\n{first}", no_wrap=True, min_width=10)
    for name in rest:
        # The blank line above each heading sets the tables apart.
        table.add_column(f"\n{name}", justify="right", no_wrap=True)
    return table


def _latency_table(reading: Mapping[str, Any], per_second: Mapping[str, float]) -> Table:
    """A row per operation: how long the server worked on it, how long it waited before that."""
    table = _table("operation", "total", "per s", "work p50", "p99", "wait p50", "p99")
    for key, work in reading.items():
        if not (key.startswith("server.") and key.endswith(".handling")):
            continue
        if not isinstance(work, Histogram) or not work.count:
            continue
        wait = reading.get(key.removesuffix("handling") + "queueing")
        figures = [duration(work.percentile_us(0.5)), duration(work.percentile_us(0.99))]
        if isinstance(wait, Histogram):
            figures += [duration(wait.percentile_us(0.5)), duration(wait.percentile_us(0.99))]
        table.add_row(
            Text(key.removeprefix("server.").removesuffix(".handling").replace("_", " ")),
            compact(work.count),
            compact(per_second.get(key, 0.0)),
            *figures,
        )
    return table


def _tables_table(reading: Mapping[str, Any], per_second: Mapping[str, float]) -> Table:
    table = _table("table", "items", "of rows", "steps/s", "draws/s", "draws/item", "stale")
    names = {key[len("table.") : key.rindex(".")] for key in reading if key.startswith("table.")}
    for name in sorted(names):
        prefix = f"table.{name}."
        table.add_row(
            Text(name),
            compact(number(reading.get(prefix + "live_items"))),
            compact(number(reading.get(prefix + "capacity"))),
            compact(per_second.get(prefix + "env_steps", 0.0)),
            compact(per_second.get(prefix + "items_drawn", 0.0)),
            short(number(reading.get(prefix + "samples_per_insert"))),
            compact(number(reading.get(prefix + "stale_updates"))),
        )
    return table


def _clients_table(reading: Mapping[str, Any], per_second: Mapping[str, float]) -> Table:
    table = _table("client", "steps", "steps/s", "return", "params", "waits")
    for name, values in sorted(clients(reading).items()):
        kind = "learner" if "learner_steps" in values else "env"
        wait = number(values.get("sample_wait_share")) * 100
        table.add_row(
            Text(name),
            compact(number(values.get(f"{kind}_steps"))),
            compact(number(values.get(f"{kind}_steps_per_s"))),
            short(number(values.get("return_mean", values.get("eval_return")))),
            count(number(values.get("params_version"))),
            "-" if math.isnan(wait) else f"{wait:.0f}%",
        )
    return table
