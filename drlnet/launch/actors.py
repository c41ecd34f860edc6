"""Several actors as processes of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from drlnet.config import Config, dump
from drlnet.launch.process import Watched
from drlnet.launch.restarts import Restarts
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Group, Supervisor

_LOOK_S = 1.0


class Actors:
    """The actors of a group; see Restarts for which are started again.

    args: of `drlnet`, for each of them; its number comes behind.
    """

    def __init__(self, group: Group, args: Sequence[str], count: int, restarts: int) -> None:
        self._group, self._args, self._count = group, list(args), count
        self._index: dict[Watched, int] = {}
        self._restarts = Restarts(restarts)
        self._ended = 0
        self._over = False  # for all of them: what ends now is not started again

    @property
    def processes(self) -> list[Watched]:
        """All that were started."""
        return list(self._index)

    @property
    def running(self) -> int:
        """How many play, or are to be started again."""
        return self._restarts.waiting + len(self._index) - self._ended

    @property
    def restarts(self) -> int:
        """How many were started again."""
        return self._restarts.count

    @property
    def failures(self) -> list[str]:
        """How those ended that were started again, or were to be."""
        return self._restarts.failures

    @property
    def due_in_s(self) -> float:
        """How long until the next one is to be started again."""
        return self._restarts.due_in_s

    def start(self) -> None:
        """Starts them all."""
        for index in range(self._count):
            self._start(index)

    def start_due(self) -> None:
        """Starts those again whose time has come."""
        for index in self._restarts.due():
            self._start(index)

    def heed(self, ended: Ended) -> None:
        """Takes note of an actor's end. Raises its error unless it is to be started again."""
        self._ended += 1
        if not (self._over or ended.process.stopping or ended.returncode == 0):
            self._restarts.heed(ended, self._index[ended.process])

    def end(self) -> None:
        """Ends them all; none is started again, and none that was killed just before."""
        self._over = True
        self._restarts.forget()
        self._group.end(self.processes)

    def has(self, process: Watched) -> bool:
        """Whether it is one of them."""
        return process in self._index

    def _start(self, index: int) -> None:
        # Its number tells it from its siblings; the settings tell how many there are.
        args = [*self._args, "--index", str(index)]
        self._index[self._group.start(f"actor-{index}", args)] = index


def actor_args(env: str, server: str, config_path: Path) -> list[str]:
    """The arguments of `drlnet` for an actor of this machine, whose config is a file."""
    return ["actor", env, "--server", server, "--config", str(config_path), "--json"]


def supervise_actors(config: Config, server: str, stop: Stop, note: Callable[[str], None]) -> None:
    """Runs actor.num_actors processes until all have ended or `stop` is set.

    Raises the error of the first that fails; the others are stopped then.
    """
    with tempfile.TemporaryDirectory(prefix="drlnet-") as folder:
        config_path = Path(folder) / "config.toml"
        config_path.write_text(dump(config), encoding="utf-8")
        with Supervisor(stop, less_memory="lower actor.num_actors", aloud=True) as group:
            count = config.actor.num_actors
            args = actor_args(config.env.id, server, config_path)
            actors = Actors(group, args, count, config.run.actor_restarts)
            note(f"{count} actors play {config.env.id} for {server}; Ctrl-C stops them")
            watch_actors(group, actors, stop, note)


def watch_actors(
    group: Group,
    actors: Actors,
    stop: Stop,
    note: Callable[[str], None],
    over: Callable[[], bool] = lambda: False,
) -> None:
    """Starts them, and watches them until all have ended, `stop` is set, or it is over.

    over: asked each second, for one. Raises the error of the first that fails; leaving the group
    stops the others.
    """
    actors.start()
    try:
        while actors.running and not (stop.is_set() or over()):
            for event in group.wait(min(_LOOK_S, actors.due_in_s)):
                if isinstance(event, Ended):
                    actors.heed(event)
                    if event.returncode:
                        note(f"{event.process.name} {event.process.ending}; it starts again")
            actors.start_due()
    finally:
        if actors.failures:
            note(f"failures, of which {actors.restarts} were started again:")
            note("\n".join(f"  {failure}" for failure in actors.failures))
