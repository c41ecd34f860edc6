"""The rules of the bottleneck: each names its culprit in a reading that shows it."""

from __future__ import annotations

from typing import Any

import pytest
from dashboard.readings import ACTOR, LEARNER, client, server, spread, table, training

from drlnet.dashboard.bottleneck import RULES, Finding, find_bottleneck
from drlnet.dashboard.figures import Figures
from drlnet.dashboard.history import Verdict
from drlnet.dashboard.panels.head import FINDING_WIDTH, REMEDY_WIDTH
from drlnet.dashboard.window import Window

T, SECONDS = 100.0, 3.0
ACTORS = ("actor-0-4711", "actor-1-4712")
PEERS = ("learner", *ACTORS)


def found(before: dict[str, Any] | None, after: dict[str, Any]) -> Finding:
    return find_bottleneck(Figures(Window(before, after, SECONDS)))


def growing_by(per_second: dict[str, float], **latest: Any) -> Finding:
    """Of a training in which these counters grow so fast; in names of latest "__" is a dot."""
    before, after = training(T), training(T + SECONDS)
    for name, rate in per_second.items():
        before[name], after[name] = 10.0, 10.0 + rate * SECONDS
    return found(before, after | {k.replace("__", "."): v for k, v in latest.items()})


def stages(name: str, role: str, **shares: float) -> dict[str, float]:
    """Rates of a client's stage counters: those given, the rest shares what is left."""
    usual = LEARNER if role == "learner" else ACTOR
    others = {stage: share for stage, share in usual.items() if stage not in shares}
    scale = (1 - sum(shares.values())) / sum(others.values())
    all_shares = {stage: share * scale for stage, share in others.items()} | shares
    return {f"client.{name}.stage.{stage}_s": share for stage, share in all_shares.items()}


def learner(**shares: float) -> dict[str, float]:
    return stages("learner", "learner", **shares)


def actors(**shares: float) -> dict[str, float]:
    both = [stages(name, "actor", **shares) for name in ACTORS]
    return both[0] | both[1]


def held(names: tuple[str, ...], reason: str, share: float) -> dict[str, float]:
    return {f"peer.{name}.limiter_wait_s.{reason}": share for name in names}


LEARNER_WAITS = learner(sample=0.5)
INFER = {"questions": 0.05, "policy": 0.8, "append": 0.1, "fetch": 0.02, "other": 0.03}
STARVED = LEARNER_WAITS | held(("learner",), "samples_limit", 0.5)

