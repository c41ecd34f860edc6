"""`drlnet plot`: pictures of runs."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from drlnet.cli import completion
from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.plots import Figure
    from drlnet.plots.learning import Over
    from drlnet.plots.runs import Run

RunsArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="RUN",
        autocompletion=completion.runs,
        readable=False,  # one that is not is skipped
        help="folders of runs, as `drlnet run` printed them [dim](default: the newest)[/dim]",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="a .png or .svg; with several pictures their names come before the suffix "
        "[dim](default: .svg in the run's folder, or in runs/plots for several runs)[/dim]",
    ),
]
WhatOption = Annotated[
    Literal["learning", "latency", "throughput", "all"],
    typer.Option("--what", help="which pictures; all: those that the runs hold enough for"),
]
OverOption = Annotated[
    Literal["steps", "frames", "seconds", "minutes", "both"],
    typer.Option("--over", help="what learning curves are drawn over; both: steps and seconds"),
]


def plot(
    runs: RunsArgument = None,
    out: OutOption = None,
    what: WhatOption = "all",
    over: OverOption = "both",
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Draw runs: learning curves, latency distributions, throughput over time.

    Runs that differ by their seed alone become one line, the median, with a band
    from the least to the most; others become lines of their own, named by the
    settings in which they differ.

    [bold]Examples[/bold]

    drlnet plot                                  [dim]# the newest run in runs/[/dim]

    drlnet plot runs/CartPole-v1-20260101-120000-0

    drlnet plot runs/CartPole-v1-* --what learning --over steps --out curves.png
    """
    from drlnet.cli.which import newest_that_recorded
    from drlnet.errors import DrlnetError
    from drlnet.plots.figure import check_suffix

    output = Output(json)
    if out is not None:
        check_suffix(out)
    paths = runs or [newest_that_recorded(output)]
    read, skipped = _read(paths, output)
    base = out or (read[0].path if len(paths) == 1 else Path("runs/plots")) / "plot.svg"
    kinds = ["learning", "latency", "throughput"] if what == "all" else [what]
    written: list[str] = []
    for kind in kinds:
        try:
            figure = _draw(kind, read, over)
        except DrlnetError as error:
            if what != "all" or (kind == kinds[-1] and not written):
                raise
            output.note(f"{kind}: left out: {error.cause}")
            continue
        path = base if what != "all" and out else base.with_name(_name(base, kind, out is None))
        figure.save(path)
        written.append(str(path))
        output.note(f"written: {path}")
    output.result(
        json_module.dumps(
            {"written": written, "runs": [str(run.path) for run in read], "skipped": skipped}
        )
    )


def _name(base: Path, kind: str, ours: bool) -> str:
    return f"{kind}{base.suffix}" if ours else f"{base.stem}-{kind}{base.suffix}"


def _read(paths: list[Path], output: Output) -> tuple[list[Run], list[dict[str, Any]]]:
    """The runs, and those that cannot be read: an error only when none is left."""
    from drlnet.errors import DrlnetError
    from drlnet.plots.runs import read_run

    found: list[Run] = []
    skipped: list[dict[str, Any]] = []
    failures: list[DrlnetError] = []
    for path in dict.fromkeys(paths):
        try:
            run = read_run(path)
        except DrlnetError as error:
            failures.append(error)
            skipped.append({"run_dir": str(path), "cause": error.cause})
            continue
        if run.cut_short:
            output.note(f"{path}: its last reading is cut short and left out")
        found.append(run)
    if not found:
        raise failures[0]
    for failure in failures:
        output.note(f"skipped: {failure.cause}")
    return found, skipped


def _draw(kind: str, runs: list[Run], over: Over) -> Figure:
    from drlnet.plots.latency import latency
    from drlnet.plots.learning import learning
    from drlnet.plots.throughput import throughput

    if kind == "learning":
        return learning(runs, over)
    return latency(runs) if kind == "latency" else throughput(runs)
