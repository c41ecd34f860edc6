"""`drlnet bench turns`: a client's pings beside another's long replies."""

from __future__ import annotations

from typing import Annotated

import typer

from drlnet.cli.bench.report import RoundsOption, end, show_distance
from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output


def turns(
    rounds: RoundsOption = 7,
    pings: Annotated[int, typer.Option("--pings", min=100, help="pings in each round")] = 5000,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Ping latency alone, and beside a client that samples 25 MB batches without a pause.

    Three processes that each want a core. "On a core" leaves out what the kernel
    counts as waiting for one; the rest is the server's turns and the network.
    """
    from drlnet.bench.records import key_of, over
    from drlnet.bench.turns import ALONE, BESIDE, measure_turns
    from drlnet.launch.signals import Stop

    output = Output(json)
    with Stop() as stop:
        measured = measure_turns(stop, rounds=rounds, pings=pings)
    found = {key_of(record): record for record in measured.records}
    for subject, op in (key[:2] for key in found if key[2] == BESIDE):
        alone, beside = found[subject, op, ALONE], found[subject, op, BESIDE]
        ratio = over(beside.of_rounds("p99_us"), alone.of_rounds("p99_us"))
        assert ratio is not None
        output.note(
            f"{subject}, {op}: p50 {alone.p50_us:.1f} us {ALONE}, {beside.p50_us:.1f} {BESIDE}; "
            f"p99 {alone.p99_us:.1f} and {beside.p99_us:.1f}, "
            f"{ratio.median:.2f} times that alone in the same round"
        )
    show_distance(output, measured)
    output.result(end(output, stop, measured))
