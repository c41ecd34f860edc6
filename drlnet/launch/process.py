"""One role's process: its pipes, its last words, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from drlnet.errors import DrlnetError, RoleFailed, all_errors
from drlnet.guard import child_environment

# The command by its file: see there why not by `-m`.
DRLNET = (sys.executable, str(Path(__file__).resolve().parents[1] / "__main__.py"))
LESS_MEMORY = "end what else takes it"
_TAIL_LINES = 12
_READ_BYTES = 65536


class Watched(Protocol):
    """A role's process as its watcher sees it: of this machine (Process), or of another."""

    name: str
    stopping: bool  # it was told to end: any exit code will do
    lost: bool  # with its host: no fault of its own
    last_object: dict[str, Any]  # the last JSON line of its standard output

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative is a signal's number."""

    @property
    def ending(self) -> str:
        """How it ended, as the rest of a sentence."""

    def failure(self) -> DrlnetError:
        """Its end as an error."""


class Process:
    """A role started as `drlnet ARGS`, in a session of its own.

    Of its own, so that Ctrl-C in the terminal reaches only the process that supervises; it tells
    the others in its order. Both pipes are drained without blocking. less_memory: what to try when
    it may have had too little. aloud: its standard error is ours, too, for want of a log. told: its
    standard input is for tell(), else it has none. words: told its name and each line that it says.
    Threading: the thread that started it, which must be the main one (see guard).
    """

    def __init__(
        self,
        name: str,
        args: Sequence[str],
        log_path: Path | None = None,
        program: Sequence[str] = DRLNET,
        less_memory: str = LESS_MEMORY,
        *,
        aloud: bool = False,
        told: bool = False,
        words: Callable[[str, str], None] | None = None,
    ) -> None:
        self.name = name
        self.lost = False
        self._words = words
        self._aloud, self._failed = aloud, False
        self._less_memory = less_memory
        self.args, self.program = list(args), tuple(program)
        self.stopping = False  # it was told to end: any exit code will do
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self.last_object: dict[str, Any] = {}  # the last JSON line of its standard output
        self._rest = {"stdout": b"", "stderr": b""}
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.log_path = log_path
        self._log = os.open(log_path, append, 0o666) if log_path else None
        self._popen = subprocess.Popen(
            [*program, *self.args],
            stdin=subprocess.PIPE if told else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(),
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.pid_fd = os.pidfd_open(self.pid)
        for stream in self.streams.values():
            os.set_blocking(stream.fileno(), False)

    @property
    def streams(self) -> dict[str, IO[bytes]]:
        """Its open pipes by name."""
        named = {"stdout": self._popen.stdout, "stderr": self._popen.stderr}
        return {name: pipe for name, pipe in named.items() if pipe is not None and not pipe.closed}

    @property
    def returncode(self) -> int | None:
        """None while it runs; negative is a signal's number."""
        return self._popen.poll()

    @property
    def ending(self) -> str:
        """How it ended, as the rest of a sentence."""
        code = self.returncode
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def read(self, name: str) -> tuple[list[dict[str, Any]], bool]:
        """Takes what has arrived in one pipe: JSON objects of whole lines, and "still open"."""
        pipe = self.streams.get(name)
        if pipe is None:
            return [], False
        objects: list[dict[str, Any]] = []
        while True:
            try:
                data = os.read(pipe.fileno(), _READ_BYTES)
            except BlockingIOError:
                return objects, True
            if not data:
                if self._rest[name]:
                    objects += self._take(name, [self._rest[name]])
                    self._rest[name] = b""
                return objects, False
            *lines, self._rest[name] = (self._rest[name] + data).split(b"\n")
            objects += self._take(name, lines)

    def _take(self, name: str, lines: Sequence[bytes]) -> list[dict[str, Any]]:
        objects = []
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip()
            self._write_log(line)
            parsed = _json_object(line) if name == "stdout" else None
            if parsed is not None:
                self.last_object = parsed
                objects.append(parsed)
            elif line:
                self.tail.append(line)
                if self._words is not None:
                    self._words(self.name, line)
                self._echo(name, line)
        return objects

    def _echo(self, name: str, line: str) -> None:
        self._failed = self._failed or line.startswith("error: ")  # its end is told as failure()
        if self._aloud and name == "stderr" and not self._failed:
            print(f"{self.name}: {line}", file=sys.stderr, flush=True)

    def _write_log(self, line: str) -> None:
        if self._log is None:
            return
        try:
            os.write(self._log, f"{line}\n".encode())
        except OSError:  # a full disk ends the log, not what is logged: `tail` has its last words
            self._close_log()

    def _close_log(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def signal(self, number: int) -> None:
        """Sends a signal unless it has ended. The pidfd cannot hit a recycled process id."""
        if self.returncode is None:
            signal.pidfd_send_signal(self.pid_fd, number)

    def signal_group(self, number: int) -> None:
        """Sends a signal to it and to the processes that it started in its own session."""
        if self.returncode is None:
            os.killpg(self.pid, number)

    def tell(self, line: str) -> None:
        """A line for its standard input."""
        assert self._popen.stdin is not None
        data = b"" if self._popen.stdin.closed else f"{line}\n".encode()
        with suppress(BrokenPipeError):  # it has ended, which says more
            while data:
                data = data[os.write(self._popen.stdin.fileno(), data) :]

    def hang_up(self) -> None:
        """Ends its standard input."""
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):
            self._popen.stdin.close()

    def close(self) -> None:
        """Kills and reaps it if it still runs, and closes its pipes."""
        self.signal(signal.SIGKILL)
        self._popen.wait()
        for name, pipe in self.streams.items():
            self.read(name)
            pipe.close()
        if self._popen.stdin is not None:
            self._popen.stdin.close()
        if self.pid_fd >= 0:
            os.close(self.pid_fd)
            self.pid_fd = -1
        self._close_log()

    def failure(self) -> DrlnetError:
        """Its end as an error: its own one if it could still say it, else its last words."""
        own = self.last_object.get("error")
        if isinstance(own, dict):
            return error_told(own, self.name, self.log_path)
        code = self.returncode
        words = "; its last words:\n  " + "\n  ".join(self.tail) if self.tail else ""
        remedy = f"run it by hand with --debug: drlnet {' '.join(self.args)}"
        if code == -signal.SIGKILL:  # as the kernel does when memory runs out
            remedy = f"if memory ran out, {self._less_memory}"
        return RoleFailed(f"{self.name} {self.ending}{words}", remedy)


def error_told(said: Mapping[str, Any], name: str, log_path: Path | None) -> DrlnetError:
    """The error of a role of that name ("": not named), of what it said (see errors.Told).

    Its log has the rest.
    """
    kinds = {error.__name__: error for error in all_errors()}
    kind, remedy = kinds.get(str(said.get("type")), RoleFailed), str(said.get("remedy", ""))
    if "traceback" in remedy and log_path is not None:
        remedy = f"{remedy}: it is in {log_path}"
    whose = f"{name}: " if name else ""
    return kind(f"{whose}{said.get('cause', '')}", remedy)


def _json_object(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None
