"""Names the bottleneck: the rules, in the order in which they are asked. The first that holds wins.

A rule goes from the evidence (shares of the last window) to the culprit to what helps. The order
matters: first whether anything runs at all, then what makes waiting for the server long (the
narrowest cause first), then which side the limiter holds, and last the role that never pauses.
A figure that is not reported is NaN, and no comparison with it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from drlnet.dashboard.client_figures import ClientFigures
from drlnet.dashboard.figures import Figures
from drlnet.dashboard.units import (
    clock,
    count,
    duration,
    percent,
    short,
    size,
    small_percent,
)
from drlnet.dashboard.verdicts import balanced, learner_pace, slow_learner, starved, warm_up

Level = Literal["idle", "fine", "warning"]

# Shares of time from which on something counts.
WAITS = 0.2  # a learner or an actor waits
NOTICED = 0.1  # the same where there is other evidence
IDLE = 0.1  # at most, of a machine that is full
BUSY = 0.85  # the server's loop, or all cores together
EVALUATES = 0.3  # or publishes: the learner
LEARNS = 0.7  # the learner sets the pace
# Other limits.
LOST = 0.01  # of the frames
CROWDED = 4.0  # queueing, in times of handling
BULKY_BYTES = 256e3  # of a batch
STALE_VERSIONS = 10.0  # by which actors' params are behind
STRAGGLES_S = 5.0  # without a question to the inference role


@dataclass(frozen=True)
class Finding:
    """What a rule says of a window."""

    name: str
    level: Level
    line: str
    remedy: str


@dataclass(frozen=True)
class Rule:
    """when: the condition in words; holds: the same as code; says: evidence and culprit."""

    name: str
    level: Level
    when: str
    holds: Callable[[Figures], bool]
    says: Callable[[Figures], str]
    remedy: str

    def finding(self, figures: Figures) -> Finding:
        """What it says of these figures."""
        return Finding(self.name, self.level, self.says(figures), self.remedy)


def find_bottleneck(figures: Figures) -> Finding:
    """The first rule that holds; the last one always does."""
    return next(rule for rule in RULES if rule.holds(figures)).finding(figures)


# Evidence.


def _traffic(f: Figures) -> bool:
    return f.env_steps_per_s > 0 or f.draws_per_s > 0


def _waiting_for(role: list[ClientFigures], reason: str) -> bool:
    """Most of their waiting is the limiter's doing, for that reason."""
    return any(client.held(reason) >= WAITS or client.waiting_for == reason for client in role)


def _server_is_slow(f: Figures) -> bool:
    # A loop that is busy without using its core waits for one: that is another rule's.
    has_core = not f.server_cpu < 0.7 * f.server_busy
    crowded = f.queueing_us >= CROWDED * f.handling_us and f.server_busy >= 0.5
    return has_core and (f.server_busy >= BUSY or crowded)


def _waiter(f: Figures) -> str:
    """The role that waits for the server, and how long: the beginning of a line."""
    learner, actors = f.learner_waits, f.actors_wait
    if not (learner >= NOTICED or actors >= NOTICED):
        return "frames are repeated"
    if math.isnan(actors) or learner >= actors:
        return f"learner waits {percent(learner)} for samples"
    return f"actors wait {percent(actors)} to append"


