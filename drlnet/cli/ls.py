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
    return so far; one that was killed, or a drlnet learn that failed, has no
    result.

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
    """A row for each, the folder last and whole, so that it can be copied.

    A narrow terminal folds what is still too long; the environment, which the folder's name
    has as well, is left out before that.
    """
    from rich.console import Console
    from rich.text import Text

    rows = [_HEADINGS, *map(_cells, runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    console = Console(file=output.notes, highlight=False)
    too_wide = console.is_terminal and sum(widths) + len(widths) - 1 > console.width
    shown = range(1 if too_wide else 0, len(_HEADINGS))
    for i, row in enumerate(rows):
        line = Text(style="bold" if i == 0 else "")
        for k in shown:
            align = ">" if _HEADINGS[k] in _NUMBERS else "<"
            line.append(f"{row[k]:{align}{widths[k]}} ", _STYLES.get(row[k], ""))
        line.rstrip()
        console.print(line, soft_wrap=True)


def _cells(run: KeptRun) -> tuple[str, ...]:
    from drlnet.dashboard.units import clock, compact, short

    returned, steps, seconds = (
        math.nan if value is None else float(value)
        for value in (run.eval_return, run.env_steps, run.seconds)
    )
    return (
        run.env or "-", run.algo or "-", "-" if run.seed is None else str(run.seed),
        short(returned), compact(steps), clock(seconds), run.ended, typed(run.path),
    )  # fmt: skip


_HEADINGS = ("env", "algo", "seed", "return", "steps", "time", "ended", "run")
_NUMBERS = ("seed", "return", "steps", "time")
_STYLES = {
    **{"goal": "green", "running": "cyan", "failed": "red"},
    **{"no result": "yellow", "unreadable": "yellow"},
}
