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
    from drlnet.bench.transport.suite import Results

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
    from contextlib import ExitStack

    from drlnet.bench.transport.subjects import subjects_of
    from drlnet.bench.transport.suite import BLOCK, BUSY, Places, measure_transports
    from drlnet.errors import ConfigError
    from drlnet.launch.signals import Stop

    if netns and transports is not None:
        raise ConfigError(
            "--netns compares drivers of its own, --transports those of one machine",
            "give one of the two",
        )
    if mtu is not None and not netns:
        raise ConfigError("--mtu is of the veth pair, which --netns makes", "add --netns")
    subjects = subjects_of(names_in(transports))
    path, names, places = out / "transport", (BLOCK, BUSY), Places()
    require_writable(out)
    with Stop() as stop, ExitStack() as stack:
        if netns:
            from drlnet.bench.transport import netns as veth

            mtu = mtu or _MTU
            sides = stack.enter_context(veth.joined(mtu, stop))
            subjects, places = veth.veth_subjects(*sides), veth.places_of(*sides)
            path, names = out / "transport-veth", (veth.BLOCK, veth.BUSY)
        results = measure_transports(
            stop, subjects, rounds=rounds, effort=effort_of(quick), note=output.note, places=places,
            floors=not netns,
        )  # fmt: skip
        measured = _report(output, results, path, names, mtu)
    return end(output, stop, measured)


def _report(
    output: Output, results: Results, path: Path, names: tuple[str, str], mtu: int | None
) -> Records[Any]:
    """Table, JSON and plot; returns what was measured."""
    from drlnet.bench.records import Records
    from drlnet.bench.show import plot_bars
    from drlnet.bench.transport.report import show
    from drlnet.bench.transport.suite import PAPER_RANGE, reductions

    records = results.records()
    block, busy = names
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
