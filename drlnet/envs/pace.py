"""An environment's pace: steps at most so often, as a machine or a slow simulator would."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Holds steps back to at most `per_second` of them. Not thread-safe.

    Step n is due 1 / per_second after step n - 1 was due, so that what a wait oversleeps does not
    add up. A step that comes later than it was due is counted in `late`; time lost is not made up
    for: the next one is due a whole interval after it.
    """

    def __init__(
        self,
        per_second: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        """per_second: None: nothing is held back."""
        self._interval_s = 0.0 if per_second is None else 1 / per_second
        self._clock, self._sleep = clock, sleep
        self._due_s: float | None = None  # of the next step; None: before the first
        self.late = 0

    @property
    def holds(self) -> bool:
        """Whether there is a pace to keep."""
        return self._interval_s > 0

    def wait(self) -> None:
        """Waits until the next step is due."""
        if not self.holds:
            return
        now = self._clock()
        if self._due_s is None:
            self._due_s = now
        if now > self._due_s:
            self.late += 1
            self._due_s = now
        elif now < self._due_s:
            self._sleep(self._due_s - now)
        self._due_s += self._interval_s
