"""The full-screen view of one server: a thread that draws readings as they come and heeds keys.

Threading: the main thread asks the server, hands over what it got, and never waits for the
terminal. The scene belongs to the drawing thread alone.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, TextIO

from rich.console import Group

from drlnet.dashboard.bottleneck import find_bottleneck
from drlnet.dashboard.figures import Figures
from drlnet.dashboard.history import History
from drlnet.dashboard.layout import compose
from drlnet.dashboard.panels.clients import SORTS
from drlnet.dashboard.panels.latency import operations
from drlnet.dashboard.reading import Reading
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.terminal import Terminal
from drlnet.dashboard.window import Window


@dataclass(frozen=True)
class _Read:
    reading: Reading
    time_s: float


@dataclass(frozen=True)
class _Lost:
    why: str


class Screen:
    """Enter it around its use, in the main thread. quit: called once the watcher pressed q."""

    def __init__(
        self, address: str, quit: Callable[[], None], *, keys: TextIO | None, file: TextIO
    ) -> None:
        self._terminal = Terminal(keys, file)
        self._quit = quit
        self._history = History()
        figures = Figures(Window(None, {}, 0.0))
        self._scene = Scene(
            address, figures, find_bottleneck(figures), self._history.trends, keys=keys is not None
        )
        self._held: Scene | None = None  # what is shown while paused
        self._mail: queue.SimpleQueue[_Read | _Lost | None] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._error: BaseException | None = None
        self._handlers: dict[int, Any] = {}
        self._presses: Mapping[bytes, Callable[[Scene], None]] = {
            b"p": self._pause,
            b" ": self._pause,
            b"s": _sort,
            b"l": _next_operation,
            b"\t": _next_page,
            b"n": _next_page,
            b"h": _help,
            b"?": _help,
        }

    def __enter__(self) -> Screen:
        for number, handler in (
            (signal.SIGWINCH, self._on_change),
            (signal.SIGTSTP, self._on_stop),
            (signal.SIGCONT, self._on_change),
        ):
            self._handlers[number] = signal.signal(number, handler)
        self._terminal.take()
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._post(None)
        self._thread.join()
        self.give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._wake_read)
        os.close(self._wake_write)
        if self._error is not None:
            raise self._error

    def show(self, reading: Reading, time_s: float) -> None:
        """Draws a reading taken at `time_s`, on a clock that only moves forward."""
        self._post(_Read(reading, time_s))

    def gone(self, why: str) -> None:
        """Says that the server does not answer; what it said last stays."""
        self._post(_Lost(why))

    def give_back(self) -> None:
        """The terminal as it was. May be called at any time, also when the process must end now."""
        self._terminal.give_back()

    def _post(self, message: _Read | _Lost | None) -> None:
        self._mail.put(message)
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            return  # it has not even looked at the last thousands

    # Signals: the main thread's.

    def _on_change(self, number: int, frame: FrameType | None) -> None:
        """Another size, or back from where we were stopped: others may have used the terminal."""
        if number == signal.SIGCONT:
            self._terminal.take_again()
        self._wake()

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: stops as it would have without us, with the terminal in order."""
        self._terminal.give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._on_stop)  # here after `fg`
        self._terminal.take()
        self._wake()

    # The drawing thread.

    def _run(self) -> None:
        try:
            while self._heed():
                self._draw()
        except BaseException as error:
            self._error = error  # the main thread raises it
            self._quit()

    def _heed(self) -> bool:
        """Waits for mail, keys or signals and takes them; False: the end."""
        keys = self._terminal.keys_fd
        watched = [self._wake_read] if keys is None else [self._wake_read, keys]
        ready, _, _ = select.select(watched, [], [])
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        while not self._mail.empty():
            message = self._mail.get()
            if message is None:
                return False
            self._take(message)
        if keys in ready:
            self._press(self._terminal.read_keys())
        return True

    def _take(self, message: _Read | _Lost) -> None:
        scene = self._scene
        if isinstance(message, _Lost):
            if not scene.lost:
                self._history.gap()
            scene.lost = message.why
            return
        scene.lost = ""
        scene.figures = self._history.push(message.reading, message.time_s)
        scene.finding = self._history.finding

    def _press(self, keys: bytes | None) -> None:
        if keys is None:
            return self._quit()
        if keys == b"\x1b":
            return _leave(self._held or self._scene)
        if keys.startswith(b"\x1b"):  # an arrow, or another key that has no meaning here
            return None
        for key in keys.lower():
            if key == ord("q"):
                return self._quit()
            press = self._presses.get(bytes([key]))
            if press is not None:
                press(self._held or self._scene)
        return None

    def _pause(self, scene: Scene) -> None:
        if self._held is None:
            trends = {name: list(values) for name, values in scene.trends.items()}
            self._held = Scene(**{**vars(scene), "trends": trends, "paused": True})
            return
        choices = ("page", "operation", "sort", "help")
        for name in choices:
            setattr(self._scene, name, getattr(self._held, name))
        self._held = None

    def _draw(self) -> None:
        scene = self._held or self._scene
        if not self._terminal.draw(lambda width, height: Group(*compose(scene, width, height))):
            self._quit()


def _sort(scene: Scene) -> None:
    order = list(SORTS)
    scene.sort = order[(order.index(scene.sort) + 1) % len(order)]


def _next_operation(scene: Scene) -> None:
    """The next operation's histogram; after the last one, none."""
    known = ["", *operations(scene.figures)]
    here = scene.operation if scene.operation in known else ""
    scene.operation = known[(known.index(here) + 1) % len(known)]


def _leave(scene: Scene) -> None:
    """Back from the help, or else from a histogram."""
    if scene.help:
        scene.help = False
    else:
        scene.operation = ""


def _next_page(scene: Scene) -> None:
    scene.page += 1


def _help(scene: Scene) -> None:
    scene.help = not scene.help
