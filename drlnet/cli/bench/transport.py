"""`drlnet bench transport`: operations over each transport."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlnet.cli.bench.report import (
    OUT,
    OutOption,
    QuickOption,
    RoundsOption,
    TransportsOption,
    effort_of,
    end_without_results_if,
    names_in,
    require_writable,
    write,
)
from drlnet.cli.options import DebugOption, EalOption, JsonOption
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.bench.transport import Results


def transport(
    transports: TransportsOption = None,
    rounds: RoundsOption = 5,
    quick: QuickOption = False,
    netns: Annotated[
        bool,
        typer.Option(
            "--netns",
            help="DPDK and the kernel over one veth pair between two network namespaces (root)",
        ),
    ] = False,
    mtu: Annotated[
        int,
        typer.Option(
            "--mtu", min=1280, max=9000, help="of that veth pair; AF_XDP takes 3498 at most"
        ),
    ] = 9000,
    out: OutOption = OUT,
    eal: EalOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Latency of every operation over each transport, against kernel UDP blocking and polled.

    The same server program and payloads each time; a bare shared-memory ring
    stands beside them as the floor. Measure on an idle machine with two cores or
    more.

    [bold]Examples[/bold]

    drlnet bench transport

    drlnet bench transport --transports udp,dpdk:local --rounds 9

    sudo drlnet bench transport --netns
    """
    output = Output(json)
    if netns:
        output.result(measure_veth(output, transports, mtu, rounds, quick, out))
    else:
        output.result(measure_transports(output, transports, rounds, quick, out))


def measure_transports(
    output: Output, transports: str | None, rounds: int, quick: bool, out: Path
) -> str:
    """Measures transports of this machine, reports, and returns the JSON object."""
    from drlnet.bench.transport import measure_transports as run
    from drlnet.bench.transport import subjects_of
    from drlnet.launch.signals import Stop

    subjects = subjects_of(names_in(transports))
    require_writable(out)
    with Stop() as stop:
        results = run(stop, subjects, rounds=rounds, effort=effort_of(quick), note=output.note)
        end_without_results_if(stop, output)
    return _report(output, results, out / "transport")


def measure_veth(
    output: Output, transports: str | None, mtu: int, rounds: int, quick: bool, out: Path
) -> str:
    """The same over a veth pair between two network namespaces."""
    from drlnet.bench.cores import Cores
    from drlnet.bench.transport import measure_transports as run
    from drlnet.bench.transport.netns import BLOCK, BUSY, joined, measure_joined, veth_subjects
    from drlnet.errors import ConfigError
    from drlnet.launch.signals import Stop

    if transports is not None:
        raise ConfigError(
            "--netns compares drivers of its own, --transports those of one machine",
            "give one of the two",
        )
    effort = effort_of(quick)
    require_writable(out)
    with Stop() as stop, joined(mtu) as sides:
        results = run(
            stop,
            veth_subjects(*sides),
            rounds=rounds,
            effort=effort,
            note=output.note,
            turn=lambda subject: measure_joined(stop, subject, effort, Cores.usable(), sides),
            floors=False,
        )
        end_without_results_if(stop, output)
    return _report(output, results, out / "transport-veth", block=BLOCK, busy=BUSY, mtu=mtu)


def _report(
    output: Output,
    results: Results,
    path: Path,
    *,
    block: str = "udp block",
    busy: str = "udp busy",
    mtu: int | None = None,
) -> str:
    """Table, JSON and plot; returns the JSON."""
    from drlnet.bench.bars import plot_bars
    from drlnet.bench.records import Records
    from drlnet.bench.transport import reductions
    from drlnet.bench.transport.reductions import PAPER_RANGE
    from drlnet.bench.transport.table import show

    records = results.records()
    found = reductions(records, block=block, busy=busy)
    show(records, found, file=output.notes, block=block, busy=busy, mtu=mtu)
    for subject, cause in results.unavailable.items():
        output.note(f"{subject}: not available: {cause}")
    measured = Records(
        records,
        {
            "reductions": [asdict(reduction) for reduction in found],
            "paper_range": PAPER_RANGE,
            "unavailable": results.unavailable,
        },
    )
    write(output, path, measured, plot_bars("Latency of each operation", records))
    return measured.to_json()


def transport_client(
    address: str,
    poll: Annotated[str, typer.Option("--poll")] = "busy",
    calls: Annotated[int, typer.Option("--calls", min=1)] = 5000,
    budget_s: Annotated[float, typer.Option("--budget-s")] = 0.5,
    warm_up: Annotated[int, typer.Option("--warm-up", min=1)] = 200,
    core: Annotated[int | None, typer.Option("--core")] = None,
) -> None:
    """The measuring side of `transport --netns`."""
    from drlnet.bench.rounds import Effort
    from drlnet.bench.transport.client import measure

    output = Output(as_json=True)
    for measured in measure(address, poll, Effort(calls, budget_s, warm_up), core=core):
        output.event("measured", **measured.to_json())


def ring_echo(path: str) -> None:
    """The other side of the ring that `transport` measures."""
    from drlnet.bench.transport.ring import echo
    from drlnet.launch.signals import Stop

    output = Output(as_json=True)
    with Stop() as stop:
        count = echo(path, stop, lambda: output.event("ready"))
    output.event("echoed", messages=count)
