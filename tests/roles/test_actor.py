"""The actor on the oracle: what it appends, what it waits for, what a crash leaves behind."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from oracle import OracleClient, OracleTable
from toy import TOY, Toy

from drlnet.algos import make_algorithm
from drlnet.config import Config, load
from drlnet.envs import Pace, Streams, find_spaces
from drlnet.errors import BadPriority, CheckpointMismatch, ReplayTimeout, UserCodeError
from drlnet.launch.signals import Stop
from drlnet.nets.params import pack
from drlnet.roles.actor import Actor
from drlnet.roles.newest_params import NewestParams
from drlnet.roles.own_agent import OwnAgent


def config(max_env_steps: int | None = None, **kwargs: Any) -> Config:
    flags = {
        "env.kwargs": kwargs,
        "net.hidden_sizes": (8,),
        "algo.n_step": 2,
        "actor.envs_per_actor": 3,
        "actor.fetch_period_steps": 5,
        "actor.max_env_steps": max_env_steps,
    }
    return load(TOY, flags=flags)


def started(made: Config) -> tuple[Actor, OracleClient]:
    client = OracleClient()
    publish(client, made)
    actor = Actor(made, client, 0)  # type: ignore[arg-type]
    actor.wait(Stop())
    actor.start()
    return actor, client


def publish(client: OracleClient, made: Config, **facts: str) -> None:
    algorithm = make_algorithm(made, find_spaces(made.env))
    client.publish(pack(algorithm.learner("cpu", 0).params(), algorithm.architecture, facts))


def replay(client: OracleClient) -> OracleTable:
    return client.tables["replay"]


def test_every_step_with_a_future_has_an_item() -> None:
    actor, client = started(config(longest=5))
    for _ in range(40):
        actor.tick()
    table = replay(client)
    assert len(table.streams) == 3 and len(table.rows) == 3 * 41
    for row in table.rows:
        complete = not row.last and table.length(row.stream, row.step) is not None
        assert table.state(row.stream, row.step) == ("live" if complete else "none")
    assert actor.items_added == len(table.items)


def test_stops_at_its_own_budget() -> None:
    actor, client = started(config(max_env_steps=50))
    while not actor.spent:
        actor.tick()
    env_steps = sum(not row.last for row in replay(client).rows)
    assert 50 <= env_steps < 50 + 3
    actor.close()
    assert client.reports[-1]["env_steps"] == env_steps


def test_rewards_that_are_no_numbers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def add_items(_streams: Any, _steps: Any, _priorities: Any) -> None:
        raise BadPriority("priority 0 is nan")

    actor, _ = started(config())
    assert isinstance(actor.agent, OwnAgent)
    monkeypatch.setattr(actor.agent.recorder.writers[0]["replay"], "add_items", add_items)
    with pytest.raises(BadPriority, match=f"{TOY} gives rewards"):
        for _ in range(6):
            actor.tick()


def test_a_run_that_goes_on_explores_anew() -> None:
    """Its server leases the same streams as the first one did."""

    def actions(**facts: str) -> list[int]:
        client = OracleClient()
        publish(client, config(), **facts)
        actor = Actor(config(), client, 0)  # type: ignore[arg-type]
        actor.wait(Stop())
        actor.start()
        for _ in range(30):
            actor.tick()
        return [int(row.columns["action"]) for row in replay(client).rows]

    assert actions() == actions(env_steps_before="0") != actions(env_steps_before="400")


@pytest.mark.parametrize(
    ("index", "planned", "first", "total"),
    [(2, "0", 6, 12), (9, "24", 3, 24), (None, "24", 9, 24), (None, "6", 9, 12)],
)
def test_an_actor_explores_as_one_of_all(
    monkeypatch: pytest.MonkeyPatch, index: int | None, planned: str, first: int, total: int
) -> None:
    """Of those that its own settings name, or more where the learner's do."""
    made = config()
    made = replace(made, actor=replace(made.actor, num_actors=4))
    client = OracleClient()
    publish(client, made, streams=planned)
    before = Actor(made, client, 0)  # type: ignore[arg-type]
    before.wait(Stop())
    for _ in range(3):  # nine streams are leased before
        before.start()
    actor = Actor(made, client, index)  # type: ignore[arg-type]
    assert isinstance(actor.agent, OwnAgent)
    told: list[Streams] = []
    monkeypatch.setattr(actor.agent.recorder, "make_agent", lambda one, _: told.append(one))
    actor.agent.wait(Stop())
    actor.agent.start()
    assert (told[0].first, told[0].total) == (first, total)


def test_no_learner() -> None:
    algorithm = make_algorithm(config(), find_spaces(config().env))
    newest = NewestParams(OracleClient(), algorithm)  # type: ignore[arg-type]
    with pytest.raises(ReplayTimeout, match="no learner has published"):
        newest.wait(Stop(), timeout_s=0.1)


def test_stopped_while_waiting() -> None:
    stop = Stop()
    stop.set()
    actor = Actor(config(), OracleClient(), 0)  # type: ignore[arg-type]
    actor.wait(stop)
    actor.close()


def test_its_environments_end_even_when_the_server_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actor, client = started(config())
    ended: list[bool] = []
    monkeypatch.setattr(actor._envs, "close", lambda: ended.append(True))

    def gone(_values: Any) -> None:
        raise ReplayTimeout("no answer")

    monkeypatch.setattr(client, "report", gone)
    with pytest.raises(ReplayTimeout):
        actor.close()
    assert ended == [True]


