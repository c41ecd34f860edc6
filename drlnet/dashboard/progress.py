"""The progress of a run: a live panel on a terminal, a line at intervals anywhere else."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, TextIO

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from drlnet.dashboard.reading import clients, is_histogram, mean, number, peers, total
from drlnet.dashboard.units import clock, compact, count, duration, short, sparkline
from drlnet.dashboard.view import View
from drlnet.errors import MUTED

_TRAINING, _WAITING, _EVALUATING = "training", "waiting for actors", "evaluating"
_LINE_INTERVAL_S = 5.0
_MIN_WIDTH, _MAX_WIDTH = 12, 100
_CTRL_C_ROOM = 3  # a terminal's "^C" goes behind the panel, where it moves no line


class ProgressView(View):
    """Shows one run. Feed it readings; it knows nothing of where they come from.

    min_size: items before the first draw. actor_command: what starts an actor, while there is none.
    run: the name by which its learner reports; "": of a learner that reports none. hint: a command
    for the last line. elapsed_s: since it began.
    """

    def __init__(
        self,
        title: str,
        *,
        goal: float | None,
        file: TextIO,
        min_size: int = 0,
        actor_command: str = "",
        run: str = "",
        hint: str = "",
        elapsed_s: float = 0.0,
    ) -> None:
        super().__init__(file)
        self._title = title
        self._goal = goal
        self._min_size, self._actor_command = min_size, actor_command
        self._run, self._hint = run, hint
        self._started = time.monotonic() - elapsed_s
        self._next_line_s = 0.0
        self._phase = ""
        self._curve: list[float] = []
        self._last: Mapping[str, Any] = {}

    def show(self, reading: Mapping[str, Any]) -> None:
        """Draws a reading. A reading without figures keeps the last ones on the screen.

        "run.phase" in it: what the run does. "run.progress": how far that is, as "37 of 100".
        """
        if any(key.startswith("client.") for key in reading):
            self._last = reading
        merged = {**self._last, **reading}
        value = mean(_actors(merged), "return_mean")
        if not math.isnan(value) and (not self._curve or self._curve[-1] != value):
            self._curve.append(value)
        if self.in_place:
            self.draw(self.panel(merged))
        else:
            self._lines(merged)

    def panel(self, reading: Mapping[str, Any]) -> Panel:
        """The reading as a panel that fits 80 columns."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        for name, text in self._rows(reading):
            grid.add_row(name, text)
        elapsed = clock(time.monotonic() - self._started)
        phase = " ".join(self._phase_of(reading))
        return Panel(
            grid,
            title=Text(f"{self._title} · {elapsed}"),
            title_align="left",
            subtitle=Text(phase) if phase else None,
            subtitle_align="left",
            width=max(_MIN_WIDTH, min(_MAX_WIDTH, self.console.width - _CTRL_C_ROOM)),
        )

    def _phase_of(self, reading: Mapping[str, Any]) -> tuple[str, str]:
        """The phase, before the first learner step what training waits for; how far it is."""
        phase, progress = (str(reading.get(f"run.{key}", "")) for key in ("phase", "progress"))
        learner = self._learner(reading)
        if phase != _TRAINING or number(learner.get("learner_steps")) > 0:
            return phase, progress
        if self._actor_command and not any(name.startswith("actor") for name in peers(reading)):
            return _WAITING, ""
        items = number(reading.get("table.replay.live_items"))
        if items < self._min_size:
            return "filling the replay", f"{count(items)} of {count(self._min_size)}"
        return phase, progress

    def _rows(self, reading: Mapping[str, Any]) -> list[tuple[str, Text]]:
        hint = [("more", Text(self._hint, "dim"))] if self._hint else []
        return [*self._figures(reading), *hint]

    def _figures(self, reading: Mapping[str, Any]) -> list[tuple[str, Text]]:
        actors, learner = _actors(reading), self._learner(reading)
        phase, _ = self._phase_of(reading)
        if phase == _WAITING:
            return [("actors", Text(f"none yet; start one:\n{self._actor_command}"))]
        goal = "" if self._goal is None else f" of {self._goal:g}"
        greedy = number(learner.get("eval_return"))
        reached = self._goal is not None and greedy >= self._goal
        returns = Text(f"{short(mean(actors, 'return_mean'))} exploring   ")
        returns.append(f"{short(greedy)}{goal} greedy   ", style="green" if reached else "")
        returns.append(sparkline(self._curve, 24), style="cyan")
        if phase == _EVALUATING:  # rates of roles that have ended would stand still
            made = f"{compact(total(actors, 'env_steps'))} of actors   "
            made += f"{compact(number(learner.get('learner_steps')))} of the learner"
            return [("return", returns), ("steps", Text(made))]
        wait = number(learner.get("sample_wait_share")) * 100
        again = _restarted(reading, "actor")
        rows = [
            ("return", returns),
            (
                "actors",
                Text(
                    f"{len(actors)} playing   {count(total(actors, 'env_steps_per_s'))} steps/s   "
                    f"{compact(total(actors, 'env_steps'))} steps   "
                    f"{compact(total(actors, 'episodes'))} episodes   {again}".rstrip()
                ),
            ),
            (
                "learner",
                Text(
                    f"{count(number(learner.get('learner_steps_per_s')))} steps/s   "
                    f"{compact(number(learner.get('learner_steps')))} steps   "
                    f"loss {short(number(learner.get('loss')), 4)}   waits {count(wait)}%   "
                    f"{_restarted(reading, 'learner')}".rstrip()
                ),
            ),
        ]
        return [*rows, ("server", _server_line(reading))]

    def _lines(self, reading: Mapping[str, Any]) -> None:
        phase, progress = self._phase_of(reading)
        elapsed = time.monotonic() - self._started
        if phase == self._phase and elapsed < self._next_line_s:
            return
        actors, learner = _actors(reading), self._learner(reading)
        parts = [" ".join(filter(None, [f"{elapsed:6.1f}s", phase, progress]))]
        if phase == _WAITING:
            parts.append(f"start one: {self._actor_command}")
        elif phase != _EVALUATING and (actors or learner):
            parts += [
                f"env_steps {count(total(actors, 'env_steps'))}",
                f"({count(total(actors, 'env_steps_per_s'))}/s)",
                f"learner_steps {count(number(learner.get('learner_steps')))}",
                f"({count(number(learner.get('learner_steps_per_s')))}/s)",
                f"return {short(mean(actors, 'return_mean'))}",
                f"greedy {short(number(learner.get('eval_return')))}",
                *(
                    f"{role} {again}"
                    for role in ("actor", "learner", "server")
                    if (again := _restarted(reading, role))
                ),
                *filter(None, [_shards_lost(reading)]),
            ]
        try:  # not by the console, which would keep what a full disk does not take
            print("  ".join(parts), file=self.console.file, flush=True)
        except OSError as error:
            if error.errno not in MUTED:
                raise
        self._phase, self._next_line_s = phase, elapsed + _LINE_INTERVAL_S

    def _learner(self, reading: Mapping[str, Any]) -> Mapping[str, Any]:
        """What this run's learner reports: another may be at the same server."""
        found: Mapping[str, Any] = {}
        for name, values in clients(reading).items():
            if name.startswith("learner") and values.get("run", "") == self._run:
                found = values  # the newest: one that was killed may still be before it
        return found


def _actors(reading: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [values for name, values in clients(reading).items() if name.startswith("actor")]


def _restarted(reading: Mapping[str, Any], role: str) -> str:
    again = number(reading.get(f"run.{role}_restarts"))
    return f"restarts {count(again)}" if again > 0 else ""


def _shards_lost(reading: Mapping[str, Any]) -> str:
    lost = number(reading.get("server.shards_lost"))
    return f"shards lost {count(lost)}" if lost > 0 else ""


def _server_line(reading: Mapping[str, Any]) -> Text:
    items = number(reading.get("table.replay.live_items"))
    capacity = number(reading.get("table.replay.capacity"))
    parts = [f"{count(items)} of {count(capacity)} items"]
    for operation in ("append", "sample"):
        work = reading.get(f"server.{operation}.handling")
        if is_histogram(work) and work.count:
            parts.append(f"{operation} {duration(work.percentile_us(0.5))}")
    parts += filter(None, [_restarted(reading, "server"), _shards_lost(reading)])
    return Text("   ".join(parts))
