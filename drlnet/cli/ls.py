"""`drlnet ls`: the runs in a folder."""

from __future__ import annotations

import json as json_module
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output, typed

if TYPE_CHECKING:
    from drlnet.metrics.run_list import KeptRun

FolderArgument = Annotated[
    Path | None, typer.Argument(metavar="FOLDER", help="where to look [dim](default: runs)[/dim]")
]


def list_runs(
    folder: FolderArgument = None, json: JsonOption = False, debug: DebugOption = False
) -> None:
    """List runs: environment, algorithm, seed, greedy return, steps, time, how each ended.

    The oldest first, those of sweeps among them. A run that goes on has its best
    return so far; "no result" is one that failed or was killed.

    [bold]Examples[/bold]

    drlnet ls

    drlnet ls runs/sweep-CartPole-v1-20260101-120000

    drlnet ls --json | jq '.runs[] | select(.ended == "goal") | .path'
    """
    from drlnet.errors import RunFolderError
    from drlnet.metrics.run_list import RUNS, kept_runs

    where = folder or RUNS
    if folder is not None and not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder", "name one that holds folders of runs")
    runs, output = kept_runs(where), Output(json)
    if runs:
        _show(runs, output)
    else:
        output.note(f"no runs in {where.absolute()}; drlnet run CartPole-v1 makes one")
    listed = [{**asdict(run), "path": str(run.path.absolute())} for run in runs]
    output.result(json_module.dumps({"runs": listed}))


def _show(runs: list[KeptRun], output: Output) -> None:
    """A row for each. Narrow terminals cut the environment; a folder is shown whole."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from drlnet.dashboard.units import clock, compact, short

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    table.add_column("run", overflow="fold")
    table.add_column("env", no_wrap=True, overflow="ellipsis", min_width=6)
    table.add_column("algo", no_wrap=True, overflow="ellipsis")
    for heading in ("seed", "return", "steps", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    for run in runs:
        returned, steps = (
            math.nan if value is None else float(value)
            for value in (run.eval_return, run.env_steps)
        )
        seed = "-" if run.seed is None else str(run.seed)
        seconds = math.nan if run.seconds is None else run.seconds
        table.add_row(
            Text(typed(run.path)), run.env or "-", run.algo or "-", seed, short(returned),
            compact(steps), clock(seconds), Text(run.ended, _STYLES.get(run.ended, "")),
        )  # fmt: skip
    console = Console(file=output.notes, highlight=False)
    if not console.is_terminal:  # a pipe takes lines of any width
        console.width = 1000
    console.print(table)


_STYLES = {"goal": "green", "running": "cyan", "no result": "yellow", "unreadable": "yellow"}
