"""SEER against loops over its equations; what is stored until its lower layers freeze, and then."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from algos.transitions import SPACES, batch_of, disagree, random_batch, targets_by_loop
from oracle import OracleBatch, OracleTable
from torch.nn import functional
from toy import TOY

from drlnet import native
from drlnet.algos import TABLE, Held, make_algorithm, seer
from drlnet.algos.seer import EMBEDDINGS
from drlnet.client import Client
from drlnet.config import load
from drlnet.envs import EnvSpaces, Streams, find_spaces, make_envs
from drlnet.errors import ConfigError
from drlnet.learning.feed import Feed
from drlnet.metrics.catalog import find
from drlnet.roles.tables import open_tables

FEATURES = 6


def algorithm(env: str | None = None, spaces: EnvSpaces = SPACES, **flags: Any) -> seer.Seer:
    config = load(
        env,
        flags={
            "algo.name": "seer", "net.hidden_sizes": (8, FEATURES), "algo.head_units": 5,
            "algo.gamma": 0.9, "algo.freeze_learner_steps": 2, "replay.min_size": 20,
            "algo.max_grad_norm": None, **flags,
        },
    )  # fmt: skip
    made = make_algorithm(config, find_spaces(config.env) if env else spaces)
    assert isinstance(made, seer.Seer)
    return made


def learner_of(**flags: Any) -> seer.SeerLearner:
    learner = algorithm(**flags).learner("cpu", 1)
    disagree(learner)
    return learner


def step(learner: seer.SeerLearner, batch: OracleBatch, table: str = TABLE) -> np.ndarray:
    learned = learner.step({table: batch})  # type: ignore[dict-item]
    assert learned.priorities.keys() == {table}
    assert all(find(f"client.learner.{name}") for name in learned.figures)
    assert learned.figures["frozen"] == float(learner.frozen)
    return learned.priorities[table]


def embedded(learner: seer.SeerLearner, batch: OracleBatch) -> OracleBatch:
    """The same items, as the second table holds them."""
    views = dict(batch.views)
    for name in ("obs", "next_obs"):
        with torch.no_grad():
            seen = learner.online.torso(torch.from_numpy(views[name]))  # type: ignore[operator]
        views[name] = seen.half().numpy()
    return batch_of(views, batch.length)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_step_on_observations_is_dqns(frozen: bool, double: bool) -> None:
    learner = learner_of(**{"algo.double": double})
    if frozen:
        learner.freeze()
        batch = random_batch(64, 3)
    batch = random_batch(64, 3)
    targets = torch.tensor(targets_by_loop(learner, batch))  # type: ignore[arg-type]
    q = learner.online(torch.from_numpy(batch.views["obs"])).detach()
    taken = q[torch.arange(64), torch.from_numpy(batch.views["action"]).long()]
    np.testing.assert_allclose(step(learner, batch), (targets - taken).abs(), rtol=1e-3, atol=1e-5)


def test_a_step_on_embeddings_is_that_of_the_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a loop over the equation, on numbers that are exact in float16."""
    learner = learner_of(**{"algo.double": False})
    learner.freeze()
    batch, rng = random_batch(64, 3), np.random.default_rng(4)
    for name in ("obs", "next_obs"):
        batch.views[name] = rng.normal(size=(64, FEATURES)).astype(np.float16)
    seen, following = (torch.from_numpy(batch.views[name]).float() for name in ("obs", "next_obs"))
    values = learner.target.values(following).detach().numpy()  # type: ignore[operator]
    goals = []
    for i, m in enumerate(batch.length):
        value, survived = 0.0, 1.0
        for k in range(int(m)):
            value += 0.9**k * survived * batch.views["reward"][i, k]
            survived *= batch.views["discount"][i, k]
        goals.append(value + 0.9 ** int(m) * survived * values[i].max())
    action = torch.from_numpy(batch.views["action"]).long()
    goal = torch.tensor(goals, dtype=torch.float32)
    taken = learner.online.values(seen)[torch.arange(64), action]  # type: ignore[operator]
    functional.huber_loss(taken, goal).backward()
    known = [param.grad.clone() for param in learner.online.head.parameters()]  # type: ignore[union-attr]
    learner.online.zero_grad()
    found: list[torch.Tensor] = []

    def keep(_env_steps: int, _spent: float) -> None:
        found.extend(param.grad.clone() for param in learner.online.head.parameters())  # type: ignore[union-attr]

    monkeypatch.setattr(learner.optimizer, "step", keep)
    priorities = step(learner, batch, EMBEDDINGS)
    np.testing.assert_allclose(priorities, (goal - taken.detach()).abs(), rtol=1e-5, atol=1e-5)
    for one, other in zip(found, known, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_the_lower_layers_learn_until_they_are_frozen() -> None:
    learner = learner_of()
    torso, head = learner.online.torso, learner.online.head
    for number in range(1, 5):
        before = [
            [param.detach().clone() for param in part.parameters()]  # type: ignore[union-attr]
            for part in (torso, head)
        ]
        batch = random_batch(64, 3, seed=number)
        if number == 4:
            step(learner, embedded(learner, batch), EMBEDDINGS)
        else:
            step(learner, batch)
        moved = [
            any(not torch.equal(a, b) for a, b in zip(old, part.parameters(), strict=True))  # type: ignore[union-attr]
            for old, part in zip(before, (torso, head), strict=True)
        ]
        assert moved == [number <= 2, True]
        assert learner.frozen == (number >= 2)
        assert bool(learner.params()["frozen"]) == learner.frozen
    pairs = zip(torso.parameters(), learner.target.torso.parameters(), strict=True)  # type: ignore[union-attr]
    assert all(torch.equal(one, other) for one, other in pairs)


def test_embeddings_learn_what_their_observations_do() -> None:
    learners = [learner_of(), learner_of()]
    learners[1].load_state_dict(learners[0].state_dict())
    for learner in learners:
        learner.freeze()
    batch = random_batch(64, 3)
    errors = [step(learners[0], batch), step(learners[1], embedded(learners[1], batch), EMBEDDINGS)]
    np.testing.assert_allclose(*errors, rtol=0.02, atol=0.01)  # float16 has three digits


def test_a_state_goes_on_frozen() -> None:
    first, second = learner_of(), learner_of()
    for _ in range(3):
        step(first, random_batch(64, 3))
    second.load_state_dict(first.state_dict())
    assert second.frozen and not any(p.requires_grad for p in second.online.torso.parameters())  # type: ignore[union-attr]
    for learner in (first, second):
        step(learner, random_batch(64, 3, seed=9))
    for one, other in zip(first.params().values(), second.params().values(), strict=True):
        assert torch.equal(one, other)


def test_what_is_frozen_stays_so_when_a_run_goes_on_with_another_freeze() -> None:
    first, later = learner_of(), learner_of(**{"algo.freeze_learner_steps": 30})
    saved = [
        first.step({TABLE: random_batch(64, 3)}).save  # type: ignore[dict-item]
        for _ in range(4)
    ]
    assert saved == [False, True, False, False]
    later.load_state_dict(first.state_dict())
    assert later.frozen and bool(later.params()["frozen"])
    older = {**first.state_dict()}
    del older["frozen"]
    again, unfrozen = learner_of(), learner_of(**{"algo.freeze_learner_steps": 30})
    again.load_state_dict(older)
    unfrozen.load_state_dict(older)
    assert again.frozen and not unfrozen.frozen


def chosen(learner: seer.SeerLearner, old: int, new: int) -> tuple[str, ...]:
    held = {TABLE: Held(old, old), EMBEDDINGS: Held(new, new)}
    return tuple(learner.choose(held.__getitem__))


def test_steps_are_shared_as_one_ring_would_hold_the_items() -> None:
    learner = learner_of(**{"replay.capacity": 1000, "replay.min_size": 100})
    assert {chosen(learner, 1000, 900) for _ in range(9)} == {(TABLE,)}
    learner.freeze()
    assert {chosen(learner, 900, 99) for _ in range(9)} == {(TABLE,)}  # too few as yet
    counts = Counter(chosen(learner, 900, 250) for _ in range(400))
    assert counts[(EMBEDDINGS,)] == pytest.approx(400 * 250 / 1000, abs=1)
    counts = Counter(chosen(learner, 300, 600) for _ in range(300))
    assert counts[(EMBEDDINGS,)] == pytest.approx(200, abs=1)
    assert not learner.over
    assert chosen(learner, 900, 1000) == (EMBEDDINGS,) and learner.over == (TABLE,)
    assert chosen(learner, 900, 10) == (EMBEDDINGS,)  # that table is not asked again


@pytest.mark.parametrize("stack", [1, 3])
def test_each_episode_is_in_one_table(stack: int) -> None:
    n, streams = 2, 3
    made = algorithm(TOY, **{"algo.n_step": n, "net.frame_stack": stack})
    settings = made.tables()
    assert settings[EMBEDDINGS].columns["obs"].dtype == "float16"
    assert settings[EMBEDDINGS].columns["obs"].shape == (FEATURES,)
    tables = {name: OracleTable(one.columns, one.item, 10**6) for name, one in settings.items()}
    writers = {name: table.writer(streams) for name, table in tables.items()}
    envs, _ = make_envs(made.config.env, streams)
    agent = made.agent(
        Streams(np.arange(streams), first=0, total=streams, rng=np.random.default_rng(1))
    )
    learner = made.learner("cpu", 1)
    agent.load(learner.params())
    rows, seen, went_over = envs.reset(3), 0, set()
    for tick in range(90):
        if tick == 30:
            learner.freeze()
            agent.load(learner.params())
        action, appended = agent.act(rows)
        steps = {
            name: writers[name].append(columns, rows.first, rows.last, agent.masks[name])
            for name, columns in appended.items()
        }
        present = sum((numbers >= 0).astype(int) for numbers in steps.values())
        assert (present == 1).all()  # a row is in one table
        seen += streams
        if EMBEDDINGS in appended:
            with torch.no_grad():
                obs = agent._stacks._frames if stack > 1 else rows.obs  # type: ignore[union-attr]
                known = learner.online.torso(torch.from_numpy(np.array(obs)))  # type: ignore[operator]
            own = steps[EMBEDDINGS] >= 0
            np.testing.assert_allclose(
                appended[EMBEDDINGS]["obs"][own], known.numpy()[own], rtol=2e-3, atol=1e-3
            )
            went_over |= set(np.flatnonzero(own & rows.first).tolist())
        for name, items in agent.items(steps).items():
            writers[name].add_items(items.streams, items.steps, items.priorities)
        rows = envs.step(action)[1]
    envs.close()
    assert went_over == {0, 1, 2}
    assert sum(len(table.rows) for table in tables.values()) == seen
    for name, table in tables.items():
        live = 0
        for stream in table.streams:
            own = stream.rows
            assert own[0].first and all(b.first == a.last for a, b in itertools.pairwise(own))
            if name == TABLE:
                assert own[-1].last  # no episode was left before its end
        for stream_number, anchor in table.live():
            _, length = table.read(stream_number, anchor)
            assert 1 <= length <= n
            live += 1
        # Every step that took an action is an item, but for those whose future has not come.
        acted = sum(not row.last for row in table.rows)
        assert acted - n * streams <= live <= acted


def test_the_feed_draws_as_the_learner_chooses_and_drops_what_is_over() -> None:
    made = algorithm(
        **{
            "replay.capacity": 400, "replay.batch_size": 8, "run.serial": True,
            "run.max_learner_steps": 10**6, "actor.envs_per_actor": 1,
        }
    )  # fmt: skip
    client = Client.in_process(native.Server(["memory:"]))
    tables, learner = open_tables(client, made), made.learner("cpu", 1)
    writers = {name: table.writer(1) for name, table in tables.items()}
    feed = Feed(made, tables, 1, learner, client.stats)

    def add(name: str, rows: int) -> None:
        shape = made.tables()[name].columns["obs"].shape
        for _ in range(rows):
            row = {
                "obs": np.ones((1, *shape), np.uint8),
                "action": [1], "reward": [1.0], "discount": [1.0],
            }  # fmt: skip
            began = writers[name].leases[0].next_step == 0 and not added[name]
            added[name] += 1
            writers[name].add_items([0], writers[name].append(row, [began], [False]), [1.0])
        writers[name].flush()

    added: Counter[str] = Counter()
    add(TABLE, 200)
    drawn: Counter[str] = Counter()
    env_steps = []
    for number in range(400):
        if number == 100:
            add(EMBEDDINGS, 100)
        if number == 250:
            add(EMBEDDINGS, 400)
        while feed.due:
            feed.draw()
        ((name, batch),) = feed.take().items()
        drawn[name] += 1
        env_steps.append(batch.env_steps)
        assert batch.views["obs"].dtype == (np.float16 if name == EMBEDDINGS else np.float32)
        feed.update(name, learner.step({name: batch}).priorities[name])
        if number < 100:
            assert name == TABLE
        if number > 310:
            assert name == EMBEDDINGS
    assert drawn[TABLE] > 150 and drawn[EMBEDDINGS] > 120
    assert env_steps == sorted(env_steps) and env_steps[-1] == 200 + 100 + 400
    assert "table.replay.rows" not in client.stats()
    again = made.learner("cpu", 1)  # one that restarts makes that table anew
    again.load_state_dict(learner.state_dict())
    on = Feed(made, open_tables(client, made), 1, again, client.stats)
    on.env_steps.update(feed.env_steps)
    on.draw()
    assert [batch.env_steps for batch in on.take().values()] == [200 + 100 + 400]
    assert client.stats()["table.embeddings.rows"] == 400


def test_what_cannot_work_is_refused() -> None:
    for flags in ({"replay.samples_per_insert": 4.0}, {"replay.max_times_sampled": 1}):
        with pytest.raises(ConfigError, match="the limiter would hold") as raised:
            algorithm(**flags)
        assert "set replay.samples_per_insert" in raised.value.remedy
    with pytest.raises(ConfigError, match="n-step returns alone"):
        algorithm(**{"algo.returns": "lambda"})
