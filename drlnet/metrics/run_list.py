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


@dataclass(frozen=True)
class KeptRun:
    """A run's folder, summed up. What is not known is None.

    eval_return: of its result; before there is one, of the best params so far.
    ended: goal, budget, interrupted; "running"; "no result" for one that failed or was killed;
    "unreadable" for a folder that is damaged.
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
        if has(RunFolder(run.path)):
            return RunFolder(run.path)
    raise RunFolderError(
        f"no run {what} in {RUNS.absolute()}",
        "name a run's folder, or train: drlnet run CartPole-v1",
    )


def _summed_up(folder: RunFolder) -> KeptRun:
    started_s = folder.config_path.parent.stat().st_mtime
    try:
        started_s = folder.started_s
        settings = toml.read(folder.config_path)  # as it stands: a user's modules may be gone
        result = folder.read_result()
        reading = {} if result else folder.last_reading("learner")
    except (DrlnetError, OSError):
        return KeptRun(folder.path, started_s, "unreadable")
    running = folder.live() is not None
    last_s = time.time() if running else float(reading.get("time", started_s))
    returned = result.get("eval_return_mean") if result else reading.get("eval_return_best")
    known: dict[str, Any] = result or reading
    return KeptRun(
        path=folder.path,
        started_s=started_s,
        ended="running" if running else str(result.get("stopped", "no result")),
        env=settings["env"]["id"],
        algo=settings["algo"]["name"],
        seed=settings["run"]["seed"],
        eval_return=returned,
        env_steps=known.get("env_steps"),
        learner_steps=known.get("learner_steps"),
        seconds=float(result["wall_clock_s"]) if result and not running else last_s - started_s,
    )
