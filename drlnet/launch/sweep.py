"""Settings times seeds: every combination is a run of its own, several at a time.

A sweep has a folder: the runs' folders lie in it, and sweep.json holds the results so far. The same
sweep started again in its folder makes only the runs that have no result yet.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any

from drlnet.config import Config, changes, load
from drlnet.errors import ConfigError, RunFolderError, cannot_write
from drlnet.launch.process import Watched
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Supervisor
from drlnet.metrics import RunFolder
from drlnet.metrics.live import NO_LOCKS, live_file, read_live
from drlnet.metrics.whole import write_whole

_GRACE_S = 15.0  # a run ends its own processes first
_IDLE_S = 3600.0  # between two looks when nothing happens
_OWN = ("run.folder", "run.resume")  # of a run, whatever its settings
_NAME = re.compile(r"[^A-Za-z0-9.=+-]+")


def values_of(text: str) -> list[str]:
    """The values in "1,3,5": commas within brackets, braces or quotes do not separate."""
    values, depth, quote = [""], 0, ""
    for character in text:
        if character == "," and depth == 0 and not quote:
            values.append("")
            continue
        values[-1] += character
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        else:
            depth += (character in "[{") - (character in "]}")
    return [value.strip() for value in values]


def grid(sets: Sequence[str]) -> tuple[list[tuple[str, ...]], list[str]]:
    """(every combination of the keys with several values, the sets that are alike for all runs).

    sets: KEY=VALUE or KEY=VALUE,VALUE,... texts. Raises ConfigError for one that is neither.
    """
    axes: dict[str, list[str]] = {}
    common: list[str] = []
    for text in sets:
        key, equals, words = text.partition("=")
        values = values_of(words)
        if not equals or not key.strip() or "" in values:
            raise ConfigError(
                f"--set {text}: expected KEY=VALUE or KEY=VALUE,VALUE,...",
                "write for example --set algo.n_step=1,3,5",
            )
        if key.strip() == "run.seed":
            raise ConfigError(
                f"--set {text}: a sweep counts the seeds itself", "use --seed, --seeds"
            )
        if key.strip() in axes:
            raise ConfigError(
                f"--set {text}: the sweep has several values of {key.strip()} already",
                f"give them in one: --set {key.strip()}=VALUE,VALUE,...",
            )
        if len(values) == 1:
            common.append(text)
        else:
            axes[key.strip()] = [f"{key.strip()}={value}" for value in dict.fromkeys(values)]
    return list(product(*axes.values())), common


@dataclass(frozen=True)
class Planned:
    """One run. setting: the sets in which it differs from others."""

    setting: tuple[str, ...]
    seed: int
    path: Path

    @property
    def label(self) -> str:
        """The setting in words: n_step=1, learning_rate=0.001."""
        return ", ".join(text.partition("=")[0].rpartition(".")[2] + "=" + text.partition("=")[2]
                         for text in self.setting) or "all"  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """One setting over its seeds. The returns are those of the runs' final greedy episodes.

    return_iqm: mean of the middle half of the seeds (of 1 to 3 seeds: of all). steps_to_goal:
    median env steps of the runs that reached the goal; None where none did.
    """

    setting: str
    runs: int
    failed: int
    reached: int
    return_median: float | None
    return_iqm: float | None
    steps_to_goal: float | None
    wall_clock_s: float | None  # median


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean without the lowest and the highest quarter, each rounded down to whole values."""
    cut = len(values) // 4
    return fmean(sorted(values)[cut : len(values) - cut])


