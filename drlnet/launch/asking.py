"""Asks a server for the settings of its run, before a command that joins it does anything else."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

from drlnet.config import Config, joined
from drlnet.errors import RoleFailed, tell
from drlnet.guard import die_with
from drlnet.launch.process import error_told
from drlnet.launch.signals import Stop

_READ_BYTES = 1 << 16


def settings_of_run(server: str, stop: Stop, note: Callable[[str], None], **layers: Any) -> Config:
    """The settings of the run at that server, under what the caller is given (see config.joined).

    Errors: those of config.joined and of asked. Main thread, before other threads are started.
    """
    return joined(asked(server, stop, note), server, **layers)


def asked(server: str, stop: Stop, note: Callable[[str], None]) -> str:
    """The settings of the run at that server, as TOML.

    Asked in a process of its own: this one may still have to fork, which it could not once DPDK
    has started. Errors: those of roles.run_at_server; KeyboardInterrupt when stopped. Main thread,
    before other threads are started.
    """
    answer, answering = os.pipe2(os.O_CLOEXEC)
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        _ask(server, parent, answering, note)
    os.close(answering)
    said = b""
    try:
        with stop.interrupts():
            while data := os.read(answer, _READ_BYTES):
                said += data
    finally:
        os.close(answer)
        if not said:  # it was not waited for, or has crashed
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if not said:
        raise RoleFailed(f"asking {server} for its run's settings failed", "name ENV here, too")
    told = json.loads(said)
    if "error" in told:
        raise error_told(told["error"], "", None)
    return str(told["settings"])


def _ask(server: str, parent: int, answering: int, note: Callable[[str], None]) -> None:
    """Asks, answers the parent, and ends the process: nothing of the parent's is unwound in it."""
    try:
        die_with(parent)
        from drlnet.roles.run_at_server import settings_told

        with Stop() as stop:
            answer: dict[str, Any] = {"settings": settings_told(server, stop, note)}
    except KeyboardInterrupt:
        os._exit(0)
    except BaseException as error:
        answer = {"error": tell(error).said()}
    data = json.dumps(answer).encode()
    while data:
        data = data[os.write(answering, data) :]
    os._exit(0)
