"""`drlnet bench`: measurements of the service itself."""

from __future__ import annotations

from typing import Annotated

import typer

from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output

bench = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Measure the service.")


@bench.command("turns")
def turns(
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="alternated rounds")] = 7,
    pings: Annotated[int, typer.Option("--pings", min=100, help="pings in each round")] = 5000,
    compete: Annotated[
        bool, typer.Option("--compete", help="let the reader compete for the cores")
    ] = False,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Ping latency alone, and beside a client that samples 25 MB batches without a pause."""
    from drlnet.bench import measure_turns
    from drlnet.launch.signals import Stop

    output = Output(json)
    with Stop() as stop:
        measured = measure_turns(stop, rounds=rounds, pings=pings, compete=compete)
    for record in measured.records:
        output.note(
            f"{record.op} {record.workload}: p50 {record.p50_us:.1f} us, "
            f"p99 {record.p99_us:.1f} us (medians of {record.rounds} rounds)"
        )
    alone, beside = measured.records
    output.note(
        f"ratio: p50 {beside.p50_us / alone.p50_us:.2f}, p99 {beside.p99_us / alone.p99_us:.2f}"
    )
    output.result(measured.to_json())


@bench.command("bulk-reader", hidden=True)
def bulk_reader(address: str) -> None:
    """The client that `turns` measures against."""
    from drlnet.bench import read_in_bulk
    from drlnet.launch.signals import Stop

    output = Output(as_json=True)
    with Stop() as stop:
        rate = read_in_bulk(address, stop, lambda: output.event("ready"))
    output.event("read", bytes_per_second=rate)
