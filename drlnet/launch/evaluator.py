"""The evaluator: a process forked from the learner's, which has imported all that it needs."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drlnet.config import Config
from drlnet.errors import DrlnetError, RoleFailed, tell
from drlnet.launch.guard import die_with
from drlnet.launch.process import error_told
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder

_GRACE_MS = 5000
_ERROR_BYTES_MAX = 1 << 16


@contextmanager
def evaluating(config: Config, run: RunFolder, server: str, stop: Stop) -> Iterator[None]:
    """Keeps an evaluator of the server's params while the block runs.

    Where the evaluator fails, stops the block and raises why. Its log is evaluator.log in the run's
    folder. Main thread only, before other threads are started and before a GPU is used.
    """
    from drlnet.roles import evaluator  # before the fork: torch is imported once

    parent = os.getpid()
    said, saying = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _child(evaluator.evaluate_published, parent, saying, config, server, run)
    os.close(saying)
    pid_fd, leaving = os.pidfd_open(pid), threading.Event()

    def watch() -> None:
        select.select([pid_fd], [], [])
        if not leaving.is_set():
            stop.end()

    watching = threading.Thread(target=watch, name="evaluator", daemon=True)
    watching.start()
    try:
        yield
    finally:
        failed = _ended(pid_fd, 0)
        leaving.set()
        signal.pidfd_send_signal(pid_fd, signal.SIGTERM)
        if not _ended(pid_fd, _GRACE_MS):
            signal.pidfd_send_signal(pid_fd, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        watching.join()
        words = os.read(said, _ERROR_BYTES_MAX)
        os.close(said)
        os.close(pid_fd)
    if failed and code:
        raise _failure(words, code, run)


def _ended(pid_fd: int, timeout_ms: int) -> bool:
    poll = select.poll()
    poll.register(pid_fd, select.POLLIN)
    return bool(poll.poll(timeout_ms))


def _failure(words: bytes, code: int, run: RunFolder) -> DrlnetError:
    if words:
        return error_told(json.loads(words), "evaluator", run.evaluator_log_path)
    return RoleFailed(f"evaluator ended with exit code {code}", f"see {run.evaluator_log_path}")


def _child(
    role: Callable[[Config, str, RunFolder, Stop, Callable[[str], None]], None],
    parent: int,
    saying: int,
    config: Config,
    server: str,
    run: RunFolder,
) -> None:
    """Runs the role and ends the process: nothing of the learner's is unwound in it."""
    code = 1
    try:
        die_with(parent)
        log = os.open(run.evaluator_log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        for stream in (1, 2):
            os.dup2(log, stream)
        with Stop() as stop:
            role(config, server, run, stop, print)
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
