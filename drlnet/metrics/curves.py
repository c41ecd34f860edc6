"""The curves that every sink draws of a run: some twenty tags that are the same in each run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from statistics import fmean
from typing import Any

from drlnet.metrics.catalog import NAMES_KEPT, find
from drlnet.metrics.plain import PERCENTILES

# Tags by the figure of the learner's report.
_LEARNER = {
    "eval_return": "eval/return",
    "eval_return_best": "eval/return_best",
    "env_steps": "progress/env_steps",
    "learner_steps": "progress/learner_steps",
    "learner_steps_per_s": "learner/steps_per_s",
    "loss": "learner/loss",
    "q_mean": "learner/q_mean",
    "learning_rate": "learner/learning_rate",
    "updates": "learner/updates",
    "value_error": "learner/value_error",
    "entropy": "learner/entropy",
    "ratio_mean": "learner/ratio_mean",
    "ratio_clipped_share": "learner/ratio_clipped_share",
    "batch_policy_lag": "learner/batch_policy_lag",
    "sample_wait_share": "learner/sample_wait_share",
    "gpu_utilization": "learner/gpu_utilization",
    "params_version": "learner/params_version",
}
# Tags by the pattern in the server's reading, and what makes one number of all that match.
_SERVER: dict[str, tuple[str, Callable[[Iterable[float]], float]]] = {
    "client.<client>.env_steps_per_s": ("actors/env_steps_per_s", sum),
    "client.<client>.return_mean": ("actors/return_mean", fmean),
    "client.<client>.episodes": ("actors/episodes", sum),
    "client.<client>.epsilon_min": ("actors/epsilon_min", min),
    "client.<client>.policy_lag": ("actors/policy_lag", fmean),
    "table.<table>.live_items": ("replay/live_items", sum),
    "table.<table>.samples_per_insert": ("replay/samples_per_insert", fmean),
    "table.<table>.effective_items": ("replay/effective_items", sum),
    "table.<table>.priority_maximum": ("replay/priority_maximum", max),
    "server.memory_bytes": ("server/memory_bytes", max),
}
_LATENCIES = {f"server.{op}.latency": f"server/{op}_p99_us" for op in ("append", "sample")}
_PLOTTED = {"client.<client>.learner_steps", "client.<client>.env_steps"}


def curves(learner: Mapping[str, Any], reading: Mapping[str, Any]) -> dict[str, float]:
    """Values by tag of a learner's report and a server's reading; what is not reported is absent.

    Figures that an algorithm of the user's reports are under learner/, by their own names.
    """
    found: dict[str, float] = {}
    for name, value in learner.items():
        tag = _LEARNER.get(name)
        if tag is None and find(f"client.learner.{name}") is None:
            tag = f"learner/{name}"
        if tag is not None and _is_number(value):
            found[tag] = float(value)
    matching: dict[str, list[float]] = {}
    for name, value in reading.items():
        pattern = _pattern(name)
        if pattern in _SERVER and _is_number(value):
            matching.setdefault(pattern, []).append(float(value))
        elif name in _LATENCIES and hasattr(value, "percentile_us") and value.count:
            found[_LATENCIES[name]] = value.percentile_us(0.99)
    for pattern, values in matching.items():
        tag, together = _SERVER[pattern]
        found[tag] = together(values)
    return found


@lru_cache(NAMES_KEPT)
def is_main(name: str) -> bool:
    """Whether a name of the server's reading is recorded often: what curves and plots draw, and
    the figures of tables, transports and the server; no histograms but two, no session's traffic.
    """
    found = find(name)
    if found is None:
        return False
    metric = found[0]
    if metric.kind == "histogram":
        return name in _LATENCIES
    if metric.pattern.startswith("client."):
        return metric.pattern in _SERVER or metric.pattern in _PLOTTED
    return not metric.pattern.startswith("peer.")


def _pattern(name: str) -> str:
    found = find(name)
    return "" if found is None else found[0].pattern


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def every_curve(reading: Mapping[str, Any]) -> dict[str, float]:
    """Values by tag of all that the catalog knows of a reading."""
    found: dict[str, float] = {}
    for name, value in reading.items():
        tag = tag_of(name)
        if tag is None:
            continue
        if hasattr(value, "percentile_us"):
            for percentile in ("p50_us", "p99_us"):
                found[f"{tag}.{percentile}"] = value.percentile_us(PERCENTILES[percentile])
        elif _is_number(value):
            found[tag] = float(value)
    return found


@lru_cache(NAMES_KEPT)
def tag_of(name: str) -> str | None:
    """client.learner.loss becomes client.learner/loss: sinks group by what is before /.

    None for a name that the catalog does not know.
    """
    found = find(name)
    if found is None:
        return None
    metric, labels = found
    group = metric.pattern.partition(".")[0]  # server, or table.<table> and the like
    if group != "server":
        group += f".{labels[metric.labels[0]]}"
    return f"{group}/{name[len(group) + 1 :]}"
