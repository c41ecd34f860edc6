"""Starts the real commands and waits for what they say, each wait with a deadline."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import drlnet
from drlnet.errors import DrlnetError
from drlnet.metrics import RunFolder

PROGRAM = [sys.executable, str(Path(drlnet.__file__).with_name("__main__.py"))]
DEADLINE_S = 60.0

# The smallest training that still goes through every part.
SMALL = [
    *("--set", "replay.min_size=200", "--set", "replay.capacity=5000"),
    *("--set", "replay.batch_size=32", "--set", "net.hidden_sizes=[16]"),
    *("--set", "learner.report_interval_s=0.2", "--set", "eval.report_episodes=20"),
    *("--set", "eval.num_envs=20", "--set", "run.goal=none"),
    *("--set", "run.max_seconds=none"),
]


class Command:
    """A `drlnet` command under way; its output is read as it comes."""

    def __init__(
        self,
        args: list[str],
        folder: Path,
        session: bool = False,
        within: Sequence[str] = (),
    ) -> None:
        self.args = args
        self.popen = subprocess.Popen(
            [*within, *PROGRAM, *args],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=session,
        )
        self.out, self.err = b"", b""
        self._open = {self.popen.stdout, self.popen.stderr}

    def read(self, timeout: float) -> None:
        """Takes what it says within this many seconds; returns at the first bytes."""
        ready, _, _ = select.select(list(self._open), [], [], max(0.0, timeout))
        for pipe in ready:
            data = os.read(pipe.fileno(), 65536)
            if not data:
                self._open.discard(pipe)
            elif pipe is self.popen.stdout:
                self.out += data
            else:
                self.err += data

    def wait_for(self, pattern: str, deadline_s: float = DEADLINE_S) -> str:
        """The first line of either output in which `pattern` is found."""
        deadline = time.monotonic() + deadline_s
        while True:
            for line in (self.out + self.err).decode().splitlines():
                if re.search(pattern, line):
                    return line
            left = deadline - time.monotonic()
            assert left > 0 and self._open, f"no {pattern!r} in:\n{self.text()}"
            self.read(left)

    def end(self, number: int | None = None, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code, after a signal if one is given."""
        if number is not None:
            self.popen.send_signal(number)
        deadline = time.monotonic() + deadline_s
        while self._open:
            left = deadline - time.monotonic()
            assert left > 0, f"still running after {deadline_s} s:\n{self.text()}"
            self.read(left)
        return self.popen.wait(max(0.1, deadline - time.monotonic()))

    def text(self) -> str:
        """All that it said."""
        return f"{self.args}\n{self.out.decode()}\n{self.err.decode()}"

    def last_json(self) -> dict[str, Any]:
        """The last line of its standard output."""
        values = json.loads(self.out.decode().splitlines()[-1])
        assert isinstance(values, dict)
        return values


def learned_since(
    running: Command, folder: RunFolder, time_s: float, learner_steps: int = -1
) -> None:
    """Waits until the run's learner has reported after that time, in seconds since the epoch, and
    more steps than that."""
    deadline = time.monotonic() + 2 * DEADLINE_S
    while True:
        last = folder.last_reading("learner")
        if last.get("time", 0.0) > time_s and last["learner_steps"] > learner_steps:
            return
        assert time.monotonic() < deadline, running.text()
        running.read(0.2)


def lines_of_error(ended: Command) -> list[str]:
    """What it said on standard error, without empty lines."""
    return [line for line in ended.err.decode().splitlines() if line.strip()]


@contextmanager
def command(
    folder: Path, *args: str, session: bool = False, within: Sequence[str] = ()
) -> Iterator[Command]:
    """A command that does not outlive the block; within: what executes it in another world."""
    started = Command(list(args), folder, session, within)
    try:
        yield started
    finally:
        started.popen.kill()
        started.popen.wait()
        for pipe in (started.popen.stdout, started.popen.stderr):
            if pipe is not None:
                pipe.close()
    assert "Traceback" not in started.text(), started.text()


def finished(
    folder: Path,
    *args: str,
    deadline_s: float = DEADLINE_S,
    error: type[DrlnetError] | None = None,
    code: int | None = None,
) -> Command:
    """A command that was waited for, and has ended with 0, with that error, or with that code."""
    with command(folder, *args) as running:
        ended = running.end(deadline_s=deadline_s)
    expected = error.exit_code if error is not None else code or 0
    assert ended == expected, running.text()
    return running


@contextmanager
def serving(
    folder: Path, listen: str = "udp://127.0.0.1:0", *args: str
) -> Iterator[tuple[Command, str]]:
    """A server that may be killed, and its address."""
    with command(folder, "serve", "--listen", listen, "--json", *args) as started:
        yield started, json.loads(started.wait_for("ready"))["addresses"][0]


@contextmanager
def server(folder: Path, *args: str) -> Iterator[str]:
    """A server's address."""
    with serving(folder, "udp://127.0.0.1:0", *args) as (started, address):
        yield address
        assert started.end(signal.SIGTERM) == 0, started.text()


def descendants(pid: int) -> dict[int, str]:
    """Processes below a process, by id, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        for child in frontier:
            try:
                found[child] = (Path("/proc") / str(child) / "cmdline").read_text()
            except OSError:
                continue
    return found


def all_ended(pids: list[int]) -> bool:
    """Whether these processes end in time."""
    deadline = time.monotonic() + DEADLINE_S
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ready, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
        os.close(descriptor)
        if not ready:
            return False
    return True
