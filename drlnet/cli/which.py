"""Finds the server or the run that a command works on when none was named."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drlnet.cli.options import DEFAULT_ADDRESS
from drlnet.cli.output import Output, typed
from drlnet.errors import ConfigError, RunFolderError

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.launch.servers import LiveServer
    from drlnet.launch.signals import Stop
    from drlnet.metrics import RunFolder


def server_to_join(server: str | None) -> str:
    """The server that a learner or actor joins: the one named, else the only live one started by
    `drlnet serve`, else where such a one listens by default. ConfigError where there are several.
    """
    if server is not None:
        return server
    from drlnet.launch.servers import live_servers

    return _only([one for one in live_servers() if one.run is None])


def settings_to_play(
    env: str | None, server: str, stop: Stop, output: Output, **layers: Any
) -> Config:
    """The settings of a process that plays `env`, or for None joins the run of that server.

    Raises what config.load does, and launch.asking.settings_of_run.
    """
    from drlnet.config import load
    from drlnet.launch.asking import settings_of_run

    if env is not None:
        return load(env, **layers)
    config = settings_of_run(server, stop, output.note, **layers)
    output.note(f"joining the run at {server}: {config.env.id} with {config.algo.name}")
    return config


def server_to_watch(run: str | None, server: str | None) -> str:
    """The server named, that of the run, or the only live one; else where one may soon listen.

    Errors: ConfigError for both or where there are several; RunFolderError for a run without one.
    """
    if run is None:
        from drlnet.launch.servers import live_servers

        return server or _only(live_servers())
    if server is not None:
        raise ConfigError("RUN and --server: each names a server", "leave one of them out")
    return server_of(run_named(run))


def server_of(folder: RunFolder) -> str:
    """Finds the server of a running run. Raises RunFolderError without one."""
    run, live = typed(folder.path), folder.live()
    if live is None:
        raise RunFolderError(
            f"{run} has ended, and its server with it",
            f"see what it recorded: drlnet plot {run}",
        )
    if live["server"] is None:
        raise RunFolderError(
            f"{run} is a serial run: all of it is in one process, without a server",
            f"see what it records: drlnet plot {run}",
        )
    return str(live["server"])


def run_named(name: str) -> RunFolder:
    """Opens a run's folder, running or ended. Raises RunFolderError for other folders."""
    from drlnet.metrics import RunFolder

    if name.startswith(("udp:", "dpdk:")):
        raise RunFolderError(
            f"{name} is an address, not a run's folder", f"give it as --server {name}"
        )
    folder = RunFolder(Path(name).absolute())
    if not folder.config_path.is_file():
        raise RunFolderError(f"{name} is not a run's folder", "`drlnet ls` lists those in runs/")
    if not folder.facts_path.is_file():
        raise RunFolderError(f"{name} has not begun: its job waits", "wait for it; `squeue` tells")
    return folder


def newest_that_learned(path: Path | None, output: Output) -> RunFolder:
    """The run named, or the newest that has a checkpoint. Raises RunFolderError."""
    from drlnet.metrics import RunFolder

    if path is None:
        path = _newest(lambda run: run.checkpoint_path.is_file(), "with a checkpoint", output)
    return RunFolder.open(path)


def newest_that_recorded(output: Output) -> Path:
    """The newest run that has readings. Raises RunFolderError."""

    def recorded(run: RunFolder) -> bool:
        return run.metrics_path.is_file() and run.metrics_path.stat().st_size > 0

    return _newest(recorded, "with readings", output)


def newest_that_goes_on() -> RunFolder:
    """The newest run that has not ended. Raises RunFolderError."""
    from drlnet.metrics.run_list import newest_run

    return newest_run(lambda run: run.live() is not None, "that goes on")


def _newest(has: Callable[[RunFolder], bool], what: str, output: Output) -> Path:
    from drlnet.metrics.run_list import newest_run

    path = newest_run(has, what).path
    output.note(f"the newest run: {path}")
    return path


def _only(servers: list[LiveServer]) -> str:
    if not servers:
        return DEFAULT_ADDRESS
    if len(servers) == 1:
        return servers[0].address
    from drlnet.dashboard.units import clock

    width = max(len(one.address) for one in servers)
    lines = [
        f"\n  --server {one.address:{width}}  # "
        f"{'drlnet serve' if one.run is None else typed(one.run)}, "
        f"up {clock(time.time() - one.started_s)}"
        for one in servers
    ]
    raise ConfigError(f"{len(servers)} servers are live", f"choose one of them:{''.join(lines)}")
