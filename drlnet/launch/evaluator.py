"""The evaluator as a process beside the learner."""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from drlnet.launch.process import Process
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder

NAME = "evaluator"
_GRACE_S = 5.0


def evaluator_args(run: RunFolder, server: str) -> list[str]:
    """The command of a run's evaluator: its settings are in the run's folder."""
    return [NAME, "--server", server, "--run", str(run.path), "--json"]


@contextmanager
def evaluating(run: RunFolder, server: str, stop: Stop) -> Iterator[None]:
    """Keeps an evaluator while the block runs. Where it fails, stops the block and raises why.

    Main thread only (see guard).
    """
    process = Process(NAME, evaluator_args(run, server), run.path / f"{NAME}.log")

    def watch() -> None:
        select.select([process.pid_fd], [], [])
        if not process.stopping:
            stop.end()

    watching = threading.Thread(target=watch, name=NAME, daemon=True)
    watching.start()
    try:
        yield
        for name in ("stdout", "stderr"):
            process.read(name)
        if process.returncode:
            raise process.failure()
    finally:
        process.stopping = True
        process.signal(signal.SIGTERM)
        watching.join(timeout=_GRACE_S)
        process.close()  # kills it where it has not ended
        watching.join()


