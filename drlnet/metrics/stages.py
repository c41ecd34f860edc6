"""Where a loop's time goes: seconds per stage, and how fast counts grow between two readings."""

from __future__ import annotations

from time import perf_counter


class Stages:
    """Cumulative seconds of a loop's stages, from one boundary to the next; "other" is one of them.

    They add up to the time since this was made. Not thread-safe.
    """

    def __init__(self, *names: str) -> None:
        self._seconds = dict.fromkeys((*names, "other"), 0.0)
        self._boundary = perf_counter()

    def ended(self, name: str) -> None:
        """A stage ends here: what passed since the last boundary went into it."""
        now = perf_counter()
        self._seconds[name] += now - self._boundary
        self._boundary = now

    def read(self) -> dict[str, float]:
        """{"stage.<name>_s": seconds}; what passed since the last boundary counts as other."""
        self.ended("other")
        return {f"stage.{name}_s": seconds for name, seconds in self._seconds.items()}


class Rates:
    """How fast figures grow, per second, between one reading and the next."""

    def __init__(self, **figures: float) -> None:
        """figures: those that do not begin at 0."""
        self._looked_at = perf_counter()
        self._last = figures

    def due(self, interval_s: float) -> bool:
        """Whether the last reading is that long ago."""
        return perf_counter() - self._looked_at >= interval_s

    def read(self, **figures: float) -> dict[str, float]:
        """The growth per second of each since the last reading, or since this was made."""
        now = perf_counter()
        elapsed = max(1e-9, now - self._looked_at)
        rates = {
            name: (value - self._last.get(name, 0.0)) / elapsed for name, value in figures.items()
        }
        self._looked_at, self._last = now, figures
        return rates
