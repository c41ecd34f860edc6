"""Two records of one benchmark, measurement by measurement: what changed beyond its noise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np

from drlnet.bench import show as tables
from drlnet.bench.records import ByRound, Key, Record, Round, key_of
from drlnet.errors import ConfigError

Figure = Literal["p50_us", "p99_us", "mean_us"]
LEAST_ROUNDS = 3  # on both sides: fewer do not show their noise
_RESAMPLES, _SEED = 10_000, 0
_SETUP = ("machine", "setup", "version", "commit", "build_commit")
_FIELDS = {one.name for one in fields(Record)}


@dataclass(frozen=True)
class Change:
    """A measurement of both records: ratio 1.2 takes 1.2 times as long in the second.

    before, after: medians over the rounds, and of them the ratio. low, high: 95% of the ratios of
    rounds that are drawn again, from each record by itself; None where either has few rounds.
    """

    subject: str
    op: str
    workload: str
    before: float
    after: float
    ratio: float
    low: float | None
    high: float | None

    @property
    def verdict(self) -> str:
        """slower or faster, where the whole interval lies on one side of 1; else nothing."""
        if self.low is None or self.high is None or self.low <= 1 <= self.high:
            return ""
        return "slower" if self.ratio > 1 else "faster"


@dataclass(frozen=True)
class Comparison:
    """What two records of one benchmark have in common, and where they differ."""

    changes: list[Change]
    setup: dict[str, tuple[Any, Any]]  # what differs, by its name: before and after
    only_before: list[Key]
    only_after: list[Key]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **vars(self),
            "changes": [{**vars(one), "verdict": one.verdict} for one in self.changes],
        }


def compare(before: Path, after: Path, figure: Figure = "p50_us") -> Comparison:
    """Reads both. Raises ConfigError for a file that is not a record, or of another benchmark."""
    first, second = _read(before), _read(after)
    olds, news = (
        {key_of(record): record for record in _records_of(path, one)}
        for path, one in ((before, first), (after, second))
    )
    suites = [sorted({record.suite for record in side.values()}) for side in (olds, news)]
    if suites[0] != suites[1]:
        of_each = [f"{path} is of bench {', '.join(names)}"
                   for path, names in zip((before, after), suites, strict=True)]  # fmt: skip
        raise ConfigError(", ".join(of_each), "compare two records of one benchmark")
    draw = np.random.default_rng(_SEED)
    changes = [
        _change(key, olds[key].of_rounds(figure), news[key].of_rounds(figure), draw)
        for key in olds
        if key in news
    ]
    setups = [dict(_flat({name: one[name] for name in _SETUP if name in one}))
              for one in (first, second)]  # fmt: skip
    names = dict.fromkeys([*setups[0], *setups[1]])
    both = {name: (setups[0].get(name), setups[1].get(name)) for name in names}
    return Comparison(
        changes,
        {name: pair for name, pair in both.items() if pair[0] != pair[1]},
        [key for key in olds if key not in news],
        [key for key in news if key not in olds],
    )


def _change(key: Key, before: ByRound, after: ByRound, draw: np.random.Generator) -> Change:
    sides = [np.maximum([*side.values()], 1e-3) for side in (before, after)]  # clocks tell a ns
    old, new = (float(np.median(side)) for side in sides)
    low = high = None
    if min(map(len, sides)) >= LEAST_ROUNDS:
        olds, news = (
            np.median(draw.choice(side, (_RESAMPLES, len(side))), axis=1) for side in sides
        )
        low, high = np.percentile(news / olds, [2.5, 97.5]).tolist()
    return Change(*key, old, new, new / old, low, high)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", "name two files") from error
    except ValueError as error:  # bytes that are not text, or text that is not JSON
        raise ConfigError(f"{path} is not JSON", _REMEDY) from error
    if not isinstance(found, dict) or not found.get("records"):
        raise ConfigError(f"{path} holds no records of a benchmark", _REMEDY)
    return found


_REMEDY = "give the JSON that `drlnet bench NAME` wrote to runs/bench, or printed with --json"


def _records_of(path: Path, said: Mapping[str, Any]) -> list[Record]:
    try:
        found = [
            Record(**{name: one[name] for name in one.keys() & _FIELDS - {"by_round"}},
                   by_round=tuple(Round(**each) for each in one["by_round"]))
            for one in said["records"]
        ]  # fmt: skip
    except (KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} does not say what each round measured",
            "measure again with this version: transport, turns, sampler, replay, paper, load "
            "and actors keep their rounds",
        ) from error
    return found


def _flat(values: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{name}{key}.")
        else:
            yield f"{name}{key}", value


def show(found: Comparison, figure: Figure, *, file: TextIO) -> None:
    """Prints it as a table of 80 columns: in colour on a terminal, plain elsewhere."""
    console = tables.console_on(file)
    if found.setup:
        console.print("The set-ups differ:", style="bold")
    for name, pair in found.setup.items():
        old, new = ("absent" if value is None else value for value in pair)
        console.print(f"  {name}: {old} -> {new}", markup=False)
    rows = {Record("", one.subject, one.workload, one.op, 0, 0, 0, 0): one
            for one in found.changes}  # fmt: skip
    unit = figure.replace("_", " ")
    tables.show(
        [*rows],
        {
            f"A {unit}": lambda row: tables.figure(rows[row].before),
            "B": lambda row: tables.figure(rows[row].after),
            "B/A": lambda row: f"{rows[row].ratio:.3f}",
            "95%": lambda row: _interval(rows[row]),
            "": lambda row: rows[row].verdict,
        },
        _caption(found),
        file=file,
        without=[*tables.TIMES],
    )
    for side, keys in (("A", found.only_before), ("B", found.only_after)):
        for subject, op, workload in keys:
            console.print(f"only in {side}: {subject}, {op}, {workload}", markup=False)


def _interval(change: Change) -> str:
    return "" if change.low is None else f"{change.low:.3f}-{change.high:.3f}"


def _caption(found: Comparison) -> Sequence[str]:
    judged = [one for one in found.changes if one.low is not None]
    slower, faster = ([one for one in judged if one.verdict == word]
                      for word in ("slower", "faster"))  # fmt: skip
    few = len(found.changes) - len(judged)
    return [
        f"{len(found.changes)} measurements in both: {len(slower)} slower, {len(faster)} faster, "
        f"{len(judged) - len(slower) - len(faster)} within their noise"
        + (f"; {few} of fewer than {LEAST_ROUNDS} rounds, not judged." if few else "."),
        "95%: of the ratios when rounds are drawn again (bootstrap of medians). That is the noise "
        "within each record; what the machine did otherwise between the two is in the ratio.",
    ]
