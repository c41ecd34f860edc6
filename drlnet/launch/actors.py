"""Several actors as processes of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from drlnet.config import Config, dump
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Supervisor

_FOREVER_S = 3600.0


def actor_args(config: Config, config_path: Path, server: str, index: int) -> list[str]:
    """The command of one actor: its config is a file, its number tells it from its siblings."""
    return [
        *("actor", config.env.id, "--server", server, "--config", str(config_path), "--json"),
        *("--num-actors", "1", "--index", str(index)),
    ]


def supervise_actors(config: Config, server: str, stop: Stop, note: Callable[[str], None]) -> None:
    """Runs actor.num_actors processes until all have ended or `stop` is set.

    Raises the error of the first that fails; the others are stopped then.
    """
    count = config.actor.num_actors
    with tempfile.TemporaryDirectory(prefix="drlnet-") as folder:
        config_path = Path(folder) / "config.toml"
        config_path.write_text(dump(config), encoding="utf-8")
        with Supervisor(stop, less_memory="lower actor.num_actors") as group:
            for index in range(count):
                group.start(f"actor-{index}", actor_args(config, config_path, server, index))
            note(f"{count} actors play {config.env.id} for {server}; Ctrl-C stops them")
            running = count
            while running and not stop.is_set():
                for event in group.wait(_FOREVER_S):
                    if isinstance(event, Ended):
                        running -= 1
                        if event.returncode != 0:
                            raise event.process.failure()