@dataclass
class Sweep:
    """The runs of one sweep and what became of them.

    arguments: of every `drlnet run`, the environment first. Threading: main thread only.
    """

    folder: Path
    arguments: list[str]
    settings: list[tuple[str, ...]]
    seeds: int
    first_seed: int = 0
    results: dict[Path, dict[str, Any]] = field(default_factory=dict)  # by run folder
    failures: dict[Path, str] = field(default_factory=dict)

    @property
    def plan(self) -> list[Planned]:
        """All runs, seeds outermost: an interrupted sweep has compared all settings alike."""
        return [
            Planned(setting, seed, self._path(setting, seed))
            for seed in range(self.first_seed, self.first_seed + self.seeds)
            for setting in self.settings
        ]

    def _path(self, setting: Sequence[str], seed: int) -> Path:
        words = [text.partition(".")[2] or text for text in setting]
        return self.folder / _NAME.sub("_", "-".join([*words, f"seed={seed}"]))

    @contextmanager
    def open(self) -> Iterator[list[Planned]]:
        """Makes the folder and takes over the results in it; the block has it alone, and is given
        the runs still to be made.

        Raises ConfigError when it holds another sweep, or a result of other settings, or cannot be
        written; RunFolderError where a sweep goes on in it.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(f"to {self.folder}", error) from error
        path = self.folder / "live.json"
        if (live := read_live(path)) is not None:
            raise RunFolderError(
                f"a sweep goes on in {self.folder}, in process {live['pid']}",
                "wait for its end, or choose another folder with --out",
            )
        with ExitStack() as stack:
            try:
                stack.enter_context(live_file(path, {"pid": os.getpid()}))
            except OSError as error:
                if error.errno not in NO_LOCKS:  # there it goes on all the same, unseen
                    raise cannot_write(path, error) from error
            self._take_over()
            yield [run for run in self.plan if run.path not in self.results]

    def _take_over(self) -> None:
        if self.json_path.is_file():
            try:
                before = json.loads(self.json_path.read_text(encoding="utf-8"))["arguments"]
            except (OSError, ValueError, KeyError) as error:
                raise RunFolderError(
                    f"{self.json_path} cannot be read: {error}",
                    "remove it, or choose another --out",
                ) from error
            if before != self.arguments:
                raise ConfigError(
                    f"{self.folder} holds another sweep: drlnet run {' '.join(before)}",
                    "choose another folder with --out",
                )
        paths = [run.path for run in self.plan]
        if len(set(paths)) < len(paths):
            raise ConfigError("two settings of the sweep have the same name", "leave one out")
        for run in self.plan:
            result = RunFolder(run.path).read_result()
            if result and result["stopped"] not in ("interrupted", "failed"):
                self._require_settings(run)
                self.results[run.path] = result
        self.write(interrupted=False)

    def _require_settings(self, run: Planned) -> None:
        """Raises ConfigError where the run in that folder had other settings: two keys may end in
        the same word, and a --config file may have changed."""
        was, wanted = RunFolder(run.path).read_config(), self._config(run)
        kept, now = changes(was, wanted), changes(wanted, was)
        for key in {**now, **kept}:
            if key not in _OWN:
                raise ConfigError(
                    f"{run.path} holds a run with {key} = {kept.get(key)!r}, which is "
                    f"{now.get(key)!r} in this sweep",
                    "choose another folder with --out",
                )

    def _config(self, run: Planned) -> Config:
        """The settings that command() starts it with."""
        words = self.command(run)[2:-1]
        given = list(zip(words[::2], words[1::2], strict=True))
        file = next((Path(value) for option, value in given if option == "--config"), None)
        sets = [value for option, value in given if option == "--set"]
        return load(self.arguments[0], file=file, sets=sets)

    def run(
        self, stop: Stop, runs: Sequence[Planned], jobs: int, ended: Callable[[Planned], None]
    ) -> None:
        """Makes these runs, `jobs` at a time; `ended` is told of each with its result or failure.

        A run that fails does not end the others, nor does one that goes on without this sweep, as
        `drlnet run --resume` has it. When stopped, ends all and returns.
        """
        waiting, under_way = list(reversed(runs)), dict[Watched, Planned]()
        with Supervisor(stop, grace_s=_GRACE_S, suspend=signal.SIGTSTP) as group:
            while (waiting or under_way) and not stop.is_set():
                while waiting and len(under_way) < jobs:
                    run = waiting.pop()
                    if (live := RunFolder(run.path).live()) is not None:
                        self.failures[run.path] = f"it is still running, in process {live['pid']}"
                        ended(run)
                        continue
                    shutil.rmtree(run.path, ignore_errors=True)  # of an attempt without a result
                    under_way[group.start(run.path.name, self.command(run))] = run
                for event in group.wait(_IDLE_S if under_way else 0.0):
                    if isinstance(event, Ended) and (run := under_way.pop(event.process)):
                        self._keep(run, event.process)
                        self.write(interrupted=False)
                        ended(run)
        self.write(interrupted=stop.is_set())

    def command(self, run: Planned) -> list[str]:
        """The arguments of that run's `drlnet`."""
        own = [f"run.folder={json.dumps(str(run.path))}", f"run.seed={run.seed}"]
        words = [word for text in (*run.setting, *own) for word in ("--set", text)]
        return ["run", *self.arguments, *words, "--json"]

    def _keep(self, run: Planned, process: Watched) -> None:
        result = process.last_object
        if process.returncode == 0 and "eval_return_mean" in result:
            self.results[run.path] = result
        else:
            self.failures[run.path] = process.failure().cause

    def summaries(self) -> list[Summary]:
        """A row for each setting, of the runs that ended so far."""
        return [self._summary(setting) for setting in self.settings]

    def _summary(self, setting: tuple[str, ...]) -> Summary:
        own = [run for run in self.plan if run.setting == setting]
        results = [self.results[run.path] for run in own if run.path in self.results]
        returns = [
            one["eval_return_mean"] for one in results if one["eval_return_mean"] is not None
        ]
        reached = [one for one in results if one["stopped"] == "goal"]
        return Summary(
            own[0].label,
            len(results),
            sum(run.path in self.failures for run in own),
            len(reached),
            median(returns) if returns else None,
            interquartile_mean(returns) if returns else None,
            median(one["env_steps"] for one in reached) if reached else None,
            median(one["wall_clock_s"] for one in results) if results else None,
        )

    @property
    def json_path(self) -> Path:
        """The file in which write() keeps to_dict()."""
        return self.folder / "sweep.json"

    def to_dict(self, *, interrupted: bool) -> dict[str, Any]:
        """What sweep.json and the command's last line hold."""
        return {
            "sweep_dir": str(self.folder),
            "arguments": self.arguments,
            "settings": [asdict(summary) for summary in self.summaries()],
            "runs": list(self._runs()),
            "interrupted": interrupted,
        }

    def _runs(self) -> Iterator[dict[str, Any]]:
        for run in self.plan:
            about = {"setting": run.label, "sets": list(run.setting), "seed": run.seed}
            if run.path in self.results:
                yield {**about, **self.results[run.path]}
            elif run.path in self.failures:
                yield {**about, "run_dir": str(run.path), "error": self.failures[run.path]}

    def write(self, *, interrupted: bool) -> None:
        """Keeps all results so far. Raises ConfigError when it cannot."""
        try:
            text = json.dumps(self.to_dict(interrupted=interrupted), indent=1)
            write_whole(self.json_path, f"{text}\n".encode())
        except OSError as error:
            raise cannot_write(self.json_path, error) from error
