"""Processes forked from the learner's, which has imported all that they need."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from drlnet.errors import DrlnetError, RoleFailed, tell
from drlnet.guard import die_with
from drlnet.launch.process import error_told
from drlnet.launch.signals import Stop
from drlnet.roles.reach import UNANSWERED

_GRACE_MS = 5000
_ERROR_BYTES_MAX = 1 << 16


@dataclass(frozen=True)
class Fork:
    """A role to fork, and its log. told: it ends when the block is asked to, not after it."""

    name: str
    log_path: Path
    role: Callable[[Stop], None]
    told: bool = False


@contextmanager
def forked(forks: Sequence[Fork], stop: Stop) -> Iterator[None]:
    """Keeps a process of each while the block runs.

    Where one of them ends, stops the block and raises why, in place of an interruption or of the
    block's own RoleFailed; a child's RoleFailed, too, is only what followed from another's end.
    What fails for want of a server's answer, once the block is asked to end, is left untold.
    Main thread only, before other threads are started and before a GPU is used.
    """
    children = [_Child(fork) for fork in forks]
    leaving, asked = threading.Event(), threading.Event()
    watching = threading.Thread(
        target=_watch, args=(children, stop, leaving, asked), name="forks", daemon=True
    )
    watching.start()

    def end(grace_ms: int) -> DrlnetError | None:
        failed = [child for child in children if child.ended(grace_ms if child.fork.told else 0)]
        leaving.set()
        for child in children:
            child.tell(signal.SIGTERM)
        for child in children:
            child.reap()
        watching.join()
        failed = sorted((child for child in failed if child.code), key=_Child.follows)
        failure = failed[0].failure() if failed else None
        for child in children:
            child.close()
        return None if asked.is_set() and isinstance(failure, UNANSWERED) else failure

    try:
        yield
    except (KeyboardInterrupt, RoleFailed) as error:
        # The kernel closes what a process had open before it tells of its end.
        failure = end(_GRACE_MS if isinstance(error, RoleFailed) else 0)
        if failure is None:
            raise
        raise failure from error
    except BaseException:
        end(0)
        raise
    failure = end(0)
    if failure is not None:
        raise failure


def _watch(
    children: Sequence[_Child], stop: Stop, leaving: threading.Event, asked: threading.Event
) -> None:
    """Ends the block where a child has ended, and tells those children of the block's stop.

    asked: set where the block is asked to end by something else.
    """
    poll = select.poll()
    poll.register(stop.fileno(), select.POLLIN)
    for child in children:
        poll.register(child.pid_fd, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if any(child.pid_fd in ready for child in children):
            if not leaving.is_set():
                stop.end()
            return
        if stop.heard():
            asked.set()
            poll.unregister(stop.fileno())
            for child in children:
                if child.fork.told:
                    child.tell(signal.SIGTERM)


class _Child:
    """One forked process, seen from the one that forked it."""

    def __init__(self, fork: Fork) -> None:
        self.fork = fork
        parent = os.getpid()
        self._said, saying = os.pipe2(os.O_CLOEXEC)
        self.code = 0
        self._pid = os.fork()
        if self._pid == 0:
            _run(fork, parent, saying)
        os.close(saying)
        self.pid_fd = os.pidfd_open(self._pid)

    def ended(self, timeout_ms: int) -> bool:
        """Whether it ends within that time."""
        poll = select.poll()
        poll.register(self.pid_fd, select.POLLIN)
        return bool(poll.poll(timeout_ms))

    def tell(self, number: int) -> None:
        """Sends a signal; nothing where it has ended."""
        if not self.ended(0):
            signal.pidfd_send_signal(self.pid_fd, number)

    def reap(self) -> None:
        """Waits for its end; kills it where that takes too long."""
        if not self.ended(_GRACE_MS):
            self.tell(signal.SIGKILL)
        self.code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        words = os.read(self._said, _ERROR_BYTES_MAX) if self.code else b""
        self._error: dict[str, Any] = json.loads(words) if words else {}

    def follows(self) -> bool:
        """Whether it failed because another one had ended. After reap()."""
        return self._error.get("type") == RoleFailed.__name__

    def failure(self) -> DrlnetError:
        """Why it failed. After reap()."""
        name, log_path = self.fork.name, self.fork.log_path
        if self._error:
            return error_told(self._error, name, log_path)
        ending = f"ended with exit code {self.code}"
        if self.code < 0:
            ending = f"was killed by {signal.Signals(-self.code).name}"
        return RoleFailed(f"{name} {ending}", f"see {log_path}")

    def close(self) -> None:
        os.close(self._said)
        os.close(self.pid_fd)


def _run(fork: Fork, parent: int, saying: int) -> NoReturn:
    """Runs the role and ends the process: nothing of the learner's is unwound in it."""
    code = 1
    try:
        die_with(parent)
        log = os.open(fork.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        for stream in (1, 2):
            os.dup2(log, stream)
        with Stop() as stop:
            fork.role(stop)
        code = 0
    except KeyboardInterrupt:
        code = 0
    except BaseException as error:
        told = tell(error)
        os.write(saying, json.dumps(told.said()).encode())
        print(f"{told.trace}{told.cause}\n{told.remedy}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
