"""`drlnet learn`: the learner."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import Annotated, Any

import typer

from drlnet.cli import options
from drlnet.cli.flags import settings_flags
from drlnet.cli.output import Output
from drlnet.cli.stopping import until_stopped

TakeoverOption = Annotated[
    bool,
    typer.Option(
        "--takeover", help="publish params in place of another learner, which ends with an error"
    ),
]
AgainOption = Annotated[
    bool,
    typer.Option(
        "--again",
        help="go on from run.folder where a learner has left its state there; else begin. For what "
        "starts a learner again",
    ),
]
ViewOption = Annotated[
    bool, typer.Option("--view/--no-view", hidden=True, help="whether to show the progress")
]


@settings_flags(
    "algo.name",
    "run.seed",
    "run.goal",
    "run.max_seconds",
    "run.max_env_steps",
    "run.max_learner_steps",
    "replay.sampler",
    "server.poll",
)
def learn(
    flags: dict[str, Any],
    env: options.EnvOrRunArgument = None,
    resume: options.ResumeOption = None,
    server: options.ServerOption = None,
    eal: options.EalOption = None,
    key: options.KeyOption = None,
    again: AgainOption = False,
    takeover: TakeoverOption = False,
    view: ViewOption = True,
    config: options.ConfigOption = None,
    set_: options.SetOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
    help_config: options.HelpConfigOption = False,
) -> None:
    """Train on what actors send to a replay server, until a goal or a budget.

    Draws prioritized batches, sends priorities back, publishes params for the
    actors. At the end it plays greedy episodes, prints their mean, and keeps
    config, metrics and checkpoint in a folder under runs/. Ctrl-C ends it early
    and keeps the checkpoint. Without ENV and --resume the server tells the
    settings: those of the run that a learner began there.

    [bold]Examples[/bold]

    drlnet learn CartPole-v1

    drlnet learn CartPole-v1 --server udp://10.0.0.2:7447 --max-seconds 300
    """
    from drlnet.cli.training import (
        finish,
        going_on,
        learn_view,
        note_no_end,
        require_trainable,
        resumed,
        settings_of,
    )
    from drlnet.cli.which import server_to_join, settings_to_play
    from drlnet.launch.beside import beside_learner
    from drlnet.metrics import RunFolder

    layers = {"file": config, "flags": flags, "sets": set_ or ()}
    output = Output(json)
    with until_stopped() as stop, ExitStack() as stack:
        address = server_to_join(server)
        options.require_dpdk(eal, [address])
        if resume is not None:
            settings = settings_of(env, resume, **layers)
        else:
            settings = settings_to_play(env, address, stop, output, **layers)
        require_trainable(settings)
        from drlnet.config.keys import server_fingerprint
        from drlnet.learning.ranks import place_told
        from drlnet.nets.device import usable_device
        from drlnet.roles.learn import learn as learn_role
        from drlnet.roles.rank import learn_along

        told = place_told(settings)
        if told is not None and told.rank > 0:
            learn_along(settings, address, told, stop, output.note)
            return
        left = going_on(settings, **layers) if again else None
        if resume is not None or left is not None:
            folder = resumed(left or settings, again=left is not None)
        else:
            folder = RunFolder.create(settings)
        settings = folder.read_config()
        note_no_end(settings, output)
        try:
            # They are forked first: a process that has used a GPU cannot be.
            alone = told is not None
            with beside_learner(settings, folder, address, stop, alone=alone) as place:
                usable_device(settings.learner.device)
                if view:  # else it is the run's whose learner this is
                    stack.enter_context(folder.going_on(address, server_fingerprint("learner")))
                with learn_view(folder, address, output) if view else nullcontext():
                    result = learn_role(
                        settings, address, folder, stop, output.note,
                        take_over=takeover, place=told or place,
                    )  # fmt: skip
        except BaseException:
            if folder.checkpoint_path.exists():
                output.note(f"what was learned is in {folder.path}")
            folder.put_back_result()
            folder.discard_unused()  # no server answered, for example: there is nothing to keep
            raise
        output.event("trained", stopped=result.stopped, learner_steps=result.learner_steps)
        finish(settings, folder, result, output, stop)
