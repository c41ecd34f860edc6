"""`drlnet bench compare`: two records of one benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output


def compare(
    before: Annotated[Path, typer.Argument(metavar="A.json", help="the record to compare with")],
    after: Annotated[Path, typer.Argument(metavar="B.json", help="the record to judge")],
    figure: Annotated[
        Literal["p50", "p99", "mean"], typer.Option(help="what is compared, of each round")
    ] = "p50",
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """What changed between two records of one benchmark, beyond their noise.

    Pairs measurements by subject, operation and workload; the ratio of the
    rounds' medians stands beside the interval that resampled rounds give it. Says
    where the machines' set-ups differ.

    [bold]Examples[/bold]

    drlnet bench compare before.json runs/bench/transport.json

    drlnet bench compare a.json b.json --figure p99
    """
    import json as encoder

    from drlnet.bench.compare import Figure, show
    from drlnet.bench.compare import compare as compared

    output = Output(json)
    of: Figure = f"{figure}_us"  # type: ignore[assignment]
    found = compared(before, after, of)
    show(found, of, file=output.notes)
    output.result(encoder.dumps(found.to_dict()))
