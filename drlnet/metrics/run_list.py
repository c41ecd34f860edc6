"""The runs in a folder, each summed up in a row: what it was, how far it came, how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from drlnet.config import toml
from drlnet.errors import DrlnetError, RunFolderError
from drlnet.metrics.run_folder import RunFolder

RUNS = Path("runs")  # where runs have their folders unless run.folder says otherwise
_ODD = (DrlnetError, OSError, ValueError, LookupError, TypeError)  # of files that others wrote


@dataclass(frozen=True)
class KeptRun:
    """A run's folder, summed up. What is not known is None.

    eval_return: of its result; before there is one, of the best params so far.
    ended: goal, budget, interrupted, failed; "running"; "no result" for one that was killed, or a
    `drlnet learn` that failed; "unreadable" for a folder that is damaged.
    """

    path: Path
    started_s: float  # since the epoch
    ended: str
    env: str | None = None
    algo: str | None = None
    seed: int | None = None
    eval_return: float | None = None
    env_steps: int | None = None
    learner_steps: int | None = None
    seconds: float | None = None


def kept_runs(folder: Path) -> list[KeptRun]:
    """Those in `folder` and in its folders, as sweeps are, the oldest first."""
    found = chain(folder.glob("*/facts.json"), folder.glob("*/*/facts.json"))
    runs = [_summed_up(RunFolder(path.parent)) for path in found]
    return sorted(runs, key=lambda run: run.started_s)


def newest_run(has: Callable[[RunFolder], bool], what: str) -> RunFolder:
    """The newest run under runs/ of which that holds. what: it in words, for the error.

    Raises RunFolderError when no run fits.
    """
    for run in reversed(kept_runs(RUNS)):
        if run.ended != "unreadable" and has(RunFolder(run.path)):
            return RunFolder(run.path)
    raise RunFolderError(
        f"no run {what} in {RUNS.absolute()}",
        "name a run's folder, or train: drlnet run CartPole-v1",
    )


def _summed_up(folder: RunFolder) -> KeptRun:
    changed_s = 0.0
    try:
        changed_s = folder.path.stat().st_mtime
        return _read(folder)
    except _ODD:
        return KeptRun(folder.path, changed_s, "unreadable")


def _read(folder: RunFolder) -> KeptRun:
    """Raises _ODD where its files hold something else than what a run writes."""
    settings = toml.read(folder.config_path)  # as it stands: a user's modules may be gone
    result = folder.read_result()
    reading = {} if result else folder.last_reading("learner")
    known: dict[str, Any] = result or reading
    running, started_s = folder.live() is not None, folder.started_s
    last_s = time.time() if running else float(reading.get("time", started_s))
    returned = result.get("eval_return_mean") if result else reading.get("eval_return_best")
    return KeptRun(
        path=folder.path,
        started_s=started_s,
        ended="running" if running else str(result.get("stopped", "no result")),
        env=str(settings["env"]["id"]),
        algo=str(settings["algo"]["name"]),
        seed=int(settings["run"]["seed"]),
        eval_return=None if returned is None else float(returned),
        env_steps=_count(known.get("env_steps")),
        learner_steps=_count(known.get("learner_steps")),
        seconds=float(result["wall_clock_s"]) if result and not running else last_s - started_s,
    )


def _count(value: Any) -> int | None:
    return None if value is None else int(value)
