"""`drlnet serve`: the replay server."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from drlnet.cli import options
from drlnet.cli.flags import settings_flags
from drlnet.cli.output import Output

RunOption = Annotated[Path | None, typer.Option("--run", hidden=True, help="the run's folder")]


@settings_flags(
    "server.listen",
    "server.poll",
    "server.shards",
    "server.join",
    "server.sampler",
    "server.index_only",
    "server.metrics",
    "server.state",
    "server.durability",
    "server.insecure",
)
def serve(
    flags: dict[str, Any],
    eal: options.EalOption = None,
    key: options.KeyOption = None,
    run: RunOption = None,
    config: options.ConfigOption = None,
    set_: options.SetOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
    help_config: options.HelpConfigOption = False,
) -> None:
    """Bring up the replay server; Ctrl-C or SIGTERM stops it.

    It stores what actors send, draws prioritized batches for learners, and hands
    out params. Tables are made by the first client that opens them. One ready
    line says where it listens. Commands of the same user on this machine find it
    without --server while it is the only one.

    [bold]Examples[/bold]

    drlnet serve

    drlnet serve --listen udp://127.0.0.1:0 --json

    drlnet serve --listen udp://127.0.0.1:7447 --listen dpdk:local

    drlnet serve --shards 4                   [dim]# ports 7447 to 7450[/dim]

    drlnet serve --shards 2 --listen dpdk:af_packet:eth1,ip=10.7.0.2/24 --insecure

    drlnet serve --set server.elsewhere=1     [dim]# and on another host:[/dim]

    drlnet serve --join udp://10.0.0.2:7447 --listen udp://10.0.0.3:0 --insecure

    drlnet serve --sampler amper-fr --set 'server.sampler_options={groups=10}'

    drlnet serve --index-only                 [dim]# rows lie at learners[/dim]

    drlnet serve --metrics 127.0.0.1:9464     [dim]# for Prometheus[/dim]

    drlnet serve --state replay-1             [dim]# goes on after a crash[/dim]

    drlnet serve --listen udp://0.0.0.0:7447 --insecure
    """
    from drlnet.config import load_server

    settings = load_server(config, flags=flags, sets=set_ or ())
    options.require_dpdk(eal, settings.listen)

    from drlnet.config.keys import server_fingerprint
    from drlnet.errors import ConfigError
    from drlnet.launch.servers import announced
    from drlnet.launch.signals import Stop
    from drlnet.roles.serve import serve as serve_role

    if settings.state is None and flags.get("server.durability") is not None:
        raise ConfigError("--durability is of a state, and there is none", "add --state DIR")
    output = Output(json)
    cores = len(os.sched_getaffinity(0))
    if settings.shards > cores:
        output.note(
            f"warning: {settings.shards} shards take turns on {cores} usable cores\n"
            f"  try: --shards {cores}, or fewer: clients need cores, too"
        )

    def ready(addresses: list[str], metrics_url: str | None) -> None:
        try:
            if settings.join is None:  # else it is the other's to be found
                stack.enter_context(announced(addresses, run))
        except ConfigError as error:
            output.note(f"warning: {error.cause}\n  try: {error.remedy}")
        served = {} if metrics_url is None else {"metrics": metrics_url}
        if (key := server_fingerprint()) is not None:
            served["server_key"] = key
        output.event("ready", addresses=addresses, shards=settings.shards, **served)
        if not json:
            where = "" if metrics_url is None else f", metrics at {metrics_url}"
            shared = "" if settings.shards == 1 else f", {settings.shards} shards"
            sealed = "" if key is None else f", key {key}"
            output.note(f"ready: listening on {', '.join(addresses)}{shared}{where}{sealed}")

    def lost(shard: int, address: str) -> None:
        output.event("shard_lost", shard=shard, address=address)
        output.note(
            f"shard {shard} at {address} is lost, and its part of every table; "
            "draws and new streams go to the others"
        )

    with Stop() as stop, ExitStack() as stack:
        serve_role(settings, ready, stop, output.note, lost)
