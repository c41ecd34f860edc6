"""`drlnet infer`: acts for all actors."""

from __future__ import annotations

from typing import Any

from drlnet.cli import options
from drlnet.cli.flags import settings_flags
from drlnet.cli.output import Output
from drlnet.cli.stopping import until_stopped
from drlnet.errors import ConfigError


@settings_flags(
    "algo.name",
    "actor.num_actors",
    "actor.envs_per_actor",
    "replay.sampler",
    "run.seed",
    "server.poll",
)
def infer(
    flags: dict[str, Any],
    env: options.EnvOfRunArgument = None,
    server: options.ServerOption = None,
    eal: options.EalOption = None,
    key: options.KeyOption = None,
    config: options.ConfigOption = None,
    set_: options.SetOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
    help_config: options.HelpConfigOption = False,
) -> None:
    """Act for the actors of a server that have policy.where = central.

    They send observations and are told actions; params and recurrent state stay
    here. Give it the settings of its actors, or leave ENV out, for the server
    to tell them: N x M environments may join. `drlnet run` starts it by itself.

    [bold]Examples[/bold]

    drlnet infer CartPole-v1 --num-actors 4

    drlnet actor CartPole-v1 --num-actors 4 --set policy.where=central
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
        from drlnet.roles.infer import infer as act_for_all

        if settings.policy.where == "learner":
            raise ConfigError(
                "policy.where = learner: the learner's process acts for all actors",
                "leave `drlnet infer` out, or set policy.where=central in every role",
            )
        require_fit(settings, learns=False)
        output.note(f"acting in {settings.env.id} for {address}; Ctrl-C stops it")
        act_for_all(settings, address, stop, output.note)
        output.note("inference ended")
    output.event("ended", env=settings.env.id)