CASES: dict[str, tuple[Finding, str]] = {
    "two_learners": (
        growing_by({"server.publishes_refused": 0.4, "server.publishers_replaced": 0.0}),
        "two learners would publish params here",
    ),
    "warm_up": (
        growing_by(held(("learner",), "min_size", 1.0), table__replay__live_items=123),
        "min_size, 123 items",
    ),
    "packet_loss": (
        growing_by(LEARNER_WAITS | {"client.learner.repulls": 800.0}),
        "learner waits 50% for samples: 3.8% of the frames are lost",
    ),
    "small_window": (
        growing_by(
            actors(append=0.4) | {f"client.{name}.window_wait_s": 0.35 for name in ACTORS},
            client__learner__credit_bytes=9000,
        ),
        "actors wait 40% to append: the window is too small (35%",
    ),
    "server_cpu": (
        growing_by(LEARNER_WAITS | {"server.busy_s": 0.97, "server.cpu_s": 0.96}),
        "learner waits 50% for samples: the server is CPU-bound (busy 97%",
    ),
    "shared_machine": (
        growing_by(
            LEARNER_WAITS
            | {f"client.{name}.cpu_s": 0.3 for name in PEERS}
            | {"client.actor-1-4712.run_delay_s": 0.4, "server.cpu_s": 0.3, "host.idle_s": 0.1}
            | {"peer.learner.retransmissions": 9000.0},  # blamed on the network before
            host__cores=4,
        ),
        "others use 2.7 of 4 cores: a process of ours waits 40% of its time for a core",
    ),
    "cores": (
        growing_by(LEARNER_WAITS | {"server.busy_s": 0.9, "server.cpu_s": 0.3}, host__cores=3),
        "learner waits 50% for samples: 5 processes share 3 cores and use 3.0",
    ),
    "mirror_behind": (
        growing_by(
            LEARNER_WAITS | {"client.learner.mirror.wait_s": 0.45},
            client__learner__mirror__rows_behind=12_345,
        ),
        "learner waits 45% for rows on their way to its mirror, 12,345 rows behind",
    ),
    "bytes": (
        growing_by(LEARNER_WAITS | {"client.learner.bytes_received": 3e9}),
        "learner waits 50% for samples: 10.0 MB a batch",
    ),
    "round_trip": (growing_by(LEARNER_WAITS), "learner waits 50% for samples"),
    "append_wait": (growing_by(actors(append=0.4)), "actors wait 40% to append"),
    "evaluation": (growing_by(learner(evaluate=0.45)), "learner spends 45% of its time on eval"),
    "publishing": (growing_by(learner(publish=0.3)), "learner spends 30% of its time on publish"),
    "learner_silent": (
        growing_by(
            actors(append=0.9) | held(ACTORS, "inserts_limit", 0.95),
            peer__learner__silent_s=12.0,
        ),
        "the learner has been silent for 0:12",
    ),
    "learner_slow": (
        growing_by(actors(append=0.6) | held(ACTORS, "inserts_limit", 0.62) | learner(learn=0.97)),
        "actors are held 62% by the limiter: the learner is too slow, it learns 97%",
    ),
    "inference_slow": (
        growing_by(
            actors(policy=0.7)
            | {f"client.infer.stage.{k}_s": v for k, v in INFER.items()}
            | held(("learner",), "samples_limit", 0.5),
            client__infer__role="infer",
        ),
        "actors wait 70% for actions: the inference role is too slow",
    ),
    "straggler": (
        growing_by({}, inference__straggler_s=7.0),
        "an actor has asked for no action for 0:07; the others go on",
    ),
    "environment_slow": (
        growing_by(STARVED | actors(env=0.88)),
        "learner waits 50% for samples (samples_limit): actors are too slow, the environment "
        "takes 88%",
    ),
    "actors_slow": (
        growing_by(STARVED | actors(policy=0.8)),
        "learner waits 50% for samples (samples_limit): actors are too slow",
    ),
    "stale_params": (
        growing_by({}, **{f"client.{name}.policy_lag": 40.0 for name in ACTORS}),
        "params 40 versions old",
    ),
    "server_busy": (
        growing_by({"server.busy_s": 0.97, "server.cpu_s": 0.97}),
        "the server is busy 97%",
    ),
    "learner_bound": (growing_by({}), "learner learns 80% of its time: it sets the pace"),
    "balanced": (
        growing_by(learner(learn=0.5, other=0.4)),
        "no stage holds the others up: learner waits",
    ),
    "measuring": (found(None, training(T)), "a second reading"),
    "nothing_runs": (found(server(T), server(T + SECONDS)), "no learner and no actor"),
    "no_learner": (
        found(
            *(
                server(t)
                | table(t)
                | {"table.replay.items_drawn": 5}
                | client("a", t, "actor", ACTOR)
                for t in (T, T + SECONDS)
            )
        ),
        "no learner is connected",
    ),
    "no_actors": (
        found(
            *(
                server(t)
                | table(t)
                | {"table.replay.env_steps": 5}
                | client("l", t, "learner", LEARNER)
                for t in (T, T + SECONDS)
            )
        ),
        "no actor is connected",
    ),
}


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_every_rule_names_its_culprit(name: str) -> None:
    finding, words = CASES[name]
    assert finding.name == name, finding
    assert words in finding.line, finding
    assert "nan" not in finding.line and " - " not in finding.line, finding


def test_lines_have_the_room_that_the_screen_keeps_for_them() -> None:
    for finding, _ in CASES.values():
        assert len(finding.line) <= FINDING_WIDTH, finding
        assert len(f"try: {finding.remedy}") <= REMEDY_WIDTH, finding


def test_frames_that_came_twice_were_late_and_not_lost() -> None:
    late = {"client.learner.repulls": 800.0, "client.learner.duplicate_frames": 790.0}
    assert growing_by(LEARNER_WAITS | late).name == "round_trip"


def test_waiting_for_the_limiter_is_not_the_networks_fault() -> None:
    finding = growing_by(STARVED | {"server.busy_s": 0.95, "server.cpu_s": 0.95})
    assert finding.name == "environment_slow"


def test_a_learner_that_never_reported_waits_all_the_same() -> None:
    before, after = training(T), training(T + SECONDS)
    for reading in (before, after):
        for key in [key for key in reading if key.startswith("client.learner.")]:
            del reading[key]
    waiting = {"peer.learner.waiting_for": "min_size", "peer.learner.waiting_s": 9.0}
    assert found(before, after | waiting).name == "warm_up"


