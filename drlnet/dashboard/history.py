"""What a view remembers: readings of the last seconds, trends, and clients that have just left."""

from __future__ import annotations

import math
from collections import deque

from drlnet.dashboard.bottleneck import Finding, find_bottleneck
from drlnet.dashboard.client_figures import ClientFigures
from drlnet.dashboard.figures import Figures
from drlnet.dashboard.reading import Reading, number, tables
from drlnet.dashboard.window import Window

HOLD_S = 3.0  # a verdict stays this long, so that it can be read
WINDOW_S = 3.0  # clients report every second or so: a shorter window would miss some
_TREND_LENGTH = 512  # wider than any terminal
_REMEMBER_S = 15.0  # a client that has left

# The figures that are drawn over time, by the names that Figures has for them.
TRENDS = (
    "env_steps_per_s",
    "items_per_s",
    "draws_per_s",
    "learner_steps_per_s",
    "received_bytes_per_s",
    "sent_bytes_per_s",
)


class Verdict:
    """The bottleneck as it is shown: the same for HOLD_S at least, with its newest figures."""

    def __init__(self) -> None:
        self._shown: Finding | None = None
        self._since_s = 0.0

    def of(self, figures: Figures, time_s: float) -> Finding:
        """What to show of these figures, of that time."""
        found, shown = find_bottleneck(figures), self._shown
        if shown is None or shown.name != found.name:
            first = shown is None or "measuring" in (shown.name, found.name)
            if shown is not None and not first and time_s - self._since_s < HOLD_S:
                return shown
            self._since_s = time_s
        self._shown = found
        return found


def _began_anew(before: Reading, after: Reading) -> bool:
    """Whether counters do not continue: another server of the same address, or a shard is lost.

    A lost shard takes its part of every sum along. The capacity of the tables tells of it at once,
    the first shard may count it one reading later.
    """
    keys = ["server.uptime_s", *(f"table.{name}.capacity" for name in tables(before))]
    return any(number(after.get(key)) < number(before.get(key)) for key in keys)


class History:
    """Takes readings as they come, and makes figures of the newest window.

    finding: the bottleneck that the figures made last show.
    """

    finding: Finding

    def __init__(self) -> None:
        self._verdict = Verdict()
        self._readings: deque[tuple[float, Reading]] = deque()
        self._clients: dict[str, tuple[float, ClientFigures]] = {}
        self.trends: dict[str, deque[float]] = {
            name: deque(maxlen=_TREND_LENGTH) for name in TRENDS
        }

    def push(self, reading: Reading, time_s: float) -> Figures:
        """The figures of the window that ends with this reading, taken at that time.

        It begins with the newest reading that is WINDOW_S older, or with the oldest there is.
        """
        readings = self._readings
        while len(readings) > 1 and time_s - readings[1][0] >= WINDOW_S:
            readings.popleft()
        if readings and _began_anew(readings[-1][1], reading):
            readings.clear()
        window = Window(None, reading, 0.0)
        if readings:
            window = Window(readings[0][1], reading, time_s - readings[0][0])
        readings.append((time_s, reading))
        figures = Figures(window, self._left(time_s))
        self.finding = self._verdict.of(figures, time_s)
        for name, client in figures.clients.items():
            self._clients[name] = (time_s, client)
        for name, trend in self.trends.items():
            # Before the first reading, only the clients' own reports tell anything.
            trend.append(math.nan if window.before is None else getattr(figures, name))
        return figures

    def gap(self) -> None:
        """The server did not answer: what comes next does not continue what came before."""
        self._readings.clear()
        for trend in self.trends.values():
            trend.append(math.nan)

    def _left(self, time_s: float) -> list[tuple[str, ClientFigures]]:
        seen = self._clients
        for name in [name for name, (last, _) in seen.items() if time_s - last > _REMEMBER_S]:
            del seen[name]
        return [(name, client) for name, (_, client) in seen.items()]
