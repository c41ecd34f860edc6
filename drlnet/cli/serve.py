"""`drlnet serve`: the replay server."""

from __future__ import annotations

from typing import Annotated

import typer

from drlnet.cli import options
from drlnet.cli.output import Output

ListenOption = Annotated[
    list[str] | None,
    typer.Option(
        "--listen",
        metavar="ADDRESS",
        help="where to listen; repeatable; port or name 0 picks a free one "
        "[dim](default udp://127.0.0.1:7447)[/dim]",
    ),
]
SamplerOption = Annotated[
    str | None,
    typer.Option(
        "--sampler",
        metavar="NAME",
        help="draw by it in every table: prioritized, uniform, fifo, amper-k, amper-fr, "
        "amper-fr-prefix; its options by --set server.sampler_options='{groups=20}' "
        "[dim](default: as the clients of a table ask)[/dim]",
    ),
]
InsecureOption = Annotated[
    bool,
    typer.Option("--insecure", help="allow addresses that other machines can reach"),
]


def serve(
    listen: ListenOption = None,
    poll: options.PollOption = None,
    eal: options.EalOption = None,
    sampler: SamplerOption = None,
    insecure: InsecureOption = False,
    config: options.ConfigOption = None,
    set_: options.SetOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
    help_config: options.HelpConfigOption = False,
) -> None:
    """Bring up the replay server; Ctrl-C or SIGTERM stops it.

    It stores what actors send, draws prioritized batches for learners, and hands out params. Tables
    are made by the first client that opens them. One ready line says where it listens.

    [bold]Examples[/bold]

    drlnet serve

    drlnet serve --listen udp://127.0.0.1:0 --json

    drlnet serve --listen udp://127.0.0.1:7447 --listen dpdk:local

    drlnet serve --sampler amper-fr --set 'server.sampler_options={groups=10}'

    drlnet serve --listen udp://0.0.0.0:7447 --insecure
    """
    from drlnet.config import load

    flags = {
        "server.listen": listen or None,
        "server.poll": poll,
        "server.sampler": sampler,
        "server.insecure": insecure or None,
    }
    settings = load(file=config, flags=flags, sets=set_ or ()).server

    from drlnet.launch.signals import Stop
    from drlnet.roles.serve import serve as serve_role

    output = Output(json)

    def ready(addresses: list[str]) -> None:
        output.event("ready", addresses=addresses)
        if not json:
            output.note(f"ready: listening on {', '.join(addresses)}")

    with Stop() as stop:
        serve_role(settings, ready, stop)
