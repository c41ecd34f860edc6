"""A terminal that is taken over and given back: its screen, its cursor, its keys.

Threading: any thread; one at a time draws or changes hands.
"""

from __future__ import annotations

import errno
import os
import termios
import threading
import tty
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.control import Control
from rich.live import Live

_FALLBACK_SIZE = (80, 24)  # of a terminal that does not know its own
_LOCK_DEADLINE_S = 1.0
# What a terminal that was closed answers: there is nothing left to give back.
_HUNG_UP = (OSError, termios.error)


class Terminal:
    """keys: where they are read, None to read none; file: what is drawn on."""

    def __init__(self, keys: TextIO | None, file: TextIO) -> None:
        self._file = file
        self._keys_fd = None if keys is None else keys.fileno()
        self._console = Console(file=file, highlight=False)
        self._live: Live | None = None
        self._modes: list[Any] | None = None  # of the keyboard, as they were
        self._lock = threading.RLock()

    @property
    def keys_fd(self) -> int | None:
        """Readable when a key was pressed."""
        return self._keys_fd

    def take(self) -> None:
        """Switches to a screen of its own, without cursor; keys come singly and are not echoed."""
        with self._lock:
            if self._live is not None:
                return
            if self._keys_fd is not None:
                self._modes = termios.tcgetattr(self._keys_fd)
            self._live = Live(
                console=self._console,
                screen=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            try:
                if self._keys_fd is not None:
                    tty.setcbreak(self._keys_fd, termios.TCSANOW)
                self._live.start()
            except BaseException:
                self.give_back()
                raise

    def take_again(self) -> None:
        """The same after SIGSTOP, which gives a process no chance to hand the terminal back."""
        with self._lock:
            if self._live is not None:
                self.give_back()
                with suppress(*_HUNG_UP):  # a terminal that is closed wakes us, too
                    self.take()

    def give_back(self) -> None:
        """Everything as it was. Also in a signal's handler, whatever another thread is about."""
        locked = self._lock.acquire(timeout=_LOCK_DEADLINE_S)
        try:
            live, self._live = self._live, None
            if live is None:
                return
            with suppress(*_HUNG_UP):
                # tmux that was resized meanwhile would leave lines of ours behind.
                self._console.control(Control.clear())
                live.stop()
            if self._keys_fd is not None and self._modes is not None:
                with suppress(*_HUNG_UP):
                    termios.tcsetattr(self._keys_fd, termios.TCSANOW, self._modes)
        finally:
            if locked:
                self._lock.release()

    def read_keys(self) -> bytes | None:
        """The keys that were pressed; None once the terminal is closed."""
        assert self._keys_fd is not None, "no keys are read"
        try:
            return os.read(self._keys_fd, 64) or None
        except OSError:  # EIO: it is closed
            self._keys_fd = None
            return None

    def draw(self, picture: Callable[[int, int], RenderableType]) -> bool:
        """Draws picture(width, height), unless the terminal was given back. False: it is closed."""
        with self._lock:
            if self._live is None:
                return True
            try:
                width, height = os.get_terminal_size(self._file.fileno())
                if not width or not height:
                    width, height = _FALLBACK_SIZE
                self._console.size = width, height  # COLUMNS, if set, would never change
                self._live.update(picture(width, height), refresh=True)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return False
            return True
