"""When a role that has ended is started again, and which have."""

from __future__ import annotations

import heapq
import math
import time
from collections import deque

from drlnet.errors import RoleFailed
from drlnet.launch.supervisor import Ended

_BACK_OFF_S, _BACK_OFF_MAX_S = 0.5, 30.0
_WINDOW_S = 60.0


class Restarts:
    """Roles that a signal has ended (no memory, a crash, a lost host) are started again.

    So is one that ends because a process of its own has: a learner whose evaluator or rank was
    killed. Each after twice the time of the one before it; more than `limit` of them within a
    minute are a failure; those that were lost with their host do not count. An error that a role
    tells itself would only come again. Not thread-safe.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._due: list[tuple[float, int]] = []  # a heap: when, which
        self._lately_s: deque[float] = deque()
        self.count = 0
        self.failures: list[str] = []  # those that did not end all, in words

    @property
    def waiting(self) -> int:
        """How many are to be started again."""
        return len(self._due)

    @property
    def due_in_s(self) -> float:
        """How long until the next one is to be started again."""
        return max(0.0, self._due[0][0] - time.monotonic()) if self._due else math.inf

    def heed(self, ended: Ended, which: int = 0) -> None:
        """Plans the next start of the role that has ended. Raises its error where there is none."""
        now, lately = time.monotonic(), self._lately_s
        while lately and lately[0] < now - _WINDOW_S:
            lately.popleft()
        process, lost = ended.process, ended.process.lost
        of_its_own = ended.returncode == RoleFailed.exit_code
        told = ended.returncode > 0 and not of_its_own
        if not lost and (told or len(lately) >= self._limit):
            raise process.failure()
        words = f"{process.name} {process.ending}"
        self.failures.append(process.failure().cause if of_its_own else words)
        wait_s = min(_BACK_OFF_MAX_S, _BACK_OFF_S * 2 ** len(lately))
        if not lost:
            lately.append(now)
        heapq.heappush(self._due, (now + wait_s, which))

    def due(self) -> list[int]:
        """Which are to be started now; they count as started."""
        found = []
        while self._due and self.due_in_s == 0:
            found.append(heapq.heappop(self._due)[1])
        self.count += len(found)
        return found

    def forget(self) -> None:
        """Starts none any more."""
        self._due.clear()
