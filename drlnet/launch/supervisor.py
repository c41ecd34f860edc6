"""Watches a group of roles: what they say, when they end; stops them all when it ends itself."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from drlnet.errors import RoleFailed
from drlnet.launch.process import DRLNET, LESS_MEMORY, Process, Watched
from drlnet.launch.signals import Stop

_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Said:
    """A JSON line on a role's standard output."""

    process: Watched
    values: dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """A role's end."""

    process: Watched
    returncode: int


@dataclass(frozen=True)
class Told:
    """A line on the standard input that listen() reads; None: it was closed."""

    line: str | None


Event = Said | Ended | Told


class Group(Protocol):
    """Roles that one command watches: processes of this machine (Supervisor), or of several."""

    def start(self, name: str, args: Sequence[str]) -> Watched:
        """Starts `drlnet ARGS`."""

    def wait(self, timeout: float) -> list[Event]:
        """What happens within `timeout` seconds; returns at the first event, or once stopped."""

    def wait_for_line(self, process: Any, event: str, deadline_s: float) -> dict[str, Any]:
        """The line {"event": EVENT, ...} of a role; empty when stopped before."""

    def end(self, processes: Sequence[Any]) -> list[Said]:
        """Stops these roles and waits for them; returns their last words."""


class Waiting:
    """How groups wait for what one role says."""

    _stop: Stop
    _heard: list[Event]  # what the next wait() begins with

    def wait(self, timeout: float) -> list[Event]:
        """See Group."""
        raise NotImplementedError

    def _look_at(self, process: Any) -> str:
        """Where to look for why a role says nothing: a remedy."""
        raise NotImplementedError

    def wait_for_line(self, process: Any, event: str, deadline_s: float) -> dict[str, Any]:
        """The line {"event": EVENT, ...} of a role; empty when stopped before.

        Raises what the role died of, or RoleFailed when it says nothing in time.
        """
        deadline = time.monotonic() + deadline_s
        while not self._stop.is_set():
            left = deadline - time.monotonic()
            if left <= 0:
                raise RoleFailed(
                    f"{process.name} was not ready within {deadline_s:g} s",
                    self._look_at(process),
                )
            events = self.wait(left)
            for index, happened in enumerate(events, 1):
                if isinstance(happened, Ended) and not happened.process.stopping:
                    raise happened.process.failure()
                if (
                    isinstance(happened, Said)
                    and happened.process is process
                    and happened.values.get("event") == event
                ):
                    self._heard = events[index:]  # its end, perhaps, which came at the same moment
                    return happened.values
        return {}