def test_requests_that_queue_long_are_a_slow_server() -> None:
    before, after = training(T), training(T + SECONDS)
    rates = LEARNER_WAITS | {"server.busy_s": 0.6, "server.cpu_s": 0.6}
    for name, rate in rates.items():
        before[name], after[name] = 0.0, rate * SECONDS
    for key in [key for key in after if key.endswith(".queueing")]:
        before[key], after[key] = spread(900.0, 0), spread(900.0, 1000)
    finding = found(before, after)
    assert finding.name == "server_cpu" and "queue 900 us" in finding.line


def test_an_older_server_tells_little_and_nothing_breaks() -> None:
    names = (
        "server.uptime_s",
        "server.clients",
        "table.replay.env_steps",
        "peer.learner.transport",
    )
    readings = [{name: training(t).get(name) for name in names} for t in (T, T + SECONDS)]
    assert found(*readings).name == "no_actors"
    assert found({}, {}).name == "nothing_runs"
    for missing in training(T):
        cut = [{k: v for k, v in training(t).items() if k != missing} for t in (T, T + SECONDS)]
        assert "nan" not in found(*cut).line


def test_a_machine_of_ones_own_is_not_shared() -> None:
    """Full by our own processes, or delayed with cores idle: other rules say why."""
    delayed = LEARNER_WAITS | {"client.actor-1-4712.run_delay_s": 0.4, "server.cpu_s": 0.3}
    ours = growing_by(delayed | {"host.idle_s": 0.05}, host__cores=3)
    idle = growing_by(delayed | {"host.idle_s": 9.0}, host__cores=16)
    assert (ours.name, idle.name) == ("cores", "round_trip")


def test_a_learner_without_a_core_is_not_called_slow() -> None:
    full = {"client.learner.run_delay_s": 0.5, "server.cpu_s": 0.1, "host.idle_s": 0.1}
    cpu = {f"client.{name}.cpu_s": 0.2 for name in PEERS}
    shown = growing_by(held(ACTORS, "inserts_limit", 0.9) | full | cpu, host__cores=2)
    assert shown.name == "shared_machine"


def test_what_a_process_used_before_its_first_report_is_no_rate() -> None:
    """An actor takes seconds to import what it needs, and reports as soon as it plays."""
    before, after = training(T), training(T + SECONDS)
    own = f"client.{ACTORS[1]}."
    before |= {"host.cores": 4, "host.idle_s": 10.0}
    after |= {"host.cores": 4, "host.idle_s": 10.0, f"{own}cpu_s": 60.0, f"{own}run_delay_s": 60.0}
    usual = Figures(Window(before, training(T + SECONDS), SECONDS))
    come = {key: value for key, value in before.items() if not key.startswith(own)}
    again = before | {f"{own}cpu_s": 99.0, f"{own}run_delay_s": 99.0}
    for earlier in (come, again):
        figures = Figures(Window(earlier, after, SECONDS))
        assert figures.cores_used < usual.cores_used
        assert not figures.run_delay > 1e-9
        assert figures.cores_of_others == 0


def test_without_run_delay_the_pressure_tells() -> None:
    used = {f"client.{name}.cpu_s": 0.3 for name in PEERS} | {"server.cpu_s": 0.3}
    shown = growing_by(
        LEARNER_WAITS | used | {"host.idle_s": 0.0, "host.pressure_s": 0.6}, host__cores=4
    )
    assert shown.name == "shared_machine" and "60% of its time" in shown.line


def test_a_verdict_stays_for_three_seconds() -> None:
    verdict = Verdict()
    waits = Figures(Window(training(T), training(T + SECONDS) | {"server.polls": 1}, SECONDS))
    alone = Figures(Window({}, {"server.uptime_s": 1.0}, SECONDS))
    first, other = find_bottleneck(waits).name, find_bottleneck(alone).name
    assert first != other
    assert verdict.of(Figures(Window(None, {}, 0.0)), 0.0).name == "measuring"
    assert [verdict.of(waits, 1.0).name, verdict.of(alone, 2.0).name] == [first, first]
    assert [verdict.of(waits, 3.9).name, verdict.of(alone, 4.0).name] == [first, other]
    assert verdict.of(waits, 6.9).name == other
    assert verdict.of(waits, 7.0).name == first
