"""What `drlnet bench replay` does between its options and its output."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drlnet.cli.bench_report import (
    effort_of,
    end,
    names_in,
    note_gaps,
    some_in,
    written,
)
from drlnet.cli.output import Output, require_writable

if TYPE_CHECKING:
    from drlnet.bench.replay import Results


@dataclass(frozen=True)
class Names:
    """What to measure, as typed; None: all there is."""

    works: str | None
    against: str | None
    transports: str | None
    clients: str


def measure(output: Output, names: Names, rounds: int, quick: bool, out: Path) -> str:
    """Measures, reports, and returns the JSON object. What an interruption left is kept, too."""
    from drlnet.bench.replay import WORKS, measure_replays, subjects_of
    from drlnet.config.names import require_known
    from drlnet.errors import ConfigError
    from drlnet.launch.signals import Stop

    wanted = names_in(names.works) or list(WORKS)
    for name in wanted:
        require_known("work", name, list(WORKS))
    try:
        clients = sorted({0, *map(int, names.clients.split(","))})
    except ValueError:
        clients = [-1]
    if clients[0] < 0:
        raise ConfigError(
            f"'{names.clients}' are no numbers of inserting clients", "give for example 0,1,2"
        )
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
        said = _report(output, results, works[0][1][0].name, out / "replay")
    return end(output, stop, said)


def _report(output: Output, results: Results, baseline: str, path: Path) -> str:
    """Table, JSON and plot; returns the JSON."""
    from drlnet.bench.records import Records
    from drlnet.bench.replay.plot import plot
    from drlnet.bench.replay.ratios import ratios, shares
    from drlnet.bench.replay.table import show

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
    )
    with written(output, path, measured, plot(records)):
        show(records, slower, of_floor, results.includes, file=output.notes)
        note_gaps(output, results)
    return measured.to_json()
