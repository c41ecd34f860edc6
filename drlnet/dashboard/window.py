"""Two readings of one server and the time between them: what grew, how fast, what was recorded."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from drlnet.dashboard.reading import Reading, is_histogram, number


@dataclass(frozen=True)
class Window:
    """`after` was read `seconds` after `before`; None: it is the first one."""

    before: Reading | None
    after: Reading
    seconds: float
    # Histograms that were asked for: many cells of a table ask for the same one.
    _recorded: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def latest(self, key: str) -> float:
        """The newest value; NaN for what the server does not tell."""
        return number(self.after.get(key))

    def text(self, key: str) -> str:
        """The newest value of a text; "" for what the server does not tell."""
        value = self.after.get(key)
        return value if isinstance(value, str) else ""

    def grew(self, key: str) -> float:
        """Returns by how much a counter grew; NaN without an earlier reading.

        One that was not there before, or that is smaller now, began anew at zero.
        """
        if self.before is None:
            return math.nan
        now, then = self.latest(key), number(self.before.get(key))
        return now if math.isnan(then) or now < then else now - then

    def rate(self, key: str) -> float:
        """The growth per second."""
        return self.grew(key) / self.seconds if self.seconds > 0 else math.nan

    def rates(self) -> dict[str, float]:
        """Per second, everything that grew; histograms by their counts."""
        found = {key: self.rate(key) for key in self.after}
        for key in self.after:
            recorded = self.histogram(key)
            if recorded is not None and self.seconds > 0:
                found[key] = recorded.count / self.seconds
        return {key: value for key, value in found.items() if value > 0}

    def histogram(self, key: str) -> Any:
        """The Histogram of what was recorded within the window; None without such a histogram."""
        if key not in self._recorded:
            self._recorded[key] = self._since(key)
        return self._recorded[key]

    def _since(self, key: str) -> Any:
        now = self.after.get(key)
        if self.before is None or not is_histogram(now):
            return None
        then = self.before.get(key)
        return now.since(then) if is_histogram(then) else now
