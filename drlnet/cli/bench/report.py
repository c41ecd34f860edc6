"""What every benchmark's command does around its measurement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.bench.records import Records
    from drlnet.bench.rounds import Effort
    from drlnet.launch.signals import Stop
    from drlnet.plots import Figure

RoundsOption = Annotated[int, typer.Option("--rounds", min=1, help="alternated rounds")]
QuickOption = Annotated[bool, typer.Option("--quick", help="a tenth of the calls in a round")]
OutOption = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="where JSON and plot are written")
]
OUT = Path("runs/bench")
OutFileOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="where the JSON is written, too")
]
TransportsOption = Annotated[
    str | None,
    typer.Option(
        "--transports",
        metavar="NAME,...",
        help="which of udp, dpdk:local, dpdk:memif, dpdk:virtio-user to compare with kernel UDP "
        "[dim](default all that can be had)[/dim]",
    ),
]
_USUAL_BYTES = 1 << 18  # of results


def names_in(words: str | None) -> list[str] | None:
    """Of an option that takes NAME,...; None when it was not given."""
    return None if words is None else [name.strip() for name in words.split(",")]


def some_in(words: str | None) -> list[str] | None:
    """The same; "none" names nothing."""
    return [] if words == "none" else names_in(words)


def effort_of(quick: bool) -> Effort:
    """How long each operation of each round is measured."""
    from drlnet.bench.rounds import QUICK, Effort

    return QUICK if quick else Effort()


def end_if(stop: Stop) -> None:
    """Ends the command when it was told to."""
    if stop.is_set():
        raise typer.Exit(stop.exit_code)


def end_without_results_if(stop: Stop, output: Output) -> None:
    """The same for one that keeps whole comparisons only, and says so."""
    if stop.is_set():
        output.note("interrupted: nothing is kept, for half a comparison is none")
    end_if(stop)


def require_writable(out: Path) -> None:
    """Raises ConfigError where results cannot be written: before they are measured, not after."""
    from tempfile import TemporaryFile

    from drlnet.errors import ConfigError

    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out) as tried:
            tried.write(bytes(_USUAL_BYTES))
    except OSError as error:
        raise ConfigError(
            f"cannot write to {out}: {error.strerror}", "choose another folder with --out"
        ) from error


def write(output: Output, path: Path, records: Records[Any], picture: Figure) -> None:
    """path.json and path.svg, and a line for each."""
    from drlnet.errors import ConfigError

    try:
        records.write(path.with_suffix(".json"))
        picture.save(path.with_suffix(".svg"))
    except ConfigError:
        output.result(records.to_json())  # what was measured is not lost with the disk
        raise
    for suffix in (".json", ".svg"):
        output.note(f"written: {path.with_suffix(suffix)}")
