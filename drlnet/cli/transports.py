"""What `drlnet bench transport` does between its options and its output."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drlnet.cli.bench_report import (
    effort_of,
    end_without_results_if,
    names_in,
    require_writable,
    write,
)
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.bench.transport import Results

TransportsOption = Annotated[
    str | None,
    typer.Option(
        "--transports",
        metavar="NAME,...",
        help="which of udp, dpdk:local, dpdk:memif, dpdk:virtio-user to compare with kernel UDP "
        "[dim](default all that can be had)[/dim]",
    ),
]


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
