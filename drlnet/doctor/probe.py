"""Trials in processes of their own: what may crash, hang or load DPDK does so there."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from drlnet.guard import child_environment
from drlnet.launch.process import DRLNET

DEADLINE_S = 60.0  # of all trials together; importing torch from a cold disk is the longest
COMMAND = "doctor-trial"


class TrialFailed(Exception):
    """A trial that did not succeed: its own error where it could say one, else how it ended.

    For checks alone, which turn it into a finding.
    """

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy


class Probes:
    """Starts trials at once, so that they run side by side. Enter it around its use.

    Threading: made in the main thread (see guard); answers may be asked for by any one
    thread at a time.
    """

    def __init__(
        self, names: Sequence[str], program: Sequence[str] = DRLNET, deadline_s: float = DEADLINE_S
    ) -> None:
        self._deadline_s = deadline_s
        self._until = time.monotonic() + deadline_s
        self._answers: dict[str, dict[str, Any] | TrialFailed] = {}
        self._running: dict[str, subprocess.Popen[str]] = {}
        for name in names:
            try:
                self._running[name] = _start([*program, COMMAND, name, "--json"])
            except PermissionError as error:
                self._answers[name] = TrialFailed(
                    f"cannot start {program[0]}: {error.strerror}",
                    "let this user read and execute this installation of Python and drlnet",
                )
            except OSError as error:
                self._answers[name] = TrialFailed(
                    f"cannot start a process: {error.strerror}",
                    "raise the limits on processes and open files (ulimit -u, ulimit -n)",
                )

    def __enter__(self) -> Probes:
        return self

    def __exit__(self, *raised: object) -> None:
        for process in self._running.values():
            process.kill()
            process.communicate()
        self._running.clear()

    def answer(self, name: str) -> Mapping[str, Any]:
        """What that trial found, waiting for it. Raises TrialFailed: why it did not succeed."""
        if name in self._running:
            self._answers[name] = self._collect(self._running.pop(name))
        answer = self._answers[name]
        if isinstance(answer, TrialFailed):
            raise TrialFailed(answer.cause, answer.remedy)
        return answer

    def _collect(self, process: subprocess.Popen[str]) -> dict[str, Any] | TrialFailed:
        try:
            out, err = process.communicate(timeout=max(0.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return TrialFailed(
                f"no answer within {self._deadline_s:g} s",
                "try again; if it stays so, look at what else the machine does",
            )
        return _read(process.returncode, out, err)


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=child_environment(),
        start_new_session=True,
    )


def _read(returncode: int, out: str, err: str) -> dict[str, Any] | TrialFailed:
    lines = out.splitlines()
    try:
        values = json.loads(lines[-1]) if lines else None
    except ValueError:
        values = None
    if isinstance(values, dict):
        error = values.get("error")
        if isinstance(error, dict):
            return TrialFailed(str(error.get("cause", "")), str(error.get("remedy", "")))
        if returncode == 0:
            return values
    if returncode < 0:
        how = f"its process was killed by {signal.Signals(-returncode).name}"
    else:
        words = err.strip().splitlines()
        how = f"exit code {returncode}" + (f": {words[-1].strip()}" if words else "")
    return TrialFailed(how, "install drlnet anew: pip install --force-reinstall .")
