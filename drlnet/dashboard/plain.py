"""Readings as lines: for a pipe, for scripts, for a spreadsheet."""

from __future__ import annotations

import csv
import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from rich.console import Console

from drlnet.dashboard.figures import Figures
from drlnet.dashboard.history import History
from drlnet.dashboard.layout import everything
from drlnet.dashboard.reading import Reading, average
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.units import compact, duration, percent, size
from drlnet.metrics.plain import plain

_HEADING_EVERY = 20  # lines
_TABLE_WIDTH = 160  # where no terminal says how wide it is: all columns


def percentile(figures: Figures, operation: str, q: float) -> float:
    """A percentile of an operation's latency within the window, us; NaN without one."""
    recorded = figures.latency(operation)
    return math.nan if recorded is None or not recorded.count else recorded.percentile_us(q)


# The main figures, as --csv and --json --follow name them.
FIGURES: Mapping[str, Callable[[Figures], float]] = {
    "uptime_s": lambda f: f.window.latest("server.uptime_s"),
    "window_s": lambda f: f.window.seconds,
    "clients": lambda f: f.window.latest("server.clients"),
    "env_steps_per_s": lambda f: f.env_steps_per_s,
    "items_per_s": lambda f: f.items_per_s,
    "draws_per_s": lambda f: f.draws_per_s,
    "learner_steps_per_s": lambda f: f.learner_steps_per_s,
    "received_bytes_per_s": lambda f: f.received_bytes_per_s,
    "sent_bytes_per_s": lambda f: f.sent_bytes_per_s,
    "append_p50_us": lambda f: percentile(f, "append", 0.5),
    "append_p99_us": lambda f: percentile(f, "append", 0.99),
    "sample_p50_us": lambda f: percentile(f, "sample", 0.5),
    "sample_p99_us": lambda f: percentile(f, "sample", 0.99),
    "queueing_p50_us": lambda f: f.queueing_us,
    "handling_p50_us": lambda f: f.handling_us,
    "server_busy": lambda f: f.server_busy,
    "cores_used": lambda f: f.cores_used,
    "learner_waits": lambda f: f.learner_waits,
    "actors_wait": lambda f: f.actors_wait,
    "lost_share": lambda f: f.lost_share,
    "live_items": lambda f: average(table.latest("live_items") for table in f.tables),
    "policy_lag": lambda f: f.policy_lag,
    "return_mean": lambda f: average(actor.returns for actor in f.actors),
}


def as_json(reading: Reading, **more: Any) -> str:
    """One line of JSON; a histogram becomes its count, mean, percentiles and maximum."""
    return json.dumps(plain({**reading, **more}))


class JsonLines:
    """A line of JSON per reading: as the server gave it, and unless `bare` what it means."""

    def __init__(self, file: TextIO, *, bare: bool = False) -> None:
        self._file, self._bare, self._history = file, bare, History()

    def show(self, reading: Reading, time_s: float) -> None:
        """Writes a reading taken at `time_s`."""
        figures = self._history.push(reading, time_s)
        meaning: dict[str, Any] = {
            "figures": {name: value(figures) for name, value in FIGURES.items()},
            "bottleneck": vars(self._history.finding),
            "per_second": figures.window.rates(),
        }
        line = as_json(reading, **({} if self._bare else meaning))
        print(line, file=self._file, flush=True)

    def gone(self, why: str) -> None:
        """Writes that the server does not answer."""
        self._history.gap()
        print(json.dumps({"no_answer": why}), file=self._file, flush=True)


class Csv:
    """A header, and a line of the main figures per reading."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._history = file, History()
        self._writer = csv.writer(file)
        self._writer.writerow(["time_s", *FIGURES, "bottleneck"])

    def show(self, reading: Reading, time_s: float) -> None:
        """Writes a reading taken at `time_s`; cells without a figure stay empty."""
        figures = self._history.push(reading, time_s)
        values = (value(figures) for value in FIGURES.values())
        shown = ["" if math.isnan(value) else f"{value:.6g}" for value in values]
        self._row([*shown, self._history.finding.name])

    def gone(self, why: str) -> None:
        """A line without figures."""
        self._history.gap()
        self._row([*([""] * len(FIGURES)), "no_answer"])

    def _row(self, cells: list[str]) -> None:
        self._writer.writerow([f"{time.time():.3f}", *cells])
        self._file.flush()


class Lines:
    """A short line per reading, and the heading above it now and then."""

    _COLUMNS: tuple[tuple[str, int, Callable[[Figures], str]], ...] = (
        ("env/s", 6, lambda f: compact(f.env_steps_per_s)),
        ("draws/s", 7, lambda f: compact(f.draws_per_s)),
        ("learn/s", 7, lambda f: compact(f.learner_steps_per_s)),
        ("out/s", 7, lambda f: size(f.sent_bytes_per_s)),
        ("sample99", 8, lambda f: duration(percentile(f, "sample", 0.99))),
        ("waits", 5, lambda f: percent(f.learner_waits)),
        ("busy", 4, lambda f: percent(f.server_busy)),
    )

    def __init__(self, address: str, file: TextIO) -> None:
        self._address, self._file, self._history = address, file, History()
        self._shown = 0

    def show(self, reading: Reading, time_s: float) -> None:
        """Writes a reading taken at `time_s`."""
        figures = self._history.push(reading, time_s)
        if self._shown % _HEADING_EVERY == 0:
            heads = " ".join(f"{name:>{width}}" for name, width, _ in self._COLUMNS)
            self._print(f"{'time':<8} {heads} bottleneck")
        self._shown += 1
        cells = " ".join(f"{cell(figures):>{width}}" for _, width, cell in self._COLUMNS)
        self._print(f"{_clock()} {cells} {self._history.finding.name}")

    def gone(self, why: str) -> None:
        """Writes that the server does not answer."""
        self._history.gap()
        self._print(f"{_clock()} {self._address} does not answer: {why}")

    def _print(self, line: str) -> None:
        print(line, file=self._file, flush=True)


class Tables:
    """Everything of the last of several readings, in full: printed by close()."""

    def __init__(self, address: str, file: TextIO) -> None:
        self._console = Console(file=file, highlight=False)
        if not self._console.is_terminal:
            self._console = Console(file=file, highlight=False, width=_TABLE_WIDTH)
        self._address, self._history = address, History()
        self._scene: Scene | None = None

    def show(self, reading: Reading, time_s: float) -> None:
        """Takes a reading taken at `time_s`."""
        figures = self._history.push(reading, time_s)
        self._scene = Scene(self._address, figures, self._history.finding, self._history.trends)

    def gone(self, why: str) -> None:
        """Says that the server does not answer."""
        self._console.print(f"{self._address} does not answer: {why}", markup=False)

    def close(self) -> None:
        """Prints what was last taken."""
        if self._scene is not None:
            for line in everything(self._scene, self._console.width):
                self._console.print(line, no_wrap=True, crop=True)


def _clock() -> str:
    return time.strftime("%H:%M:%S")
