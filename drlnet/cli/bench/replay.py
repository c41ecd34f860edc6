"""`drlnet bench replay`: what learner and actors do with a replay memory, on ours and on peers."""

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
    numbers_in,
    show_distance,
    some_in,
    written,
)
from drlnet.cli.options import DebugOption, JsonOption
from drlnet.cli.output import Output, require_writable

if TYPE_CHECKING:
    from drlnet.bench.records import Records
    from drlnet.bench.replay.suite import Results


def replay(
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME,...",
            help="cpprb, torchrl, tianshou, redis, reverb, ray, numpy "
            "[dim](default all that can be had; none)[/dim]",
        ),
    ] = None,
    works: Annotated[
        str | None,
        typer.Option("--works", metavar="NAME,...", help="small, atari [dim](default both)[/dim]"),
    ] = None,
    transports: Annotated[
        str | None,
        typer.Option(
            "--transports",
            metavar="NAME,...",
            help="of ours [dim](default dpdk:local,udp; none)[/dim]",
        ),
    ] = None,
    clients: Annotated[
        str, typer.Option("--clients", metavar="N,...", help="that insert beside the learner")
    ] = "0,1,2",
    rounds: RoundsOption = 3,
    quick: QuickOption = False,
    out: OutOption = OUT,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """What learner and actors do with a replay memory: on ours, from another process, and on peers.

    Insert one by one and by 50, sample, update, a learner's cycle; alone and
    beside clients that insert. Peers come by pip install 'drlnet\\[peers]',
    redis-server by the system; what is absent or broken is skipped, with a line.

    [bold]Examples[/bold]

    drlnet bench replay

    drlnet bench replay --against cpprb,redis --works small --quick

    drlnet bench replay --against none --transports udp --clients 0
    """
    output = Output(json)
    names = Names(works, against, transports, clients)
    output.result(measure(output, names, rounds, quick, out))


@dataclass(frozen=True)
class Names:
    """What to measure, as typed; None: all there is."""

    works: str | None
    against: str | None
    transports: str | None
    clients: str


def measure(output: Output, names: Names, rounds: int, quick: bool, out: Path) -> str:
    """Measures, reports, and returns the JSON object. What an interruption left is kept, too."""
    from drlnet.bench.replay.suite import WORKS, measure_replays, subjects_of
    from drlnet.config.names import chosen
    from drlnet.errors import ConfigError
    from drlnet.launch.signals import Stop

    wanted = chosen("work", names_in(names.works), list(WORKS))
    clients = sorted({0, *numbers_in(names.clients, 0, "numbers of inserting clients", "0,1,2")})
    transports, against = some_in(names.transports), some_in(names.against)
    works = [(WORKS[name], subjects_of(WORKS[name], transports, against)) for name in wanted]
    if not any(subjects for _, subjects in works):
        raise ConfigError("there is nothing to measure", "name transports, peers, or both")
    require_writable(out)
    with Stop() as stop:
        results = measure_replays(
            stop,
            works,
            rounds=rounds,
            effort=effort_of(quick),
            note=output.note,
            clients=clients,
        )
        measured = _report(output, results, works[0][1][0].name, out / "replay")
    return end(output, stop, measured)


def _report(output: Output, results: Results, baseline: str, path: Path) -> Records[Any]:
    """Table, JSON and plot; returns what was measured."""
    from drlnet.bench.records import Records
    from drlnet.bench.replay.report import ratios, shares, show
    from drlnet.bench.show import plot_bars

    records = results.records()
    slower, of_floor = ratios(records, baseline), shares(records)
    measured = Records(
        records,
        {
            "ratios": [asdict(ratio) for ratio in slower],
            "shares_of_floor": [asdict(share) for share in of_floor],
            "inserted_per_second": results.inserted_per_second(),
            "includes": results.includes,
            "unavailable": results.unavailable,
            "interrupted": results.interrupted,
        },
        results.distance,
    )
    with written(output, path, measured, plot_bars("Replay memories: time of a call", records)):
        show(records, slower, of_floor, results.includes, file=output.notes)
        show_distance(output, measured)
        note_gaps(output, results)
    return measured
