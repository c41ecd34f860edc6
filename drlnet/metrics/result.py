"""The one JSON line that ends a run or an evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class EvalSummary:
    """Greedy episodes, summed up. Returns are undiscounted; std is over episodes."""

    mean: float
    std: float
    median: float
    episodes: int

    @staticmethod
    def of(returns: Sequence[float]) -> EvalSummary:
        """The summary of one return per episode, which may be infinite; NaN for none."""
        import numpy as np  # takes time to load, and other results need it not

        if not returns:
            return EvalSummary(math.nan, math.nan, math.nan, 0)
        with np.errstate(invalid="ignore", over="ignore"):
            mean, std, median = (float(f(returns)) for f in (np.mean, np.std, np.median))
        return EvalSummary(mean, std, median, len(returns))


@dataclass(frozen=True)
class RunResult:
    """What `run`, `learn` and `eval` end with.

    Of a run that was interrupted or failed the returns are the gate's best ones: their mean alone
    is known.
    """

    env: str
    seed: int
    eval_return_mean: float
    eval_return_std: float
    eval_return_median: float
    eval_episodes: int
    eval_planned_episodes: int  # more than were played where the report took too long
    eval_never_ended: int  # of them: cut by a time limit
    wall_clock_s: float  # from the start of the process to the result
    env_steps: int
    learner_steps: int
    run_dir: str
    stopped: str  # goal | budget | interrupted | failed | evaluated
    env_settings: Mapping[str, Any] = field(default_factory=dict)  # all of [env]; {} in older ones
    eval_learner_steps: int = 0  # that made the params which were evaluated
    actor_restarts: int = 0  # of actors that a signal had ended
    learner_restarts: int = 0
    server_restarts: int = 0  # of one that keeps its state
    failures: Sequence[str] = ()  # of roles, after which the run went on
    failure: str = ""  # why the run failed

    @staticmethod
    def of(values: Mapping[str, Any]) -> RunResult:
        """The result that to_json() wrote; null is NaN again."""
        known: dict[str, Any] = {k: math.nan if v is None else v for k, v in values.items()}
        return RunResult(**known)

    def to_json(self, **extra: Any) -> str:
        """One line of JSON; a number that JSON has no name for becomes null."""
        return json.dumps(_named({**asdict(self), **extra}))


def _named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_named(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