class Supervisor(Waiting):
    """A group of processes that live no longer than this object.

    One thread, one selector over their pipes, their pidfds and the stop flag: nothing is polled.
    Leaving it stops every process: SIGTERM, then SIGKILL for those that have not ended after
    `grace_s` seconds. Ctrl-Z stops them all until the shell's `fg` or `bg`: they are in sessions of
    their own, where a terminal's signals do not come. less_memory, aloud, words: see Process.
    suspend: the signal by which Ctrl-Z is handed on. Threading: main thread only.
    """

    def __init__(
        self,
        stop: Stop,
        *,
        log_folder: Path | None = None,
        grace_s: float = 5.0,
        program: Sequence[str] = DRLNET,
        less_memory: str = LESS_MEMORY,
        aloud: bool = False,
        suspend: signal.Signals = signal.SIGSTOP,
        words: Callable[[str, str], None] | None = None,
    ) -> None:
        self._words = words
        self._stop = stop
        self._suspend_signal = suspend
        self._log_folder = log_folder
        self._grace_s = grace_s
        self._program = program
        self._less_memory, self._aloud = less_memory, aloud
        self._selector = selectors.DefaultSelector()
        self._selector.register(stop.fileno(), selectors.EVENT_READ, None)
        self._told = b""  # a line that is not whole yet
        self._heard: list[Event] = []  # what the next wait() begins with
        self.processes: list[Process] = []

    def __enter__(self) -> Supervisor:
        self._saved = signal.signal(signal.SIGTSTP, self._suspend)
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            signal.signal(signal.SIGTSTP, self._saved)
            self.end(self.processes)
        finally:
            for process in self.processes:
                process.close()
            self._selector.close()

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        for process in self.processes:
            process.signal_group(self._suspend_signal)
        # Not by the default of SIGTSTP: the kernel drops it where no shell could continue us.
        os.kill(os.getpid(), signal.SIGSTOP)
        for process in self.processes:  # here after `fg`
            process.signal_group(signal.SIGCONT)

    def start(
        self,
        name: str,
        args: Sequence[str],
        *,
        program: Sequence[str] | None = None,
        told: bool = False,
    ) -> Process:
        """Starts `drlnet ARGS`; its output is kept as NAME.log in the log folder.

        program: what is started in place of the group's. told: see Process.
        """
        log_path = self._log_folder / f"{name}.log" if self._log_folder else None
        process = Process(
            name,
            args,
            log_path,
            program or self._program,
            self._less_memory,
            aloud=self._aloud,
            told=told,
            words=self._words,
        )
        self.processes.append(process)
        for pipe, stream in process.streams.items():
            self._selector.register(stream, selectors.EVENT_READ, (process, pipe))
        self._selector.register(process.pid_fd, selectors.EVENT_READ, (process, "end"))
        return process

    def wait(self, timeout: float) -> list[Event]:
        """What happens within `timeout` seconds; returns at the first event, or once stopped.

        Among events of one moment, ends come last: a caller that leaves then has heard the rest.
        """
        if self._heard:
            heard, self._heard = self._heard, []
            return heard
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            ready = self._selector.select(max(0.0, left))
            events: list[Event] = []
            for key, _ in ready:
                if key.data == "told":
                    events += self._hear(key.fd)
                elif key.data is not None:
                    events += self._take(*key.data)
                else:
                    self._stop.heard()
            if events or left <= 0 or self._stop.is_set():
                return sorted(events, key=lambda event: isinstance(event, Ended))

    def listen(self, descriptor: int) -> None:
        """Has wait() tell the lines that come there, too, and its end."""
        os.set_blocking(descriptor, False)
        self._selector.register(descriptor, selectors.EVENT_READ, "told")

    def deaf(self) -> None:
        """Has wait() wait although it was stopped: for what is ending."""
        with suppress(KeyError):
            self._selector.unregister(self._stop.fileno())

    def _hear(self, descriptor: int) -> list[Event]:
        data = os.read(descriptor, _READ_BYTES)
        *lines, self._told = (self._told + data).split(b"\n")
        events: list[Event] = [Told(line.decode()) for line in lines]
        if not data:
            self._selector.unregister(descriptor)
            events.append(Told(None))
        return events

    def _take(self, process: Process, what: str) -> list[Event]:
        if what != "end":
            return list(self._drain(process, what))
        if process.returncode is None:
            return []
        self._selector.unregister(process.pid_fd)
        events: list[Event] = []
        for pipe in tuple(process.streams):  # its last words come before its end
            events += self._drain(process, pipe)
        if not process.streams:  # else a child of its own has them yet
            process.close()  # a group may outlive thousands
            self.processes.remove(process)
        return [*events, Ended(process, process.returncode)]

    def _drain(self, process: Process, pipe: str) -> list[Event]:
        stream = process.streams.get(pipe)
        objects, is_open = process.read(pipe)
        if not is_open and stream is not None:
            self._selector.unregister(stream)
            stream.close()
        return [Said(process, values) for values in objects]

    def _look_at(self, process: Any) -> str:
        return f"run it by hand: drlnet {' '.join(process.args)}"

    def end(self, processes: Sequence[Any]) -> list[Said]:
        """Stops these roles and waits for them; SIGKILL for those that take too long.

        Returns their last words.
        """
        said: list[Said] = []

        def read(process: Process, pipe: str) -> bool:
            objects, is_open = process.read(pipe)
            said.extend(Said(process, values) for values in objects)
            return is_open

        waiting = [process for process in processes if process.returncode is None]
        for process in waiting:
            process.stopping = True
            process.signal(signal.SIGTERM)
        deadline = time.monotonic() + self._grace_s
        with selectors.DefaultSelector() as selector:
            for process in waiting:
                selector.register(process.pid_fd, selectors.EVENT_READ, (process, "end"))
                # Drained meanwhile: a role that blocks on a full pipe could not end.
                for pipe, stream in process.streams.items():
                    selector.register(stream, selectors.EVENT_READ, (process, pipe))
            while any(process.returncode is None for process in waiting):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                for key, _ in selector.select(left):
                    process, pipe = key.data
                    if pipe == "end" or not read(process, pipe):
                        selector.unregister(key.fileobj)
        for process in waiting:
            process.signal(signal.SIGKILL)
        for process in processes:  # those that had ended by themselves, too
            for pipe in process.streams:
                read(process, pipe)
        return said
