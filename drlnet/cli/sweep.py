"""`drlnet sweep`: settings times seeds, a table and learning curves."""

from __future__ import annotations

import json as json_module
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drlnet.cli import options
from drlnet.cli.flags import settings_flags
from drlnet.cli.output import Output, typed
from drlnet.cli.stopping import until_stopped

if TYPE_CHECKING:
    from drlnet.launch.sweep import Planned, Sweep

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE,...",
        help="a setting; several values span a grid, e.g. algo.n_step=1,3,5 (a list in brackets is "
        "one value); repeatable",
        rich_help_panel="Settings",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="the sweep's folder; runs that have a result in it are not made again "
        "[dim](default a new one in runs/)[/dim]",
    ),
]


@settings_flags(
    "algo.name",
    "run.goal",
    "run.max_seconds",
    "run.max_env_steps",
    "run.max_learner_steps",
    "run.serial",
    "run.seed",
)
def sweep(
    env: options.EnvArgument,
    flags: dict[str, Any],
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", min=1, help="runs of each setting; their seeds count up from --seed"
        ),
    ] = 5,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="runs at a time")] = 1,
    out: OutOption = None,
    key: options.KeyOption = None,
    config: options.ConfigOption = None,
    set_: SetOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
) -> None:
    """Compare settings over seeds: every combination is a `drlnet run` of its own.

    Prints the median and the interquartile mean of the greedy return over the
    seeds, how many runs reached the goal and in how many steps. The sweep's
    folder keeps the runs, sweep.json and learning.svg. A run that fails is
    listed and does not end the others.

    [bold]Examples[/bold]

    drlnet sweep CartPole-v1 --set replay.sampler=prioritized,uniform --jobs 2

    drlnet sweep Acrobot-v1 --set algo.n_step=1,3 --serial --max-env-steps 50000
    """
    from drlnet.config import load
    from drlnet.config.toml import literal
    from drlnet.errors import ConfigError, RoleFailed
    from drlnet.launch.sweep import Sweep, grid

    if flags["run.serial"] and flags["run.max_seconds"] is not None:
        raise ConfigError(
            "--serial with --max-seconds: a clock would end two runs at different points",
            "give --max-env-steps or --max-learner-steps instead",
        )
    first_seed = flags.pop("run.seed") or 0
    settings, common = grid(set_ or ())
    given = [f"{key}={literal(value, key)}" for key, value in flags.items() if value is not None]
    common = [*given, *common]
    for setting in settings:  # what no run would take is refused before the first one starts
        load(env, file=config, sets=[*common, *setting])
    arguments = [env, *(["--config", str(config.resolve())] if config else [])]
    arguments += [word for text in common for word in ("--set", text)]
    output = Output(json)
    made = Sweep((out or _new_folder(env)).resolve(), arguments, settings, seeds, first_seed)
    with made.open() as left, until_stopped() as stop:
        if len(left) < len(made.plan):
            had = len(made.plan) - len(left)
            output.note(f"{had} of {len(made.plan)} runs have results already")
        made.run(stop, left, jobs, lambda run: output.note(_line(made, run)))
        _show(made, output)
        if stop.is_set():
            output.note(
                "interrupted: the table has the runs that ended; the same command goes on "
                f"with --out {typed(made.folder)}"
            )
        output.result(json_module.dumps(made.to_dict(interrupted=stop.is_set())))
    if made.failures:
        raise typer.Exit(RoleFailed.exit_code)


def _new_folder(env: str) -> Path:
    from drlnet.errors import cannot_write
    from drlnet.metrics.run_folder import reserve

    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    path = Path("runs") / f"sweep-{env.replace('/', '-').replace(':', '-')}-{stamp}"
    try:
        return reserve(path)
    except OSError as error:
        raise cannot_write(f"to {path}", error) from error


def _line(made: Sweep, run: Planned) -> str:
    name = f"{run.label}, seed {run.seed}"
    if run.path in made.failures:
        return f"{name}: failed: {made.failures[run.path]}"
    result = made.results[run.path]
    return (
        f"{name}: greedy return {_number(result['eval_return_mean'])} after {result['env_steps']} "
        f"env steps ({result['stopped']}, {result['wall_clock_s']:.0f} s)"
    )


def _show(made: Sweep, output: Output) -> None:
    """The table, and the learning curves of the runs that have any."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not made.results and not made.failures:
        return
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    table.add_column("setting")
    for heading in ("runs", "failed", "return median", "IQM", "reached goal", "steps to goal", "s"):
        table.add_column(heading, justify="right")
    for one in made.summaries():
        table.add_row(
            Text(one.setting), str(one.runs), str(one.failed), _number(one.return_median),
            _number(one.return_iqm), f"{one.reached}/{one.runs}", _number(one.steps_to_goal),
            _number(one.wall_clock_s),
        )  # fmt: skip
    console = Console(file=output.notes, highlight=False)
    console = console if console.is_terminal else Console(file=output.notes, width=80)
    console.print(table)
    console.print(
        "Return: mean of each run's final greedy episodes, over the seeds. IQM: mean of the middle "
        "half of the seeds. Steps to goal: median env steps of the runs that reached it.",
        style="dim",
    )
    for run in made.plan:
        if run.path in made.failures:
            output.note(f"failed: {run.label}, seed {run.seed}: {made.failures[run.path]}")
    _plot(made, output)
    output.note(f"results: {made.json_path}")


def _plot(made: Sweep, output: Output) -> None:
    from drlnet.errors import DrlnetError
    from drlnet.plots.learning import learning
    from drlnet.plots.runs import read_run

    path = made.folder / "learning.svg"
    try:
        learning([read_run(run) for run in made.results]).save(path)
    except DrlnetError as error:
        output.note(f"no learning curves: {error.cause}")
    else:
        output.note(f"written: {path}")


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:,.1f}" if value < 10_000 else f"{value:,.0f}"
