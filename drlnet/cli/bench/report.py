"""What every benchmark's command does around its measurement."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drlnet.cli.output import Output, require_writable

if TYPE_CHECKING:
    from drlnet.bench.engine import Effort, Results
    from drlnet.bench.records import Records
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


def names_in(words: str | None) -> list[str] | None:
    """The names in an option that takes NAME,...; None when it was not given."""
    return None if words is None else [name.strip() for name in words.split(",")]


def some_in(words: str | None) -> list[str] | None:
    """The same; "none" names nothing."""
    return [] if words == "none" else names_in(words)


def numbers_in(words: str, least: int, what: str, example: str) -> list[int]:
    """The numbers in an option that takes N,...; ConfigError for other words or small numbers."""
    from drlnet.errors import ConfigError

    try:
        found = [int(word) for word in words.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < least:
        raise ConfigError(f"'{words}' are no {what}", f"give for example {example}")
    return found


def effort_of(quick: bool) -> Effort:
    """How long each operation of each round is measured."""
    from drlnet.bench.engine import QUICK, Effort

    return QUICK if quick else Effort()


def end_if(stop: Stop) -> None:
    """Ends the command when it was told to."""
    if stop.is_set():
        raise typer.Exit(stop.exit_code)


def note_interruption(output: Output, *, measured: bool) -> None:
    """What there is of a benchmark that was told to stop."""
    until_then = "what is shown is what was measured until then"
    output.note(f"interrupted: {until_then if measured else 'nothing was measured until then'}")


def end(output: Output, stop: Stop, measured: Records[Any]) -> str:
    """The JSON object that ends the command; when it was told to stop, ends it here."""
    line = measured.to_json()
    if stop.is_set():
        note_interruption(output, measured=bool(measured.records))
        output.result(line)
    end_if(stop)
    return line


def note_gaps(output: Output, results: Results) -> None:
    """What is missing in the tables, or not wholly in them, and why."""
    for subject, cause in results.unavailable.items():
        output.note(f"{subject}: skipped: {cause}")


def show_distance(output: Output, records: Records[Any]) -> None:
    """How far apart the cores were meanwhile: the last line below the tables."""
    from drlnet.bench.show import console_on

    words = records.distance.in_words()
    if words and records.records:
        console_on(output.notes).print(words, style="dim")


def require_writable_file(out: Path | None) -> None:
    """As require_writable, of a file, if one is named."""
    from drlnet.errors import ConfigError

    if out is None:
        return
    if out.is_dir():
        raise ConfigError(f"{out} is a folder", "name a file in it with --out")
    if not out.exists() or out.is_file():  # it is replaced as a whole, by one beside it
        require_writable(out.resolve().parent)
    elif not os.access(out, os.W_OK):
        raise ConfigError(f"cannot write to {out}", "choose another file with --out")


@contextmanager
def written(output: Output, path: Path, records: Records[Any], picture: Figure) -> Iterator[None]:
    """path.json and path.svg, around a block that shows what they hold; nothing of no records.

    They are there before it: a terminal that was closed takes no words. Behind it, where they are,
    or ConfigError.
    """
    from drlnet.errors import ConfigError

    failure: ConfigError | None = None
    if records.records:  # else it was interrupted before: an older result stays
        try:
            records.write(path.with_suffix(".json"))
            picture.save(path.with_suffix(".svg"))
        except ConfigError as error:
            failure = error
    yield
    with _said_if_lost(output, records):
        if failure is not None:
            raise failure
    for suffix in (".json", ".svg") if records.records else ():
        output.note(f"written: {path.with_suffix(suffix)}")


def write_file(output: Output, out: Path | None, records: Records[Any]) -> None:
    """The file that was named, if one was; of no records an older one stays."""
    if out is not None and records.records:
        with _said_if_lost(output, records):
            records.write(out)


@contextmanager
def _said_if_lost(output: Output, records: Records[Any]) -> Iterator[None]:
    """What was measured is not lost with the disk."""
    from drlnet.errors import ConfigError

    try:
        yield
    except ConfigError:
        output.result(records.to_json())
        raise
