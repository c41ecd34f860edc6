"""`drlnet bench transport`: operations over each transport."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drlnet.cli.bench.report import (
    OUT,
    OutOption,
    QuickOption,
    RoundsOption,
    TransportsOption,
    effort_of,
    end,
    names_in,
    note_gaps,
    show_distance,
    written,
)
from drlnet.cli.options import DebugOption, EalOption, JsonOption, require_dpdk
from drlnet.cli.output import Output, require_writable

if TYPE_CHECKING:
    from drlnet.bench.records import Records
    from drlnet.bench.transport import Results

_MTU = 9000  # of the veth pair


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
        int | None,
        typer.Option(
            "--mtu",
            min=1280,
            max=9000,
            help="of that veth pair; AF_XDP takes 3498 at most [dim](default 9000)[/dim]",
        ),
    ] = None,
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
    require_dpdk(eal, names_in(transports))
    output.result(measure(output, transports, netns, mtu, rounds, quick, out))


def measure(
    output: Output,
    transports: str | None,
    netns: bool,
    mtu: int | None,
    rounds: int,
    quick: bool,
    out: Path,
) -> str:
    """Measures transports of this machine, or over veth; reports, and returns the JSON object."""
    from drlnet.errors import ConfigError

    if netns and transports is not None:
        raise ConfigError(
            "--netns compares drivers of its own, --transports those of one machine",
            "give one of the two",
        )
    if mtu is not None and not netns:
        raise ConfigError("--mtu is of the veth pair, which --netns makes", "add --netns")
    if netns:
        return _measure_veth(output, mtu or _MTU, rounds, quick, out)
    return _measure_transports(output, transports, rounds, quick, out)


def _measure_transports(
    output: Output, transports: str | None, rounds: int, quick: bool, out: Path
) -> str:
    from drlnet.bench.transport import measure_transports, subjects_of
    from drlnet.launch.signals import Stop

    subjects, effort = subjects_of(names_in(transports)), effort_of(quick)
    require_writable(out)
    with Stop() as stop:
        results = measure_transports(stop, subjects, rounds=rounds, effort=effort, note=output.note)
        measured = _report(output, results, out / "transport")
    return end(output, stop, measured)


def _measure_veth(output: Output, mtu: int, rounds: int, quick: bool, out: Path) -> str:
    from drlnet.bench.cores import Cores
    from drlnet.bench.transport import measure_transports
    from drlnet.bench.transport.netns import BLOCK, BUSY, joined, measure_joined, veth_subjects
    from drlnet.launch.signals import Stop

    effort = effort_of(quick)
    require_writable(out)
    with Stop() as stop, joined(mtu, stop) as sides:
        results = measure_transports(
            stop,
            veth_subjects(*sides),
            rounds=rounds,
            effort=effort,
            note=output.note,
            turn=lambda subject: measure_joined(stop, subject, effort, Cores.usable(), sides),
            floors=False,
        )
        measured = _report(output, results, out / "transport-veth", block=BLOCK, busy=BUSY, mtu=mtu)
    return end(output, stop, measured)


def _report(
    output: Output,
    results: Results,
    path: Path,
    *,
    block: str = "udp block",
    busy: str = "udp busy",
    mtu: int | None = None,
) -> Records[Any]:
    """Table, JSON and plot; returns what was measured."""
    from drlnet.bench.bars import plot_bars
    from drlnet.bench.records import Records
    from drlnet.bench.transport import reductions
    from drlnet.bench.transport.reductions import PAPER_RANGE
    from drlnet.bench.transport.table import show

    records = results.records()
    found = reductions(records, block=block, busy=busy)
    measured = Records(
        records,
        {
            "reductions": [asdict(reduction) for reduction in found],
            "paper_range": PAPER_RANGE,
            "unavailable": results.unavailable,
            "interrupted": results.interrupted,
        },
        results.distance,
    )
    with written(output, path, measured, plot_bars("Latency of each operation", records)):
        show(records, found, file=output.notes, block=block, busy=busy, mtu=mtu)
        show_distance(output, measured)
        note_gaps(output, results)
    return measured
