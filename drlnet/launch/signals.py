"""Signals as a flag to look at, and a descriptor to wait on."""

from __future__ import annotations

import _thread
import math
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ECHO_S = 0.5  # in which another signal is the same request: `timeout` sends two, a terminal, too
_AT_ONCE_S = 86400.0  # of a wait: select takes no more than some years


class Stop:
    """Set by SIGINT, SIGTERM or SIGHUP while entered; asked again, the process ends at once.

    A SIGHUP that is ignored stays so: it was started by nohup, to outlive its terminal.
    A signal that follows the first within half a second is its echo: `timeout` signals the command
    and then the command's process group.
    It has the methods of threading.Event that loops need. An Event itself will not do: setting
    it in a handler can deadlock with the very wait that the handler interrupts.
    Threading: enter it in the main thread; is_set and wait may be called anywhere.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._signal_s = 0.0  # when it came
        self._set = False
        self._raises = False
        self._ending = False  # end() was called, and its interruption is under way
        self.before_abort: Callable[[], None] = lambda: None  # even a second signal waits for it
        self._saved: list[tuple[int, Any]] = []
        self._saved_wakeup_fd = -1
        self._read_fd, self._write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __del__(self) -> None:
        # Not as it is left: another thread may still set it.
        os.close(self._read_fd)
        os.close(self._write_fd)

    def __enter__(self) -> Stop:
        self._saved = [(number, signal.getsignal(number)) for number in _STOP_SIGNALS]
        if (signal.SIGHUP, signal.SIG_IGN) in self._saved:
            self._saved.remove((signal.SIGHUP, signal.SIG_IGN))
        for number, _ in self._saved:
            signal.signal(number, self._handle)
        # The kernel may give a signal to any thread, whose handlers run in this one: it is woken.
        self._saved_wakeup_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        return self

    def __exit__(self, *raised: object) -> None:
        signal.set_wakeup_fd(self._saved_wakeup_fd)
        for number, handler in self._saved:
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._ending:
            self._ending = False
        elif self.signal is None:
            self.signal, self._signal_s = number, time.monotonic()
            self.set()
        elif time.monotonic() < self._signal_s + _ECHO_S:
            return
        else:
            try:
                self.before_abort()
            finally:
                os._exit(128 + number)
        if self._raises:
            raise KeyboardInterrupt

    def set(self) -> None:
        """Asks for the end without a signal."""
        if not self._set:
            self._set = True
            os.write(self._write_fd, b"x")

    def end(self) -> None:
        """Asks for the end without a signal, from any thread; ends calls within interrupts()."""
        self._ending = True
        self.set()
        _thread.interrupt_main()

    def is_set(self) -> bool:
        """True once the end was asked for."""
        return self._set

    @contextmanager
    def interrupts(self) -> Iterator[None]:
        """While entered, a signal raises KeyboardInterrupt, too: calls that wait for a server end.

        Raises it at once when the end was asked for before. For the main thread.
        """
        self._raises = True
        try:
            if self._set:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = False

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until set, or `timeout` seconds; returns is_set()."""
        end_s = None if timeout is None else time.monotonic() + timeout
        while not self._set:
            left_s = math.inf if end_s is None else max(0.0, end_s - time.monotonic())
            if select.select([self._read_fd], [], [], min(left_s, _AT_ONCE_S))[0]:
                self.heard()
            elif left_s <= _AT_ONCE_S:
                break
        return self._set

    def fileno(self) -> int:
        """Readable once set, and when any other signal came: heard() tells. For selectors."""
        return self._read_fd

    def heard(self) -> bool:
        """Returns is_set(), of a readable fileno(): else it is readable no longer."""
        if not self._set:
            with suppress(BlockingIOError):  # another thread has
                os.read(self._read_fd, 4096)
            if self._set:  # meanwhile, and the word of it may be what was read
                os.write(self._write_fd, b"x")
        return self._set

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process that ended by that signal."""
        return 128 + (self.signal or signal.SIGINT)