def test_params_of_another_architecture() -> None:
    actor, client = started(config())
    publish(client, load(TOY, sets=["net.hidden_sizes=[16]"]))
    with pytest.raises(CheckpointMismatch, match="version 2"):
        for _ in range(5):
            actor.tick()


def test_a_crash_breaks_the_streams_and_goes_on(capfd: pytest.CaptureFixture[str]) -> None:
    # Episodes of 4 steps or more crash in their 4th step: sooner or later each start does.
    actor, client = started(config(longest=8, crash_at=4))
    with pytest.raises(UserCodeError, match="4 times within 60 s: RuntimeError: the toy broke"):
        for _ in range(1000):
            actor.tick()
    said = capfd.readouterr().err
    assert said.count('raise RuntimeError("the toy broke")') == 3  # the last one is the error
    for count in ("once", "2 times", "3 times"):
        assert f"environment {TOY} crashed {count} within 60 s: RuntimeError" in said
    table = replay(client)
    assert len(table.streams) == 3 * 4  # the first start and three more
    for stream in table.streams:
        assert stream.rows[0].first
    assert all(table.state(*place) == "live" for place in table.items)


def test_a_crash_whose_close_fails_too_goes_on(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(_toy: Toy) -> None:
        raise OSError("the door is stuck")

    actor, client = started(config(longest=8, crash_at=4))
    monkeypatch.setattr(Toy, "close", close)
    with pytest.raises(UserCodeError, match="4 times within 60 s: RuntimeError: the toy broke"):
        for _ in range(1000):
            actor.tick()
    said = capfd.readouterr().err
    assert said.count(f"{TOY} crashed as it was closed: OSError: the door is stuck") == 3
    assert len(replay(client).streams) == 3 * 4


def test_reports_its_stages_and_its_process() -> None:
    actor, client = started(config(longest=5))
    for _ in range(30):
        actor.tick()
    actor.close()
    said = client.reports[-1]
    assert said["role"] == "actor" and said["pid"] == os.getpid() and said["resident_bytes"] > 0
    stages = {name: value for name, value in said.items() if name.startswith("stage.")}
    assert set(stages) == {
        f"stage.{name}_s" for name in ("env", "policy", "append", "fetch", "other")
    }
    assert min(stages["stage.env_s"], stages["stage.policy_s"], stages["stage.append_s"]) > 0


def test_policy_lag_counts_versions_not_seen() -> None:
    actor, client = started(config())
    lags = []
    for published in (0, 3, 0):
        for _ in range(published):
            publish(client, config())
        for _ in range(5):  # one look
            actor.tick()
        actor._report()
        lags.append((client.reports[-1]["policy_lag"], client.reports[-1]["params_version"]))
    assert lags == [(0, 1), (3, 4), (0, 4)]


@pytest.mark.parametrize("lag", [1, 3])
def test_actors_play_by_older_params(lag: int) -> None:
    made = load(TOY, flags={"net.hidden_sizes": (8,), "actor.params_lag": lag})
    client = OracleClient()
    newest = NewestParams(client, make_algorithm(made, find_spaces(made.env)))  # type: ignore[arg-type]
    seen = []
    for published in (1, 1, 0, 1, 1, 1, 4, 0):
        for _ in range(published):
            publish(client, made)
        newer = newest.fetch()
        seen.append((newer, newest.version, newest.lag, len(newest._fetched)))
    assert [one[1] for one in seen] == {
        1: [1, 1, 1, 2, 3, 4, 5, 5],  # version 9 is the newest; 6 to 8 were never seen
        3: [1, 1, 1, 1, 1, 2, 5, 5],
    }[lag]
    before = [0] + [version for _, version, *_ in seen]
    assert all(
        newer == (version != old) for (newer, version, *_), old in zip(seen, before, strict=False)
    )
    assert all(held <= lag + 1 for *_, held in seen)
    assert seen[-1][2] == 9 - 5  # what it plays by is 4 versions old


def test_an_actor_loads_the_older_params(monkeypatch: pytest.MonkeyPatch) -> None:
    made = load(
        TOY,
        flags={
            "net.hidden_sizes": (8,), "actor.params_lag": 2, "actor.envs_per_actor": 3,
            "actor.fetch_period_steps": 1,
        },
    )  # fmt: skip
    actor, client = started(made)
    for _ in range(4):
        publish(client, made)
        actor.tick()
    actor._report()
    # Version 5 is the newest. The look before it had taken version 2 for version 4.
    said = client.reports[-1]
    assert (said["params_version"], said["policy_lag"]) == (3, 3)


def test_slowed_environments_keep_their_pace() -> None:
    flags = {"net.hidden_sizes": (8,), "env.max_steps_per_second": 1e5, "actor.envs_per_actor": 3}
    made = load(TOY, flags=flags)
    actor, client = started(made)
    waits = []
    actor._pace = Pace(50.0, clock=lambda: sum(waits), sleep=waits.append)
    for _ in range(11):
        actor.tick()
    assert sum(waits) == pytest.approx(10 / 50)  # the clock stands still but for these
    actor._report()
    assert client.reports[-1]["late_steps"] == 0


def test_same_leases_same_rows() -> None:
    tables = []
    for _ in range(2):
        actor, client = started(config(longest=5))
        for _ in range(30):
            actor.tick()
        tables.append(replay(client))
    pairs = zip(tables[0].rows, tables[1].rows, strict=True)
    assert all(a.columns["obs"].tolist() == b.columns["obs"].tolist() for a, b in pairs)
