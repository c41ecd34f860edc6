"""Which core a thread runs on while it is measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cores:
    """One core for the server and one for the client; none where there is only one."""

    server: int | None
    client: int | None
    count: int

    @staticmethod
    def usable() -> Cores:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            return Cores(None, None, len(cores))
        return Cores(cores[0], cores[1], len(cores))


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """The calling thread on that core; where it was, when it is None."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin_process(pid: int, core: int | None) -> None:
    """Every thread of that process on one core; threads that they start later follow."""
    if core is None:
        return
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})
