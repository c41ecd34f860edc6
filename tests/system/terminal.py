"""A terminal in memory with a program in it: what it shows, and how it is left."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyte

DEADLINE_S = 30.0
# Makes the terminal its own and becomes the program.
_LEADER = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """A pty of that size; the program is the leader of its session, as one in a window is."""

    def __init__(self, args: Sequence[str], folder: Path, columns: int, lines: int) -> None:
        self._master, self._slave = pty.openpty()
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._set_size(columns, lines)
        self.modes_before: list[Any] = termios.tcgetattr(self._slave)
        self.popen = subprocess.Popen(
            [sys.executable, "-c", _LEADER, *args],
            cwd=folder,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns: int, lines: int) -> None:
        """The kernel tells the program."""
        self.screen.resize(lines, columns)
        self._set_size(columns, lines)

    def press(self, keys: str) -> None:
        """Keys, as if typed."""
        os.write(self._master, keys.encode())

    @property
    def shown(self) -> str:
        """What is on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def _read(self, timeout: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], timeout)
        if ready:
            data = os.read(self._master, 65536)
            self.raw += data
            self._stream.feed(data)
        return bool(ready)

    def wait_until(self, holds: Callable[[str], object], deadline_s: float = DEADLINE_S) -> str:
        """What is shown once that holds of it."""
        deadline = time.monotonic() + deadline_s
        while not holds(self.shown):
            left = deadline - time.monotonic()
            assert left > 0, f"after {deadline_s} s:\n{self.shown}\n{self.raw[-300:]!r}"
            self._read(left)
        return self.shown

    def wait_for(self, words: str, deadline_s: float = DEADLINE_S) -> str:
        """What is shown once these words are among it."""
        return self.wait_until(lambda shown: words in shown, deadline_s)

    def end(self, number: int | None = None, deadline_s: float = DEADLINE_S) -> int:
        """Its exit code, after a signal if one is given."""
        if number is not None:
            self.popen.send_signal(number)
        deadline = time.monotonic() + deadline_s
        while self.popen.poll() is None:
            assert time.monotonic() < deadline, f"still running:\n{self.shown}"
            self._read(0.05)
        while self._read(0.0):
            pass
        return self.popen.returncode

    def assert_restored(self) -> None:
        """The keyboard's modes, the cursor and the screen are as before."""
        assert termios.tcgetattr(self._slave) == self.modes_before
        assert not self.screen.cursor.hidden
        assert self.raw.count(b"\x1b[?1049h") == self.raw.count(b"\x1b[?1049l")
        assert self.raw.rfind(b"\x1b[?1049l") > self.raw.rfind(b"\x1b[?1049h")
        assert b"Traceback" not in self.raw

    def hang_up(self) -> None:
        """The window is closed."""
        for descriptor in (self._master, self._slave):
            if descriptor >= 0:
                os.close(descriptor)
        self._master = self._slave = -1

    def close(self) -> None:
        """Ends what still runs."""
        self.popen.kill()
        self.popen.wait()
        self.hang_up()


@contextmanager
def terminal(
    args: Sequence[str], folder: Path, columns: int = 80, lines: int = 24
) -> Iterator[Terminal]:
    """A terminal that is gone with the block."""
    made = Terminal(args, folder, columns, lines)
    try:
        yield made
    finally:
        made.close()
