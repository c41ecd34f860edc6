"""What the bottleneck's rules say where that takes more than one expression."""

from __future__ import annotations

import math

from drlnet.dashboard.figures import Figures
from drlnet.dashboard.reading import average
from drlnet.dashboard.units import compact, count, percent


def slow_learner(f: Figures) -> str:
    """The learner holds actors, and how it spends its time."""
    held, learns = f.held(f.actors, "inserts_limit"), f.stage(f.learners, "learn")
    pace = "" if math.isnan(learns) else f", it learns {percent(learns)} of its time"
    return f"actors are held {percent(held)} by the limiter: the learner is too slow{pace}"


def starved(f: Figures) -> str:
    """The learner waits for items."""
    waits = f.held(f.learners, "samples_limit")
    waits = waits if math.isnan(f.learner_waits) else f.learner_waits
    return f"learner waits {percent(waits)} for samples (samples_limit)"


def warm_up(f: Figures) -> str:
    """How far the table is from min_size."""
    items = [table.latest("live_items") for table in f.tables]
    held = max((value for value in items if not math.isnan(value)), default=0.0)
    more = compact(f.items_per_s)
    return f"warm-up: learner waits for min_size, {count(held)} items so far, {more}/s more"


def learner_pace(f: Figures) -> str:
    """The learner sets the pace."""
    utilization = average(learner.latest("gpu_utilization") for learner in f.learners)
    gpu = "" if math.isnan(utilization) else f", its GPU is used {percent(utilization)}"
    return (
        f"learner learns {percent(f.stage(f.learners, 'learn'))} of its time{gpu}: it sets the pace"
    )


def balanced(f: Figures) -> str:
    """What is known of waiting, where nothing stands out."""
    if f.window.before is None:
        return "measuring: a second reading is under way"
    shares = [
        ("learner waits", f.learner_waits),
        ("actors wait", f.actors_wait),
        ("server busy", f.server_busy),
    ]
    known = ", ".join(f"{name} {percent(share)}" for name, share in shares if not math.isnan(share))
    return f"no stage holds the others up{': ' if known else ''}{known}"
