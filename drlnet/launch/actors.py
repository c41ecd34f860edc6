"""Several actors as processes of this machine."""

from __future__ import annotations

import heapq
import math
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from drlnet.config import Config, dump
from drlnet.launch.process import Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Supervisor

_FOREVER_S = 3600.0
_BACK_OFF_S, _BACK_OFF_MAX_S = 0.5, 30.0
_RESTARTS_WINDOW_S = 60.0


class Actors:
    """The actors of a group. Those that a signal has ended (no memory, a crash) are started again.

    Each after twice the time of the one before it; more than run.actor_restarts of them within a
    minute are the group's failure. An error that an actor tells itself would only come again.
    """

    def __init__(self, group: Supervisor, config: Config, config_path: Path, server: str) -> None:
        self._group, self._config = group, config
        self._config_path, self._server = config_path, server
        self._index: dict[Process, int] = {}
        self._due: list[tuple[float, int]] = []  # a heap: when, which
        self._restarted_s: deque[float] = deque()
        self._ended = 0
        self._over = False  # for all of them: what ends now is not started again
        self.restarts = 0

    @property
    def processes(self) -> list[Process]:
        """All that were started."""
        return list(self._index)

    @property
    def running(self) -> int:
        """How many play, or are to be started again."""
        return len(self._due) + len(self._index) - self._ended

    @property
    def due_in_s(self) -> float:
        """How long until the next one is to be started again."""
        return max(0.0, self._due[0][0] - time.monotonic()) if self._due else math.inf

    def start(self) -> None:
        """Starts actor.num_actors of them."""
        for index in range(self._config.actor.num_actors):
            self._start(index)

    def start_due(self) -> None:
        """Starts those again whose time has come."""
        while self._due and self.due_in_s == 0:
            self._start(heapq.heappop(self._due)[1])
            self.restarts += 1

    def heed(self, ended: Ended) -> None:
        """Takes note of an actor's end. Raises its error unless it is to be started again."""
        self._ended += 1
        if self._over or ended.process.stopping or ended.returncode == 0:
            return
        now, lately = time.monotonic(), self._restarted_s
        while lately and lately[0] < now - _RESTARTS_WINDOW_S:
            lately.popleft()
        if ended.returncode > 0 or len(lately) >= self._config.run.actor_restarts:
            raise ended.process.failure()
        wait_s = min(_BACK_OFF_MAX_S, _BACK_OFF_S * 2 ** len(lately))
        lately.append(now)
        heapq.heappush(self._due, (now + wait_s, self._index[ended.process]))

    def end(self) -> None:
        """Ends them all; none is started again, and none that was killed just before."""
        self._over = True
        self._due.clear()
        self._group.end(self.processes)

    def has(self, process: Process) -> bool:
        """Whether it is one of them."""
        return process in self._index

    def _start(self, index: int) -> None:
        # Its config is a file, its number tells it from its siblings.
        args = [
            *("actor", self._config.env.id, "--server", self._server),
            *("--config", str(self._config_path), "--json"),
            *("--num-actors", "1", "--index", str(index)),
        ]
        self._index[self._group.start(f"actor-{index}", args)] = index


def supervise_actors(config: Config, server: str, stop: Stop, note: Callable[[str], None]) -> None:
    """Runs actor.num_actors processes until all have ended or `stop` is set.

    Raises the error of the first that fails; the others are stopped then.
    """
    with tempfile.TemporaryDirectory(prefix="drlnet-") as folder:
        config_path = Path(folder) / "config.toml"
        config_path.write_text(dump(config), encoding="utf-8")
        with Supervisor(stop, less_memory="lower actor.num_actors", aloud=True) as group:
            actors = Actors(group, config, config_path, server)
            actors.start()
            count = config.actor.num_actors
            note(f"{count} actors play {config.env.id} for {server}; Ctrl-C stops them")
            while actors.running and not stop.is_set():
                for event in group.wait(min(_FOREVER_S, actors.due_in_s)):
                    if isinstance(event, Ended):
                        actors.heed(event)
                        if event.returncode:
                            note(f"{event.process.name} {event.process.ending}; it starts again")
                actors.start_due()
