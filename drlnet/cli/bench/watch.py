"""`drlnet bench watch`: what watching a server costs it."""

from __future__ import annotations

from typing import Annotated

import typer

from drlnet.cli.bench.report import OutFileOption, end, require_writable_file, write_file
from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output
from drlnet.cli.stopping import until_stopped


def watch(
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="alternated pairs of sides")] = 5,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="that each side is measured")
    ] = 5.0,
    interval: Annotated[
        float, typer.Option("--interval", min=0.1, help="between two readings of stats")
    ] = 0.5,
    out: OutFileOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Throughput of a server under load with `drlnet stats` attached, and without.

    The sides alternate; the ratio of each pair is printed, and their median.
    """
    from drlnet.bench.watch import Pair, measure_watching

    output = Output(json)

    def report(pair: Pair) -> None:
        output.note(
            f"{pair.alone:,.0f} cycles/s not watched, {pair.watched:,.0f} watched, "
            f"ratio {pair.ratio:.4f}"
        )

    require_writable_file(out)
    with until_stopped() as stop:
        measured = measure_watching(
            stop, pairs=pairs, seconds=seconds, interval_s=interval, report=report
        )
        if measured.more.get("ratio") is not None:
            output.note(f"median ratio {measured.more['ratio']:.4f}")
        write_file(output, out, measured)
        output.result(end(output, stop, measured))