RULES: tuple[Rule, ...] = (
    Rule(
        "measuring",
        "idle",
        "there is only one reading so far",
        lambda f: f.window.before is None,
        balanced,
        "",
    ),
    Rule(
        "nothing_runs",
        "idle",
        "no learner, no actor, no requests for rows or batches",
        lambda f: not f.learners and not f.actors and not _traffic(f),
        lambda f: "nothing runs: no learner and no actor is connected",
        "drlnet learn ENV and drlnet actor ENV with this --server",
    ),
    Rule(
        "two_learners",
        "warning",
        "a second client would publish params, and was refused or took over",
        lambda f: f.publishers_per_s > 0,
        lambda f: "two learners would publish params here: one of them ends with an error",
        "a server of its own for each run; drlnet learn --takeover replaces one",
    ),
    Rule(
        "no_learner",
        "warning",
        "actors, but no learner, and nothing is drawn",
        lambda f: (
            bool(f.actors) and not f.learners and not f.draws_per_s > 0 and not f.silent_learners
        ),
        lambda f: "no learner is connected: nothing is learned from what actors play",
        "drlnet learn ENV with this --server",
    ),
    Rule(
        "no_actors",
        "warning",
        "a learner, but no actor, and no steps come",
        lambda f: bool(f.learners) and not f.actors and not f.env_steps_per_s > 0,
        lambda f: "no actor is connected: no experience comes in",
        "drlnet actor ENV with this --server",
    ),
    Rule(
        "warm_up",
        "idle",
        "the learner waits for min_size",
        lambda f: _waiting_for(f.learners, "min_size"),
        warm_up,
        "it passes by itself; else lower replay.min_size or start more actors",
    ),
    Rule(
        "shared_machine",
        "warning",
        f"others use {WAITS:.0%} of this machine's cores or more, {IDLE:.0%} or less are idle, and "
        f"a process of ours is {NOTICED:.0%} of its time ready without a core",
        lambda f: (
            f.cores_of_others >= WAITS * f.cores and f.idle_share <= IDLE and f.run_delay >= NOTICED
        ),
        lambda f: (
            f"others use {short(f.cores_of_others)} of {count(f.cores)} cores: a process of ours "
            f"waits {percent(f.run_delay)} of its time for a core"
        ),
        "end what else runs here (top shows it), or fewer actors, --poll block",
    ),
    Rule(
        "packet_loss",
        "warning",
        f"{LOST:.0%} of the frames or more are lost, and learner or actors wait {NOTICED:.0%} for "
        f"the server without the limiter (or {3 * LOST:.0%} are lost)",
        lambda f: f.lost_share >= (LOST if f.unexplained_wait >= NOTICED else 3 * LOST),
        lambda f: f"{_waiter(f)}: {small_percent(f.lost_share)} of the frames are lost on the way",
        "look at the link (ip -s link) and its MTU; wire instead of radio",
    ),
    Rule(
        "small_window",
        "warning",
        f"a client waits {WAITS:.0%} of its time for credit or window, and the server is not slow",
        lambda f: (
            f.window_wait >= WAITS and f.unexplained_wait >= NOTICED and not _server_is_slow(f)
        ),
        lambda f: (
            f"{_waiter(f)}: the window is too small ({percent(f.window_wait)} of the time nothing "
            f"more may be sent; credit {size(f.smallest_credit)})"
        ),
        "a larger buffer at the server (sysctl net.core.rmem_max); fewer clients",
    ),
    Rule(
        "server_cpu",
        "warning",
        f"learner or actors wait {WAITS:.0%} without the limiter, the server's loop is busy "
        f"{BUSY:.0%} of the time or requests queue {CROWDED:g} times as long as they are handled",
        lambda f: f.unexplained_wait >= WAITS and _server_is_slow(f),
        lambda f: (
            f"{_waiter(f)}: the server is CPU-bound (busy {percent(f.server_busy)}, requests queue "
            f"{duration(f.queueing_us)} for {duration(f.handling_us)} of work)"
        ),
        "larger actor.flush_rows, fewer actors, dpdk:local; --shards on idle cores",
    ),
    Rule(
        "cores",
        "warning",
        f"learner or actors wait {WAITS:.0%} without the limiter, and all processes of this "
        f"machine use {BUSY:.0%} of its cores",
        lambda f: f.unexplained_wait >= WAITS and f.cores_used >= BUSY * f.cores,
        lambda f: (
            f"{_waiter(f)}: {len(f.clients) + 1} processes share {count(f.cores)} cores and use "
            f"{short(f.cores_used)} of them"
        ),
        "fewer actors, torch_threads=1, --poll block, or more cores",
    ),
    Rule(
        "mirror_behind",
        "warning",
        f"draws wait {WAITS:.0%} of the learner's time or more for rows on their way to its mirror",
        lambda f: f.mirror_wait >= WAITS,
        lambda f: (
            f"learner waits {percent(f.mirror_wait)} for rows on their way to its mirror, "
            f"{count(f.rows_behind)} rows behind"
        ),
        "fewer actors, or a faster link: rows come as fast as actors play",
    ),
    Rule(
        "bytes",
        "warning",
        f"learner waits {WAITS:.0%} without the limiter, a batch is {size(BULKY_BYTES)} or more, "
        "and no rule above holds",
        lambda f: (
            f.unexplained_wait >= WAITS
            and f.learner_waits >= WAITS
            and f.batch_bytes >= BULKY_BYTES
        ),
        lambda f: (
            f"learner waits {percent(f.learner_waits)} for samples: {size(f.batch_bytes)} a batch, "
            f"{size(f.sent_bytes_per_s)}/s is what the way here carries"
        ),
        "replay.rows=learner; uint8 observations, jumbo frames (MTU 9000), dpdk",
    ),
    Rule(
        "round_trip",
        "warning",
        f"learner waits {WAITS:.0%} without the limiter, and no rule above holds",
        lambda f: f.unexplained_wait >= WAITS and f.learner_waits >= WAITS,
        lambda f: (
            f"learner waits {percent(f.learner_waits)} for samples: the way there and back is not "
            "hidden"
        ),
        "raise replay.prefetch or replay.batch_size; --transport dpdk:local",
    ),
    Rule(
        "append_wait",
        "warning",
        f"actors wait {WAITS:.0%} to append without the limiter, and no rule above holds",
        lambda f: f.unexplained_wait >= WAITS,
        lambda f: f"actors wait {percent(f.actors_wait)} to append: the server answers late",
        "a larger actor.flush_rows; a transport with less latency",
    ),
    Rule(
        "evaluation",
        "warning",
        f"evaluation takes {EVALUATES:.0%} of the learner's time",
        lambda f: f.stage(f.learners, "evaluate") >= EVALUATES,
        lambda f: (
            f"learner spends {percent(f.stage(f.learners, 'evaluate'))} of its time on evaluation"
        ),
        "raise eval.period, or lower eval.gate_episodes",
    ),
    Rule(
        "publishing",
        "warning",
        f"publishing params takes {EVALUATES:.0%} of the learner's time",
        lambda f: f.stage(f.learners, "publish") >= EVALUATES,
        lambda f: (
            f"learner spends {percent(f.stage(f.learners, 'publish'))} of its time on publishing "
            "params"
        ),
        "raise learner.publish_period",
    ),
    Rule(
        "learner_silent",
        "warning",
        f"the limiter holds actors {WAITS:.0%} of their time, and the learner is silent",
        lambda f: _waiting_for(f.actors, "inserts_limit") and bool(f.silent_learners),
        lambda f: (
            f"actors are held {percent(f.held(f.actors, 'inserts_limit'))} by the limiter: the "
            f"learner has been silent for {clock(f.silent_learners[0].peer('silent_s'))}"
        ),
        "see whether the learner still runs; actors wait for it",
    ),
    Rule(
        "learner_slow",
        "warning",
        f"the limiter holds actors {WAITS:.0%} of their time (inserts_limit)",
        lambda f: _waiting_for(f.actors, "inserts_limit"),
        slow_learner,
        "learner.device=cuda, a smaller net; lower replay.samples_per_insert",
    ),
    Rule(
        "inference_slow",
        "warning",
        f"actors wait half of their time or more for actions, the inference role {IDLE:.0%} of its "
        "time at most for actors",
        lambda f: (
            f.stage(f.actors, "policy") >= 0.5 and f.stage(f.role("infer"), "questions") <= IDLE
        ),
        lambda f: (
            f"actors wait {percent(f.stage(f.actors, 'policy'))} for actions: the inference role "
            "is too slow"
        ),
        "more --envs-per-actor, a smaller net; or policy.where=actor",
    ),
    Rule(
        "straggler",
        "warning",
        f"an actor has asked the inference role for no action for {STRAGGLES_S:g} s",
        lambda f: f.window.latest("inference.straggler_s") >= STRAGGLES_S,
        lambda f: (
            "an actor has asked for no action for "
            f"{clock(f.window.latest('inference.straggler_s'))}; the others go on"
        ),
        "see which client is silent, and whether it runs; its environment may hang",
    ),
    Rule(
        "environment_slow",
        "warning",
        "the limiter holds the learner (samples_limit), and actors spend half of their time or "
        "more in the environment",
        lambda f: _waiting_for(f.learners, "samples_limit") and f.stage(f.actors, "env") >= 0.5,
        lambda f: (
            f"{starved(f)}: actors are too slow, the environment takes "
            f"{percent(f.stage(f.actors, 'env'))} of their time"
        ),
        "more --num-actors, env.vectorization=async; raise samples_per_insert",
    ),
    Rule(
        "actors_slow",
        "warning",
        "the limiter holds the learner (samples_limit)",
        lambda f: _waiting_for(f.learners, "samples_limit"),
        lambda f: f"{starved(f)}: actors are too slow",
        "more --num-actors, a smaller net; raise replay.samples_per_insert",
    ),
    Rule(
        "stale_params",
        "warning",
        f"actors' params are {STALE_VERSIONS:g} versions or more behind",
        lambda f: f.policy_lag >= STALE_VERSIONS,
        lambda f: f"actors play with params {short(f.policy_lag, 0)} versions old",
        "lower actor.fetch_period_steps, or raise learner.publish_period",
    ),
    Rule(
        "server_busy",
        "warning",
        f"the server's loop is busy {BUSY:.0%} of the time",
        lambda f: f.server_busy >= BUSY,
        lambda f: (
            f"the server is busy {percent(f.server_busy)} of the time: it has no room for more"
        ),
        "larger batches and appends; dpdk:local; --shards on idle cores",
    ),
    Rule(
        "learner_bound",
        "fine",
        f"the learner learns {LEARNS:.0%} of its time: nothing else holds it up",
        lambda f: f.stage(f.learners, "learn") >= LEARNS,
        learner_pace,
        "to go faster: learner.device=cuda, a smaller net or batch",
    ),
    Rule(
        "balanced",
        "fine",
        "none of these",
        lambda f: True,
        balanced,
        "",
    ),
)
