"""The processes of a benchmark: measured objects that are called through a socket, and servers.

What is measured, and what inserts beside it, each has a process that may die without taking the
benchmark along; what it starts goes with it.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from drlnet.bench.machine import pin_process
from drlnet.errors import DrlnetError
from drlnet.guard import child_environment
from drlnet.launch.process import DRLNET, Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Supervisor

IMPORT_S = 60.0  # of a peer; to fill it may take longer
MEASURE_S = 60.0  # of one operation, which is timed for half a second
_GRACE_S = 10.0
_TAG = "drlnet-worker-"  # of folders for temporary files
_REST = "rest"  # a call that every worker answers at once: it ends the one before


class PeerUnavailable(Exception):
    """A peer that is not installed, broken, or failed: `str()` is one line that says why."""


class WorkerFailed(Exception):
    """What a worker raised, or how it ended: `str()` is one line."""


class Stopped(Exception):
    """The end was asked for while a worker was waited for."""


class Worker:
    """Calls methods of `make()`, an object in a child process that lives no longer than this.

    make and all arguments and results must pickle. Its temporary files go with it, however it ends.
    program: `drlnet` in another world, such as a network namespace. Threading: main thread only
    (see guard).
    """

    def __init__(
        self,
        stop: Stop,
        make: Callable[[], Any],
        *,
        program: Sequence[str] = DRLNET,
        core: int | None = None,
    ) -> None:
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
                [*program, "bench", "worker", str(theirs.fileno())],
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
        pin_process(self.pid, core)
        self._connection.send(pickle.dumps(make))

    def begin(self, method: str, *args: Any) -> None:
        """Starts a call of `method`, or `attribute.method`; the answer is for `answer`."""
        try:
            self._connection.send((method, args))
        except OSError as error:
            raise WorkerFailed(self._end()) from error

    def answer(self, deadline_s: float = IMPORT_S, late: str = "no answer") -> Any:
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

    def ready(self) -> None:
        """Waits until the object is made. Raises WorkerFailed, Stopped."""
        self.begin(_REST)
        self.answer(IMPORT_S, "not imported")

    def measure(self, *args: Any) -> Any:
        """A call of `measure`, which times an operation and soon returns."""
        return self.call("measure", *args, deadline_s=MEASURE_S)

    @contextmanager
    def doing(self, method: str, *args: Any, deadline_s: float = MEASURE_S) -> Iterator[list[Any]]:
        """A call that goes on until the block ends; its result is in the list then.

        The method looks often whether it was asked for something else (see Lasting).
        """
        result: list[Any] = []
        self.begin(method, *args)
        yield result
        self.begin(_REST)
        result.append(self.answer(deadline_s))
        self.answer(deadline_s)

    def signal(self, number: int) -> None:
        """SIGSTOP and SIGCONT: at rest, it leaves its core and its links."""
        signal.pidfd_send_signal(self._pid_fd, number)

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
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)  # a stopped one would not heed it
            wait([self._pid_fd], _GRACE_S)
        # Its group goes by its number, which no other process has until it is reaped.
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


W = TypeVar("W", bound="Workers")


class Workers:
    """Workers by name, each begun when it is first asked for; all end with this."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._workers: dict[str, Worker] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._workers

    def of(
        self,
        name: str,
        make: Callable[[], Any],
        *,
        program: Sequence[str] = DRLNET,
        core: int | None = None,
    ) -> Worker:
        """That worker, whose object is made. Raises WorkerFailed, Stopped."""
        if name not in self._workers:
            worker = self._workers[name] = Worker(self._stop, make, program=program, core=core)
            worker.ready()
        return self._workers[name]

    def end(self, *names: str) -> None:
        """Ends those that there are; there may be others of their names."""
        for name in names:
            if name in self._workers:
                self._workers.pop(name).close()

    def __enter__(self: W) -> W:
        return self

    def __exit__(self, *raised: object) -> None:
        self.end(*list(self._workers))


class Lasting:
    """An object of a worker with methods that go on until another call is waiting."""

    asked: Callable[[], bool]  # cheap to ask often


def serve_calls(descriptor: int) -> None:
    """The child's side: makes the object, carries out calls until it is told to end.

    One with `close` is closed in the end.
    """

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is on its way
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    with Connection(descriptor) as connection:
        made: Any = None
        try:
            made, failure = _made(connection)
            if isinstance(made, Lasting):
                made.asked = _looks(connection)
            while True:
                method, args = connection.recv()
                connection.send((False, failure) if failure else _result(made, method, args))
        except (EOFError, BrokenPipeError):
            return  # the other side is gone
        finally:
            if hasattr(made, "close"):
                made.close()


def _looks(connection: Connection[Any, Any]) -> Callable[[], bool]:
    """Whether another call is waiting, looked at once in a millisecond."""
    next_ns = 0

    def asked() -> bool:
        nonlocal next_ns
        now = time.perf_counter_ns()
        if now < next_ns:
            return False
        next_ns = now + 1_000_000
        return connection.poll()

    return asked


def _made(connection: Connection[Any, Any]) -> tuple[Any, str]:
    """(the object, "") or (None, why there is none), which every call is then told."""
    data = connection.recv()
    try:
        return pickle.loads(data)(), ""
    except Exception as error:
        return None, _words_of(error)


def _result(made: Any, method: str, args: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, None if method == _REST else attrgetter(method)(made)(*args)
    except Exception as error:
        return False, _words_of(error)


def _words_of(error: Exception) -> str:
    if isinstance(error, PeerUnavailable):
        return str(error)  # it has words already
    if isinstance(error, DrlnetError):
        return error.cause
    words = (str(error).strip() or "no further words").splitlines()[0]
    return f"{type(error).__name__}: {words}"


@contextmanager
def served(
    stop: Stop,
    listen: Sequence[str],
    poll: str,
    *,
    core: int | None = None,
    program: Sequence[str] = DRLNET,
    insecure: bool = False,
    key: Path | None = None,
) -> Iterator[tuple[Process, list[str]]]:
    """A fresh `drlnet serve` and its addresses while entered, on that core; key: as it takes it.

    Raises what it died of, Stopped.
    """
    places = [word for place in listen for word in ("--listen", place)]
    with Supervisor(stop, program=program) as group:
        words = ["serve", "--json", *(["--insecure"] if insecure else []), "--poll", poll, *places]
        words += [] if key is None else ["--key", str(key)]
        server = group.start("server", words)
        ready = group.wait_for_line(server, "ready", IMPORT_S)
        if not ready:
            raise Stopped
        pin_process(server.pid, core)
        yield server, ready["addresses"]
        if server.returncode is not None:
            raise server.failure()


def own(tag: str) -> str:
    """How names of this process's things begin, with a letter or a dash to follow."""
    return f"{tag}{os.getpid()}"


def left_behind(folder: Path, tag: str) -> list[Path]:
    """Things of that tag in the folder whose process has ended: a killed benchmark left them."""
    there = folder.iterdir() if folder.exists() else ()
    tagged = [(path, re.match(rf"{tag}(\d+)[-a-z]", path.name)) for path in there]
    return [path for path, match in tagged if match and not Path(f"/proc/{match[1]}").exists()]
