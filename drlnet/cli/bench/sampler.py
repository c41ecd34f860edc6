"""`drlnet bench sampler`: drawing by priority and updating, beside what others do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drlnet.cli.bench.report import (
    OUT,
    OutOption,
    QuickOption,
    RoundsOption,
    effort_of,
    end,
    names_in,
    note_gaps,
    some_in,
    written,
)
from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output, require_writable

if TYPE_CHECKING:
    from drlnet.bench.records import Records
    from drlnet.bench.sampler.suite import Results

_MOST_DRAWS = 65536  # of one request to a server


def sampler(
    sizes: Annotated[
        str,
        typer.Option(
            "--sizes", metavar="N,...", help="leaves: 1000, 2^20, or 2^10..2^27 for all between"
        ),
    ] = "2^10,2^14,2^17,2^20",
    batch: Annotated[int, typer.Option("--batch", help="draws, or updates, in a call")] = 512,
    samplers: Annotated[
        str | None,
        typer.Option(
            "--samplers",
            metavar="NAME,...",
            help="ours, the first the baseline [dim](default all; none)[/dim]",
        ),
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            "--peers",
            metavar="NAME,...",
            help="numpy, numpy-tree, cpprb, torchrl, tianshou; torch-cuda and torchrl-cuda on a "
            "GPU [dim](default all that can be had; none)[/dim]",
        ),
    ] = None,
    kernels: Annotated[
        str | None,
        typer.Option(
            "--kernels",
            metavar="NAME,...",
            help="instruction sets for prioritized's tree: avx512, avx2, portable "
            "[dim](default all that run here)[/dim]",
        ),
    ] = None,
    priorities: Annotated[
        str,
        typer.Option("--priorities", help="exponential, uniform, equal, or wide (12 magnitudes)"),
    ] = "exponential",
    rounds: RoundsOption = 5,
    quick: QuickOption = False,
    out: OutOption = OUT,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Drawing a batch by priority and updating one, over sizes, beside what others do.

    The server's samplers by themselves, on one core; then its whole answer to a
    sample request, without a network, against memcpy. Peers come by pip install
    'drlnet\\[peers]'.

    [bold]Examples[/bold]

    drlnet bench sampler

    drlnet bench sampler --sizes 2^10..2^27 --peers none --rounds 3

    drlnet bench sampler --sizes 2^20 --samplers prioritized --peers cpprb
    """
    output = Output(json)
    names = Names(samplers, peers, kernels)
    output.result(measure(output, names, sizes, batch, priorities, rounds, quick, out))


@dataclass(frozen=True)
class Names:
    """The subjects as typed; None: all there are."""

    samplers: str | None
    peers: str | None
    kernels: str | None


def measure(
    output: Output,
    names: Names,
    sizes: str,
    batch: int,
    distribution: str,
    rounds: int,
    quick: bool,
    out: Path,
) -> str:
    """Measures, reports, and returns the JSON object."""
    from drlnet.bench.sampler.subjects import priorities_of, subjects_of
    from drlnet.bench.sampler.suite import measure_samplers, sizes_of, workload_of
    from drlnet.errors import ConfigError
    from drlnet.launch.signals import Stop

    wanted = sizes_of(sizes)
    if not 1 <= batch <= _MOST_DRAWS:
        raise ConfigError(
            f"a batch of {batch} cannot be measured", f"give from 1 to {_MOST_DRAWS} draws"
        )
    subjects = subjects_of(some_in(names.samplers), some_in(names.peers), names_in(names.kernels))
    if not subjects:
        raise ConfigError("there is nothing to measure", "name samplers, peers, or both")
    priorities_of(distribution, 1)  # says now if there is none of that name
    require_writable(out)
    with Stop() as stop:
        results = measure_samplers(
            stop,
            subjects,
            sizes=wanted,
            batch=batch,
            distribution=distribution,
            rounds=rounds,
            effort=effort_of(quick),
            note=output.note,
        )
        by_workload = {workload_of(size, batch): size for size in wanted}
        measured = _report(output, results, subjects[0].name, by_workload, out / "sampler")
    return end(output, stop, measured)


def _report(
    output: Output, results: Results, baseline: str, sizes: dict[str, int], path: Path
) -> Records[Any]:
    """Table, JSON and plot; returns what was measured."""
    from drlnet.bench.measure import kernel_names
    from drlnet.bench.records import Records
    from drlnet.bench.sampler.report import plot, ratios, show
    from drlnet.metrics.host import cache_bytes

    records = results.records()
    found = ratios(records, baseline)
    measured = Records(
        records,
        {
            "ratios": [asdict(ratio) for ratio in found],
            "kernels": kernel_names(),
            "includes": results.includes,
            "unavailable": results.unavailable,
            "interrupted": results.interrupted,
        },
    )
    with written(output, path, measured, plot(records, sizes, cache_bytes())):
        show(records, found, results.includes, file=output.notes)
        note_gaps(output, results)
    return measured
