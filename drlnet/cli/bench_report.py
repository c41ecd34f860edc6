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
    if stop.is_set():  # half a comparison is none
        raise typer.Exit(stop.exit_code)


def write(output: Output, path: Path, records: Records[Any], picture: Figure) -> None:
    """path.json and path.svg, and a line for each."""
    records.write(path.with_suffix(".json"))
    picture.save(path.with_suffix(".svg"))
    for suffix in (".json", ".svg"):
        output.note(f"written: {path.with_suffix(suffix)}")
