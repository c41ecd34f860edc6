"""The inference role and its actors, over a real server: what is stored, who holds up whom."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from levers import LEVERS
from toy import TOY

from drlnet import Client
from drlnet.algos import make_algorithm
from drlnet.algos.players import NetPlayer
from drlnet.config import Config, EnvConfig, load
from drlnet.envs import Rows, find_spaces, make_envs, ticks
from drlnet.errors import ConfigError, ReplayTimeout
from drlnet.launch.signals import Stop
from drlnet.nets.params import pack
from drlnet.roles import central
from drlnet.roles.actor import Actor
from drlnet.roles.central import Asks, RowForm, Says, message
from drlnet.roles.infer import Inference

PER_ACTOR = 3


def config(actors: int = 2, **flags: Any) -> Config:
    return load(
        TOY,
        flags={
            "policy.where": "central",
            "net.hidden_sizes": (8,),
            "algo.n_step": 2,
            "replay.min_size": 32,
            "actor.envs_per_actor": PER_ACTOR,
            "actor.num_actors": actors,
            **flags,
        },
    )


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


class Role:
    """An inference role on a thread of its own."""

    def __init__(self, made: Config, address: str, in_flight: int | None = None) -> None:
        self.client = Client(address, name="infer")
        if self.client.fetch() is None:
            algorithm = make_algorithm(made, find_spaces(made.env))
            self.client.publish(pack(algorithm.learner("cpu", 0).params(), algorithm.architecture))
        self.role = Inference(made, self.client, torch.device("cpu"), None, in_flight)
        self.role.wait(Stop())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            self.role.tick()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self.role.flush()

    def __enter__(self) -> Role:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._over.is_set():
            self.end()
        self.role.release()
        self.client.close()


def playing(made: Config, address: str, stack: ExitStack, index: int = 0) -> tuple[Actor, Client]:
    client = stack.enter_context(Client(address, name=f"actor-{index}"))
    actor = Actor(made, client, index)
    actor.wait(Stop())
    actor.start()
    return actor, client


def until(role: Role, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first reading, of those within 20 s, of which that holds."""
    for _ in range(2000):
        reading = dict(role.client.stats())
        if holds(reading):
            return reading
        threading.Event().wait(0.01)
    raise AssertionError(reading)


@pytest.mark.parametrize("in_flight", [1, 2])
def test_what_actors_see_is_stored_with_its_items(
    address: str, stack: ExitStack, in_flight: int
) -> None:
    made = config()
    role = stack.enter_context(Role(made, address, in_flight))
    actors = [playing(made, address, stack, index)[0] for index in range(2)]
    rows = 2 * PER_ACTOR
    for n in range(60):
        for actor in actors[: 1 + n % 2]:  # one of them plays twice as often
            actor.tick()
            rows += PER_ACTOR
    env_steps = sum(actor._env_steps for actor in actors)
    role.end()
    reading = dict(role.client.stats())
    assert reading["table.replay.rows"] == rows
    assert reading["table.replay.env_steps"] == env_steps
    assert reading["table.replay.items_refused"] == 0
    # Each step that took an action has an item, but for those whose future has not come.
    assert env_steps - 2 * PER_ACTOR * 2 <= reading["table.replay.items_created"] <= env_steps
    added = sum(group.recorder.items_added for group in role.role._groups)
    assert reading["table.replay.items_created"] == added


