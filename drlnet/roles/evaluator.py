"""The evaluator: plays newly published params greedily, in a process of its own."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from drlnet.algos import make_algorithm
from drlnet.client import Client
from drlnet.config import Config
from drlnet.envs import find_spaces
from drlnet.metrics import RunFolder
from drlnet.metrics.usage import process_figures
from drlnet.nets.params import read_metadata, unpack
from drlnet.roles.gate import Gate, read_best, write_best
from drlnet.roles.reach import reach
from drlnet.roles.stop import Stop

_NICE = 10  # where there is one core, which the learner needs more
_SHORTEST_WAIT_S, _LONGEST_WAIT_S = 0.02, 2.0  # between looks for newer params


def evaluate_published(
    config: Config, server: str, run: RunFolder, stop: Stop, note: Callable[[str], None]
) -> None:
    """Evaluates the newest params after every eval.period learner steps, until stop is set.

    Reports what the gate found as client.evaluator.*; keeps the best params in the run's folder.
    Errors: UserCodeError for an environment that crashes; CheckpointMismatch; the client's own.
    """
    torch.set_num_threads(1)
    if len(os.sched_getaffinity(0)) == 1:
        os.nice(_NICE)
    algorithm = make_algorithm(config, find_spaces(config.env))
    with reach(
        server, "evaluator", config.server.poll, stop, note, kept=config.run.keep_replay
    ) as client:
        gate, looked_at = Gate(config, stop, read_best(run, algorithm.architecture)), 0
        published = _Published(client, run.path.name, config.eval.period)
        while (found := published.next(stop)) is not None:
            version, blob = found
            facts = read_metadata(blob)
            params = unpack(blob, algorithm.architecture, f"version {version} at {server}")
            looked_at, before = int(facts["learner_steps"]), gate.best
            try:
                reached = gate.evaluate(params, looked_at)
            except KeyboardInterrupt:
                return
            if gate.best is not None and gate.best is not before:
                write_best(run.best_path, gate.best, algorithm.architecture, facts)
            with suppress(KeyboardInterrupt), stop.interrupts():
                client.report(
                    {
                        "role": "evaluator",
                        "params_version": version,
                        "eval_learner_steps": looked_at,
                        "eval_return": gate.last_mean,
                        "eval_return_best": gate.best.mean if gate.best else float("nan"),
                        "goal_reached": int(reached),
                        **process_figures(with_children=True),
                    }
                )
            if reached:
                stop.wait()
                return


class _Published:
    """The newest params of a run, at least `period` learner steps after those before."""

    def __init__(self, client: Client, run_name: str, period: int):
        self._client, self._run_name, self._period = client, run_name, period
        self._version = self._steps = 0
        self._next_steps = period
        self._since_s = time.monotonic()

    def next(self, stop: Stop) -> tuple[int, bytes] | None:
        """(version, blob) once there are such; None when stopped before."""
        while not stop.is_set():
            newer = self._client.fetch(newer_than=self._version)
            if newer is not None:
                self._version = newer[0]
                facts = read_metadata(newer[1])
                self._steps = int(facts["learner_steps"])
                if facts.get("run") == self._run_name and self._steps >= self._next_steps:
                    self._next_steps = self._steps - self._steps % self._period + self._period
                    return newer
            if stop.wait(self._wait_s()):
                return None
        return None

    def _wait_s(self) -> float:
        # Params may be large: they are fetched about when the learner has taken enough steps.
        rate = self._steps / max(1e-9, time.monotonic() - self._since_s)
        missing_s = (self._next_steps - self._steps) / rate if rate else 0.0
        return min(max(missing_s / 2, _SHORTEST_WAIT_S), _LONGEST_WAIT_S)


@dataclass(frozen=True)
class Evaluated:
    """What the newest evaluation found."""

    mean: float = math.nan
    best_mean: float = math.nan
    learner_steps: int = 0  # that made the params
    goal_reached: bool = False


def heard(client: Client, first_version: int) -> Evaluated | None:
    """What an evaluator reports of this learner's params, which begin with first_version."""
    reading: Mapping[str, Any] = client.stats()
    for key, value in reading.items():
        if key.endswith(".goal_reached") and key.startswith("client.evaluator"):
            said = key.removesuffix("goal_reached")
            if reading.get(f"{said}params_version", 0) >= first_version:
                return Evaluated(
                    float(reading[f"{said}eval_return"]),
                    float(reading[f"{said}eval_return_best"]),
                    int(reading[f"{said}eval_learner_steps"]),
                    bool(value),
                )
    return None
