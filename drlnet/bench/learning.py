"""How well does an agent learn by each sampler? One environment, several samplers, several seeds.

All settings come from the environment's recipe and are the same for every sampler. Each run is
serial, so its steps are reproducible bit by bit; it ends at the recipe's goal or after so many
learner steps; the return is the mean of greedy episodes with the params that its gate found best.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drlnet.bench.records import Records
from drlnet.config import load
from drlnet.launch.signals import Stop
from drlnet.metrics import EvalSummary, RunFolder
from drlnet.roles.evaluate import evaluate_checkpoint
from drlnet.roles.serial import serial


@dataclass(frozen=True)
class Learned:
    """One run. Steps are those until it stopped: at its goal when `reached`."""

    subject: str  # the sampler
    workload: str  # the environment
    seed: int
    reached: bool
    env_steps: int
    learner_steps: int
    eval_return_mean: float
    eval_return_std: float
    eval_episodes: int
    wall_clock_s: float
    suite: str = "learning"
    op: str = "run"

    def to_dict(self) -> dict[str, Any]:
        """As a record of a result."""
        return asdict(self)


def measure_learning(
    env: str,
    samplers: Sequence[str],
    seeds: int,
    stop: Stop,
    report: Callable[[Learned], None],
    *,
    file: Path | None = None,
    sets: Sequence[str] = (),
    max_learner_steps: int = 10_000,
) -> Records[Learned]:
    """Runs seed 0 .. seeds - 1 with each sampler, seeds outermost; report() is told of each run.

    Stops early, with what there is, when `stop` is set. Errors: ConfigError, UnknownEnvironment.
    """
    flags = {"run.serial": True, "run.max_learner_steps": max_learner_steps}
    plan = [
        (seed, sampler, load(
            env, file=file, sets=sets, flags={**flags, "run.seed": seed, "replay.sampler": sampler}
        ))
        for seed in range(seeds)
        for sampler in samplers
    ]  # fmt: skip
    runs: list[Learned] = []
    for seed, sampler, config in plan:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            run = RunFolder(Path(folder))
            learned = serial(config, run, stop)
            if stop.is_set():
                break
            episodes = config.eval.report_episodes
            played = evaluate_checkpoint(config, run.checkpoint_path, episodes)
        summary = EvalSummary.of(played.returns)
        runs.append(
            Learned(
                subject=sampler,
                workload=env,
                seed=seed,
                reached=learned.stopped == "goal",
                env_steps=learned.env_steps,
                learner_steps=learned.learner_steps,
                eval_return_mean=summary.mean,
                eval_return_std=summary.std,
                eval_episodes=summary.episodes,
                wall_clock_s=round(time.monotonic() - started, 1),
            )
        )
        report(runs[-1])
    return Records(runs, {"summary": summarise(runs), "interrupted": stop.is_set()})


def summarise(runs: Sequence[Learned]) -> dict[str, Mapping[str, Any]]:
    """By sampler: how many runs reached the goal, steps (median, least, most), return over seeds.

    Steps are over all runs: one that did not reach the goal counts with the budget it spent.
    """
    summary: dict[str, Mapping[str, Any]] = {}
    for sampler in dict.fromkeys(run.subject for run in runs):
        own = [run for run in runs if run.subject == sampler]
        steps = [run.env_steps for run in own]
        returns = [run.eval_return_mean for run in own]
        summary[sampler] = {
            "runs": len(own),
            "reached": sum(run.reached for run in own),
            "env_steps": [float(np.median(steps)), min(steps), max(steps)],
            "eval_return_mean": float(np.mean(returns)),
            "eval_return_std_over_seeds": float(np.std(returns)),
        }
    return summary