def test_a_batch_is_stored_while_the_next_one_is_computed(
    address: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = config(actors=3)
    role = stack.enter_context(Role(made, address, in_flight=2))
    actors = [playing(made, address, stack, index)[0] for index in range(3)]
    for actor in actors:
        actor.tick()
    first, second = (group.recorder for group in role.role._groups)
    assert first.agent is not None and second.agent is not None
    act, store, act_next = first.agent.act, first.store, second.agent.act
    acts, stored, in_time = threading.Event(), threading.Event(), list[bool]()

    def act_once_the_next_waits(rows: Rows) -> Any:
        acts.set()
        until(role, lambda reading: reading["inference.waiting"] > 0)
        return act(rows)

    def act_once_the_first_is_stored(rows: Rows) -> Any:
        in_time.append(stored.wait(20.0))
        return act_next(rows)

    def store_and_tell(*args: Any) -> Any:
        action = store(*args)
        stored.set()
        return action

    monkeypatch.setattr(first.agent, "act", act_once_the_next_waits)
    monkeypatch.setattr(second.agent, "act", act_once_the_first_is_stored)
    monkeypatch.setattr(first, "store", store_and_tell)
    # Those of the first places, one of each group.
    threads = [threading.Thread(target=actor.tick) for actor in actors[:2]]
    threads[0].start()
    assert acts.wait(20.0)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert in_time == [True]
    monkeypatch.undo()
    for actor in actors:
        actor.tick()


def test_an_actor_goes_while_its_batch_is_computed(address: str, stack: ExitStack) -> None:
    made = config(actors=4)
    role = stack.enter_context(Role(made, address, in_flight=2))
    staying = [playing(made, address, stack, index)[0] for index in range(2)]
    for _ in range(3):
        with ExitStack() as gone:
            going = [playing(made, address, gone, index)[0] for index in (2, 3)]
            for _ in range(5):
                for actor in going + staying:
                    actor.tick()
        until(role, lambda reading: reading["table.replay.streams_leased"] == 2 * PER_ACTOR)
    role.end()
    reading = dict(role.client.stats())
    assert reading["table.replay.rows"] == (2 * 16 + 6 * 6) * PER_ACTOR
    assert reading["table.replay.items_refused"] == 0


def test_a_row_holds_the_action_that_was_played(address: str, stack: ExitStack) -> None:
    """The toy's observation is [episode, step, newest action]."""
    made = config(actors=1)
    role = stack.enter_context(Role(made, address))
    actor, _ = playing(made, address, stack)
    for _ in range(40):
        actor.tick()
    role.end()
    batch = role.client.attach("replay").sample(64)
    obs, following, action = (batch.views[name] for name in ("obs", "next_obs", "action"))
    one = batch.length == 1
    assert one.any()
    assert np.array_equal(following[one, 1], obs[one, 1] + 1)
    assert np.array_equal(following[one, 2] + 1, action[one])  # the toy's first action is -1
    assert np.array_equal(following[one, 0], obs[one, 0])


def test_a_stopped_actor_holds_up_no_other(address: str, stack: ExitStack) -> None:
    made = config()
    role = stack.enter_context(Role(made, address))
    stopped, _ = playing(made, address, stack, 0)
    actor, _ = playing(made, address, stack, 1)
    stopped.tick()
    for _ in range(100):
        actor.tick()
    reading = until(role, lambda reading: reading["inference.straggler_s"] > 0)
    assert reading["inference.clients"] == 2
    assert reading["inference.questions"] == 2 * 2 + 1 + 100  # each joins, and sends FIRST rows
    stopped.tick()  # and it goes on where it was
    assert stopped._env_steps > 0


def test_an_actor_that_goes_frees_its_place_and_its_streams(address: str, stack: ExitStack) -> None:
    made = config(actors=1)
    role = stack.enter_context(Role(made, address))
    for _ in range(3):  # one after the other, in the only place
        with ExitStack() as gone:
            actor, _ = playing(made, address, gone)
            for _ in range(10):
                actor.tick()
        until(role, lambda reading: reading["table.replay.streams_leased"] == 0)
    role.end()
    assert role.role._places == [None]
    reading = dict(role.client.stats())
    assert reading["table.replay.rows"] == 3 * 11 * PER_ACTOR
    assert reading["table.replay.items_refused"] == 0


def test_an_actor_too_many(address: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drlnet.roles.infer._JOIN_S", 0.0)
    made = config(actors=1)
    stack.enter_context(Role(made, address))
    actor, _ = playing(made, address, stack)
    with pytest.raises(ConfigError, match="the inference role has 1 actors"):
        playing(made, address, stack, 1)
    actor.tick()  # it is not the one that gives way
    monkeypatch.setattr("drlnet.roles.infer._SILENT_S", 0.0)
    other, _ = playing(made, address, stack, 1)
    other.tick()


def test_an_actor_of_another_environment(address: str, stack: ExitStack) -> None:
    stack.enter_context(Role(config(), address))
    with pytest.raises(ConfigError, match="another environment"):
        playing(config(**{"actor.envs_per_actor": PER_ACTOR + 1}), address, stack)


def test_an_agent_that_knows_no_device(
    address: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = config()
    client = stack.enter_context(Role(made, address)).client
    monkeypatch.delattr(NetPlayer, "to")
    with pytest.raises(ConfigError, match=r"algo\.name = 'dqn' acts on processor cores"):
        Inference(made, client, torch.device("meta")).wait(Stop())


def test_another_role_takes_over_and_episodes_begin_anew(address: str, stack: ExitStack) -> None:
    made = config(actors=1)
    first = stack.enter_context(Role(made, address))
    actor, _ = playing(made, address, stack)
    actor.tick()
    first.end()
    second = stack.enter_context(Role(made, address))
    for _ in range(20):
        actor.tick()
    until(second, lambda reading: reading["inference.clients"] == 1)
    with pytest.raises(ConfigError, match="another client answers"):
        first.role.tick()


def test_a_role_taken_over_before_the_first_rows_is_asked_for_streams_again(
    address: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = stack.enter_context(Client(address, name="actor-0"))
    joined = message(Says.JOINED, {"ordinal": 0, "epoch": 1, "env_steps_before": 0})
    actions = message(Says.ACTIONS, np.zeros(PER_ACTOR, np.int32).tobytes())
    answers = [joined, message(Says.UNKNOWN), joined, actions]
    asked: list[int] = []

    def ask(question: bytes, _timeout_s: float) -> bytes:
        asked.append(question[0])
        return answers[len(asked) - 1]

    monkeypatch.setattr(client, "ask", ask)
    actor = Actor(config(actors=1), client, 0)
    actor.start()
    assert asked == [Asks.JOIN, Asks.ROWS] * 2
    assert actor._env_steps == PER_ACTOR
    actor.close()


def test_a_role_that_falls_silent(
    address: str, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(central, "PATIENCE_S", 0.1)
    made = config(actors=1)
    role = stack.enter_context(Role(made, address))
    actor, _ = playing(made, address, stack)
    actor.tick()
    role.end()
    with pytest.raises(ReplayTimeout, match="fallen silent") as raised:
        actor.tick()
    assert "drlnet infer" in raised.value.remedy


def test_environments_that_crash_begin_anew(address: str, stack: ExitStack) -> None:
    made = config(actors=1, **{"env.kwargs": {"crash_at": 3, "longest": 9}})
    role = stack.enter_context(Role(made, address))
    actor, _ = playing(made, address, stack)
    for _ in range(6):
        actor.tick()
    role.end()
    reading = dict(role.client.stats())
    assert actor._crashes
    assert reading["table.replay.streams_leased"] == PER_ACTOR
    assert reading["table.replay.items_refused"] == 0


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("env", [TOY, LEVERS])
def test_rows_travel_unchanged(env: str, mode: AutoresetMode) -> None:
    envs, spaces = make_envs(EnvConfig(id=env), PER_ACTOR, autoreset_mode=mode)
    form, own, ended = RowForm(spaces), slice(PER_ACTOR, 2 * PER_ACTOR), 0
    names = ["obs", "reward", "terminated", "truncated", "first", "last"]
    rows = envs.reset(1)
    for _ in range(20):
        valid = rows.action_mask
        step = envs.step(np.zeros(PER_ACTOR, np.int64) if valid is None else valid.argmax(1))
        for rows in ticks(step):
            arrays = form.empty(3 * PER_ACTOR)
            form.unpack(form.pack(rows), arrays, own)
            found = form.rows(arrays)
            for name in names + ["action_mask"] * (env == LEVERS):
                assert np.array_equal(getattr(found, name)[own], getattr(rows, name)), name
            for name, leaf in (rows.leaves or {}).items():
                assert found.leaves is not None and np.array_equal(found.leaves[name][own], leaf)
            mask = np.ones(PER_ACTOR, bool) if rows.mask is None else rows.mask
            assert found.mask is not None
            assert np.array_equal(found.mask[own], mask) and found.mask.sum() == mask.sum()
            ended += int(rows.last.sum())
    assert ended > 0
    envs.close()
