"""How long threads waited for a core: the kernel's own account, per thread."""

from __future__ import annotations

import os
from pathlib import Path


class RunDelay:
    """Time for which the threads of a process could have run and no core took them.

    Source: the second field of /proc/PID/task/TID/schedstat (kernel documentation, sched-stats).
    The threads are those that exist when it is made. Errors: OSError where the kernel keeps no
    such account (CONFIG_SCHED_INFO), or the process is gone.
    """

    def __init__(self, pid: int | None = None) -> None:
        """Of all threads of `pid`; of the calling thread alone when it is None."""
        threads = (
            [Path("/proc/thread-self")]
            if pid is None
            else list(Path(f"/proc/{pid}/task").iterdir())
        )
        self._files = [os.open(thread / "schedstat", os.O_RDONLY) for thread in threads]

    def __enter__(self) -> RunDelay:
        return self

    def __exit__(self, *raised: object) -> None:
        for file in self._files:
            os.close(file)

    def total_us(self) -> float:
        """Since the threads began."""
        return sum(int(os.pread(file, 64, 0).split()[1]) for file in self._files) / 1e3
