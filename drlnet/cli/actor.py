"""`drlnet actor`: processes that play and send what they see."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from drlnet.cli import options
from drlnet.cli.flags import settings_flags
from drlnet.cli.output import Output
from drlnet.cli.stopping import until_stopped

IndexOption = Annotated[
    int | None,
    typer.Option("--index", hidden=True, help="one actor: its number among actor.num_actors"),
]


@settings_flags(
    "algo.name",
    "actor.num_actors",
    "actor.envs_per_actor",
    "replay.sampler",
    "actor.max_env_steps",
    "run.seed",
    "server.poll",
)
def actor(
    flags: dict[str, Any],
    env: options.EnvOfRunArgument = None,
    server: options.ServerOption = None,
    eal: options.EalOption = None,
    key: options.KeyOption = None,
    index: IndexOption = None,
    config: options.ConfigOption = None,
    set_: options.SetOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
    help_config: options.HelpConfigOption = False,
) -> None:
    """Play an environment and send every step to a replay server.

    Each of N processes steps M environments with its own copy of the newest
    params. Actors may join and leave at any time: each environment explores by
    the number that the server leases to it. Without ENV the server tells the
    settings of its run, and --num-actors says how many of them play here.

    [bold]Examples[/bold]

    drlnet actor CartPole-v1

    drlnet actor CartPole-v1 --server udp://10.0.0.2:7447 --num-actors 4

    drlnet actor --server udp://10.0.0.2:7447
    """
    from drlnet.cli.which import server_to_join, settings_to_play

    output = Output(json)
    with until_stopped() as stop:
        address = server_to_join(server)
        options.require_dpdk(eal, [address])
        settings = settings_to_play(
            env, address, stop, output, file=config, flags=flags, sets=set_ or ()
        )
        from drlnet.algos import require_fit

        require_fit(settings, learns=False)
        if index is None and settings.actor.num_actors > 1:
            from drlnet.launch.actors import supervise_actors

            supervise_actors(settings, address, stop, output.note)
            output.note("actors ended")
        else:
            from drlnet.roles.actor import act

            output.note(f"playing {settings.env.id} for {address}; Ctrl-C stops it")
            act(settings, address, index, stop, output.note)
            output.note("actor ended")
    output.event("ended", env=settings.env.id)
