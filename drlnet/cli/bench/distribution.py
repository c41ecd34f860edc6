"""`drlnet bench distribution`: what AMPER draws, beside what PER draws."""

from __future__ import annotations

from typing import Annotated

import typer

from drlnet.cli.bench.report import OutFileOption, end, require_writable_file, write_file
from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output
from drlnet.cli.stopping import until_stopped


def distribution(
    batches: Annotated[
        int, typer.Option("--batches", min=1, help="candidate sets, of 512 draws each")
    ] = 2000,
    items: Annotated[int, typer.Option("--items", min=64, help="in the table")] = 4096,
    out: OutFileOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """How far AMPER's draws are from PER's, over its groups and scale.

    KL divergence and largest ratio, for priorities that are log-normal and
    exponential.
    """
    from drlnet.bench.distribution import Distance, measure_distances

    output = Output(json)

    def report(found: Distance) -> None:
        options = ", ".join(f"{name} {value:g}" for name, value in found.options.items())
        output.note(
            f"{found.workload}, {found.subject} {options}: KL {found.kl_nats:.5f} nats, "
            f"frequencies {found.least_frequency:.3f} to {found.most_frequency:.3f} of PER's"
        )

    require_writable_file(out)
    with until_stopped() as stop:
        measured = measure_distances(stop, report, items=items, batches=batches)
        write_file(output, out, measured)
        output.result(end(output, stop, measured))
