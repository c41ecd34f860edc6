"""An object in a process of its own, called through a socket.

What is measured, and what inserts beside it, each has a process that may die without taking the
benchmark along; what it starts goes with it.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from drlnet.bench.leftovers import left_behind, own
from drlnet.bench.peers import PeerUnavailable
from drlnet.errors import DrlnetError
from drlnet.launch.guard import child_environment
from drlnet.launch.process import DRLNET
from drlnet.launch.signals import Stop

IMPORT_S = 60.0  # of whoever is measured; to fill it may take longer
MEASURE_S = 60.0  # of one operation, which is timed for half a second
_GRACE_S = 10.0
_TAG = "drlnet-worker-"  # of folders for temporary files


class WorkerFailed(Exception):
    """What a worker raised, or how it ended: `str()` is one line."""


class Stopped(Exception):
    """The end was asked for while a worker was waited for."""


class Worker:
    """Calls methods of `make()`, an object in a child process that lives no longer than this.

    make and whatever is passed and returned must pickle. Its temporary files go with it, however it
    ends. Threading: main thread only (see guard).
    """

    def __init__(self, stop: Stop, make: Callable[[], Any]) -> None:
        self._stop = stop
        self._words = tempfile.TemporaryFile()  # noqa: SIM115, closed in close()
        for left in left_behind(Path(tempfile.gettempdir()), _TAG):
            shutil.rmtree(left, ignore_errors=True)  # it may be another user's
        self._folder = tempfile.TemporaryDirectory(
            prefix=f"{own(_TAG)}-", ignore_cleanup_errors=True
        )
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*DRLNET, "bench", "worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._words,
                stderr=self._words,
                pass_fds=[theirs.fileno()],
                env={**child_environment(), "TMPDIR": self._folder.name},
                start_new_session=True,  # Ctrl-C is ours alone; and all of it ends together
            )
        self._connection: Connection[Any, Any] = Connection(ours.detach())
        self.pid = self._process.pid
        self._pid_fd = os.pidfd_open(self.pid)
        self._connection.send(pickle.dumps(make))

    def begin(self, method: str, *args: Any) -> None:
        """Starts a call; the answer is for `answer`."""
        try:
            self._connection.send((method, args))
        except OSError as error:
            raise WorkerFailed(self._end()) from error

    def answer(self, deadline_s: float, late: str = "no answer") -> Any:
        """What the call returned. Raises WorkerFailed, Stopped. late: what it is after that."""
        sources: list[Any] = [self._connection, self._pid_fd, self._stop.fileno()]
        end_s = time.monotonic() + deadline_s
        while self._stop.fileno() in (ready := wait(sources, max(0.0, end_s - time.monotonic()))):
            if self._stop.heard():
                raise Stopped
        if not ready:
            raise WorkerFailed(f"{late} within {deadline_s:g} s")
        try:
            succeeded, result = self._connection.recv()
        except (EOFError, OSError) as error:
            raise WorkerFailed(self._end()) from error
        if not succeeded:
            raise WorkerFailed(result)
        return result

    def call(self, method: str, *args: Any, deadline_s: float = 300.0) -> Any:
        """begin and answer."""
        self.begin(method, *args)
        return self.answer(deadline_s)

    def measure(self, *args: Any) -> Any:
        """A call of `measure`, which times an operation and soon returns."""
        self.begin("measure", *args)
        return self.answer(MEASURE_S)

    def _end(self) -> str:
        """How it ended, with the last line that it wrote. It is not reaped: see close()."""
        wait([self._pid_fd], _GRACE_S)
        ended = os.waitid(os.P_PIDFD, self._pid_fd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is None:
            how = "it answers no more"
        elif ended.si_code == os.CLD_EXITED:
            how = f"it ended with exit code {ended.si_status}"
        else:
            how = f"it was killed by {signal.Signals(ended.si_status).name}"
        self._words.seek(0)
        lines = self._words.read().decode("utf-8", "replace").strip().splitlines()
        return f"{how}: {lines[-1]}" if lines else how

    def close(self) -> None:
        """Ends the process and all that it has started; it has time to tidy up."""
        if not wait([self._pid_fd], 0):
            signal.pidfd_send_signal(self._pid_fd, signal.SIGTERM)
            wait([self._pid_fd], _GRACE_S)
        # Its group goes by its number, which is nobody else's until it is reaped.
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._pid_fd)
        self._connection.close()
        self._words.close()
        self._folder.cleanup()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class Workers:
    """Workers by name, each begun when it is first asked for; all end with this.

    What they make has a method `ready`, which returns: whoever makes it imports what it needs.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._workers: dict[str, Worker] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._workers

    def of(self, name: str, make: Callable[[], Any]) -> Worker:
        """That worker, whose object is made. Raises WorkerFailed, Stopped."""
        if name not in self._workers:
            worker = self._workers[name] = Worker(self._stop, make)
            worker.begin("ready")
            worker.answer(IMPORT_S, "not imported")
        return self._workers[name]

    def end(self, name: str) -> None:
        """Ends that one; there may be another of its name."""
        self._workers.pop(name).close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *raised: object) -> None:
        for name in list(self._workers):
            self.end(name)


class Asked:
    """Whether another call is waiting: for methods that go on until then. Cheap to ask often."""

    _LOOK_NS = 1_000_000

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection = connection
        self._next_ns = 0

    def __call__(self) -> bool:
        now = time.perf_counter_ns()
        if now < self._next_ns:
            return False
        self._next_ns = now + self._LOOK_NS
        return self._connection.poll()


def serve_calls(descriptor: int) -> None:
    """The child's side: makes the object, carries out calls until it is told to end.

    An object with `hear` is given an Asked; one with `close` is closed in the end.
    """

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is on its way
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    with Connection(descriptor) as connection:
        made: Any = None
        try:
            made, failure = _made(connection)
            if hasattr(made, "hear"):
                made.hear(Asked(connection))
            while True:
                method, args = connection.recv()
                connection.send((False, failure) if failure else _result(made, method, args))
        except (EOFError, BrokenPipeError):
            return  # the other side is gone
        finally:
            if hasattr(made, "close"):
                made.close()


def _made(connection: Connection[Any, Any]) -> tuple[Any, str]:
    """(the object, "") or (None, why there is none), which every call is then told."""
    data = connection.recv()
    try:
        return pickle.loads(data)(), ""
    except Exception as error:
        return None, _words(error)


def _result(made: Any, method: str, args: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, getattr(made, method)(*args)
    except Exception as error:
        return False, _words(error)


def _words(error: Exception) -> str:
    if isinstance(error, PeerUnavailable):
        return str(error)  # it has words already
    if isinstance(error, DrlnetError):
        return error.cause
    words = (str(error).strip() or "no further words").splitlines()[0]
    return f"{type(error).__name__}: {words}"
