"""What the commands of benchmarks are made of: a dataclass of options each, and one way to run."""

from __future__ import annotations

import inspect
import os
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer

from drlnet.cli.options import KEY_VARIABLE, DebugOption, EalOption, JsonOption, require_dpdk
from drlnet.cli.output import Output, require_writable, require_writable_file

if TYPE_CHECKING:
    from drlnet.bench.engine import Course
    from drlnet.bench.records import Records
    from drlnet.bench.transport.suite import Subject
    from drlnet.launch.signals import Stop
    from drlnet.plots import Figure

T = TypeVar("T")
Names = list[str] | None
ROUNDS = "alternated rounds"


@dataclass
class Found:
    """What a benchmark measured: its records, the tables that show them, and a picture.

    name: of the files in the folder of --out. more: pictures of names of their own.
    """

    records: Records[Any]
    show: Callable[[TextIO], object] = lambda file: None
    name: str = ""
    picture: Figure | None = None
    more: Mapping[str, Figure] = field(default_factory=dict)


Measure = Callable[["Stop"], Found]


def option(default: T, help: str, **how: Any) -> T:
    """A field that is an option of a command. how: `flag`, and what typer.Option takes."""
    made: T = field(default=default, metadata={"help": help, **how})
    return made


def names(help: str, *, may_be_none: bool = False, metavar: str = "NAME,...") -> Names:
    """An option NAME,...: None where it is not given; [] for "none", where that may be said."""
    return option(None, help, metavar=metavar, none=may_be_none)


@dataclass(frozen=True)
class Suite:
    """The options of benchmarks that write JSON and a plot into a folder."""

    quick: bool = option(False, "a tenth of the calls in a round")
    out: Path = option(Path("runs/bench"), "where JSON and plot are written", metavar="DIR")

    def course(self, stop: Stop, output: Output, rounds: int) -> Course:
        """How the suite goes."""
        from drlnet.bench.engine import QUICK, Course, Effort

        return Course(stop, rounds, QUICK if self.quick else Effort(), output.note)


@dataclass(frozen=True)
class OverTransports(Suite):
    """The same, and those of benchmarks that compare transports."""

    transports: Names = names(
        "which of udp, dpdk:local, dpdk:memif, dpdk:virtio-user to compare with kernel UDP "
        "[dim](default all that can be had)[/dim]"
    )
    netns: bool = option(
        False, "between network namespaces joined by veth, by the kernel and by DPDK (root)"
    )
    eal: EalOption = None

    def subjects(self) -> list[Subject]:
        """What --transports names. Raises ConfigError for what does not fit together."""
        from drlnet.bench.transport.suite import subjects_of
        from drlnet.errors import ConfigError

        require_dpdk(self.eal, self.transports)
        if self.netns and self.transports is not None:
            raise ConfigError(
                "--netns compares drivers of its own, --transports those of one machine",
                "give one of the two",
            )
        return subjects_of(self.transports)


@dataclass(frozen=True)
class ToFile:
    """The option of benchmarks that write JSON alone, where it is asked for."""

    out: Path | None = option(None, "where the JSON is written, too", metavar="FILE")


def command(kind: type[Any]) -> Callable[..., None]:
    """A command: a dataclass's fields are its options, what several have alike behind its own.

    Its docstring is the help. prepare(output) checks what was asked for, and returns what measures
    it (Measure), or None where it has done all itself.
    """
    every: list[Field[Any]] = sorted(
        fields(kind), key=lambda one: one.name not in kind.__annotations__
    )
    split = {one.name: one.metadata["none"] for one in every if "none" in one.metadata}

    def run(*, json: JsonOption = False, debug: DebugOption = False, **values: Any) -> None:
        for name, may_be_none in split.items():
            values[name] = _names_in(values[name], may_be_none)
        os.environ.pop(KEY_VARIABLE, None)  # keys are what it measures, or nothing that it has
        asked, output = kind(**values), Output(json)
        measure = asked.prepare(output)
        if measure is not None:
            _run(output, getattr(asked, "out", None), isinstance(asked, ToFile), measure)

    *common, _ = inspect.signature(run, eval_str=True).parameters.values()
    parameters = [*(_parameter(kind, one) for one in every), *common]
    run.__doc__ = kind.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _parameter(kind: type, declared: Field[Any]) -> inspect.Parameter:
    given = typing.get_type_hints(kind, include_extras=True)[declared.name]
    how = dict(declared.metadata)
    if how:
        how.pop("flag", None)
        if how.pop("none", None) is not None:
            given = str | None
        given = Annotated[given, typer.Option(flag_of(declared), **how)]
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(declared.name, only, default=declared.default, annotation=given)


def flag_of(declared: Field[Any]) -> str:
    """What the option is called."""
    flag: str = declared.metadata.get("flag", f"--{declared.name}")
    return flag


def _names_in(words: str | None, may_be_none: bool) -> Names:
    if words is None:
        return None
    if may_be_none and words == "none":
        return []
    return [name.strip() for name in words.split(",")]


def _run(output: Output, out: Path | None, to_file: bool, measure: Measure) -> None:
    """Measures, shows, writes, ends. What an interruption left is kept, too."""
    from drlnet.launch.signals import Stop

    if to_file:
        require_writable_file(out)
    elif out is not None:
        require_writable(out)
    with Stop() as stop:
        found = measure(stop)
        files: dict[Path, Callable[[Path], object]] = {}
        if out is not None and found.picture is not None:
            path = out / found.name
            files = {path.with_suffix(".json"): found.records.write,
                     path.with_suffix(".svg"): found.picture.save}  # fmt: skip
            files |= {out / f"{name}.svg": one.save for name, one in found.more.items()}
        elif out is not None:
            files = {out: found.records.write}
        with written(output, found.records, files):
            found.show(output.notes)
            show_below(output, found.records)
        end(output, stop, found.records)


@contextmanager
def written(
    output: Output, records: Records[Any], files: Mapping[Path, Callable[[Path], object]]
) -> Iterator[None]:
    """Writes the files around a block that shows what they hold; nothing of no records.

    They are there before it: a terminal that was closed takes no words. Behind it, where they are,
    or ConfigError, and the JSON: what was measured is not lost with the disk.
    """
    from drlnet.errors import ConfigError

    failure: ConfigError | None = None
    kept = files if records.records else {}  # else it was interrupted before: older ones stay
    try:
        for path, write in kept.items():
            write(path)
    except ConfigError as error:
        failure = error
    yield
    if failure is not None:
        output.result(records.to_json())
        raise failure
    for path in kept:
        output.note(f"written: {path}")


def show_below(output: Output, records: Records[Any]) -> None:
    """What stands below the tables: how far apart the cores were meanwhile, and what is missing."""
    from drlnet.bench.show import console_on

    words = records.distance.in_words()
    if words and records.records:
        console_on(output.notes).print(words, style="dim")
    missing = records.more.get("unavailable") or records.more.get("incomplete") or {}
    for subject, cause in missing.items():
        output.note(f"{subject}: skipped: {cause}")


def end(output: Output, stop: Stop, records: Records[Any]) -> None:
    """Tells the results so far, as JSON; exits with the code for it when told to stop."""
    note_interruption(output, stop, measured=bool(records.records))
    output.result(records.to_json())
    if stop.is_set():
        raise typer.Exit(stop.exit_code)


def note_interruption(output: Output, stop: Stop, *, measured: bool) -> None:
    """The results so far of a benchmark that was told to stop."""
    if stop.is_set():
        until_then = "what is shown is what was measured until then"
        output.note(f"interrupted: {until_then if measured else 'nothing was measured until then'}")
