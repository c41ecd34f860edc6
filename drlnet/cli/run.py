"""`drlnet run`: server, actors and learner on this machine, from nothing to a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drlnet.cli import options
from drlnet.cli.flags import settings_flags
from drlnet.cli.output import Output, require_writable, typed
from drlnet.cli.pictures import Pictures
from drlnet.cli.stopping import until_stopped

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from drlnet.config import Config
    from drlnet.launch.plan import Plan
    from drlnet.launch.signals import Stop
    from drlnet.launch.supervisor import Group
    from drlnet.metrics import RunFolder

PicturesOption = Annotated[
    Path | None,
    typer.Option(
        "--pictures",
        metavar="DIR",
        help="draw the dashboard during training and the learning curve there",
        rich_help_panel="Output",
    ),
]


PrintOption = Annotated[
    bool,
    typer.Option(
        "--print",
        help="print what it would start, and as a script",
        rich_help_panel="Output",
    ),
]


@settings_flags(
    "algo.name",
    "run.seed",
    "run.goal",
    "run.max_seconds",
    "run.max_env_steps",
    "run.max_learner_steps",
    "run.keep_replay",
    "actor.num_actors",
    "actor.envs_per_actor",
    "replay.sampler",
    "server.transport",
    "server.poll",
    "run.serial",
)
def run(
    flags: dict[str, Any],
    env: options.EnvOrRunArgument = None,
    resume: options.ResumeOption = None,
    eal: options.EalOption = None,
    key: options.KeyOption = None,
    config: options.ConfigOption = None,
    set_: options.SetOption = None,
    pictures: PicturesOption = None,
    show: PrintOption = False,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
    help_config: options.HelpConfigOption = False,
) -> None:
    """Train on this machine: starts a server, actors and a learner, and shows them in one view.

    It stops at the goal or a budget, plays eval.report_episodes greedy episodes,
    prints their mean and the run's folder. No process survives it.

    [bold]Examples[/bold]

    drlnet run CartPole-v1

    drlnet run Acrobot-v1 --seed 3 --num-actors 2 --max-seconds 180

    drlnet run CartPole-v1 --set algo.n_step=5 --set replay.capacity=1e5 --json

    drlnet run CartPole-v1 --transport dpdk:local

    drlnet run CartPole-v1 --algo my_module:MyAlgo

    drlnet run CartPole-v1 --sampler amper-fr

    drlnet run --resume runs/Acrobot-v1-20261123-120000-3 --max-seconds 300

    drlnet run CartPole-v1 --serial --max-env-steps 20000
    """
    from drlnet.cli.training import note_no_end, require_trainable, resumed, settings_of
    from drlnet.metrics import RunFolder

    if flags["run.serial"] and flags["run.max_seconds"] is not None:
        from drlnet.errors import ConfigError

        raise ConfigError(
            "--serial with --max-seconds: a clock would end two runs at different points",
            "give --max-env-steps or --max-learner-steps instead",
        )
    settings = settings_of(env, resume, file=config, flags=flags, sets=set_ or ())
    options.require_dpdk(eal, [settings.server.transport])

    require_trainable(settings)
    output = Output(json)
    if show:
        from drlnet.cli.launch import print_local

        print_local(settings, output, key)
        return
    if pictures is not None:
        require_writable(pictures, "--pictures")
    with until_stopped() as stop:
        folder = RunFolder.create(settings) if resume is None else resumed(settings)
        settings = folder.read_config()
        note_no_end(settings, output)
        drawn = Pictures(pictures) if pictures is not None else None
        if settings.run.serial:
            run_serial(settings, folder, stop, output)
        else:
            run_processes(settings, folder, stop, output, drawn)
        if drawn is not None and folder.result_path.is_file() and not stop.is_set():
            for path in drawn.save(folder.path):
                output.note(f"written: {path}")


def run_processes(
    config: Config,
    folder: RunFolder,
    stop: Stop,
    output: Output,
    pictures: Pictures | None = None,
    *,
    plan: Plan | None = None,
    within: AbstractContextManager[Group] | None = None,
) -> None:
    """Server, learner and actors in processes of their own, to the result in the run's folder.

    plan, within: see LocalRun.
    """
    from drlnet.cli.training import announce, failure_kept, keep_result, note_failures
    from drlnet.dashboard import ProgressView
    from drlnet.launch.local import LocalRun
    from drlnet.metrics import RunResult, seconds_since_start

    title = f"drlnet run {config.env.id} · seed {config.run.seed}"
    view = ProgressView(
        title,
        goal=config.run.goal,
        file=output.notes,
        min_size=config.replay.min_size,
        run=folder.path.name,
        hint=f"drlnet stats {typed(folder.path)}",
    )

    def show(reading: Mapping[str, Any]) -> None:
        view.show(reading)
        if pictures is not None:
            pictures.show(reading)

    local = LocalRun(config, folder, stop, show, plan=plan, within=within)
    try:
        with view, failure_kept(config, folder, local.outlived):
            values = local.run()
    except Exception:
        note_failures(local.failures, output)
        raise
    if not values:
        folder.put_back_result()
        note_failures(local.failures, output)
        output.note(f"interrupted; the run so far is in {folder.path}")
        return
    wall_clock_s = round(seconds_since_start(), 2)
    result = replace(RunResult.of(values), wall_clock_s=wall_clock_s, **local.outlived())
    announce(result, output)
    keep_result(folder, result, local.failure)


def run_serial(config: Config, folder: RunFolder, stop: Stop, output: Output) -> None:
    """All of it in this process, to the result in the run's folder."""
    from drlnet.cli.training import failure_kept, finish
    from drlnet.roles.serial import serial

    output.note(f"training {config.env.id} in one process; metrics in {folder.metrics_path}")
    with folder.going_on(server=None):
        with failure_kept(config, folder):
            learned = serial(config, folder, stop)
        finish(config, folder, learned, output, stop)
