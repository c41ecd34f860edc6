"""Serial mode: the same seed gives the same params and the same returns, bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drlnet import native
from drlnet.algos import TABLE
from drlnet.algos.dqn import DqnLearner
from drlnet.client import Client
from drlnet.config import Config, load
from drlnet.envs import crashed
from drlnet.errors import BadPriority, ConfigError, UserCodeError
from drlnet.launch.signals import Stop
from drlnet.learning.feed import Feed
from drlnet.metrics import RunFolder
from drlnet.nets.params import load_state, read_metadata
from drlnet.roles import gate
from drlnet.roles.evaluate import evaluate_checkpoint
from drlnet.roles.learn import Learning, LearnResult
from drlnet.roles.serial import may_draw, serial

BTR = ["algo.name=btr", "net.hidden_sizes=[16]", "algo.head_units=16"]
SETS = ["run.max_learner_steps=60", "replay.min_size=300", "actor.envs_per_actor=8"]


def run(folder: Path, seed: int, *sets: str) -> tuple[LearnResult, bytes, list[float]]:
    flags = {"run.seed": seed, "run.serial": True, "run.folder": str(folder)}
    config = load("CartPole-v1", flags=flags, sets=[*SETS[:1], *sets])
    made = RunFolder.create(config)
    result = serial(config, made, Stop())
    returns = evaluate_checkpoint(config, made.checkpoint_path, 20).returns
    return result, made.checkpoint_path.read_bytes(), returns


@pytest.mark.parametrize("sets", [[], BTR], ids=["dqn", "btr"])
def test_twice_the_same(tmp_path: Path, sets: list[str]) -> None:
    first, second = (run(tmp_path / name, 1000, *sets) for name in ("a", "b"))
    assert (first[0].env_steps, first[0].learner_steps) == (
        second[0].env_steps,
        second[0].learner_steps,
    )
    assert first[1:] == second[1:]
    assert first[0].stopped == "budget" and first[0].learner_steps == 60


@pytest.mark.parametrize("buffer", [1, 3])
def test_echoing_draws_less_and_is_repeatable(tmp_path: Path, buffer: int) -> None:
    sets = ["learner.echo=4", f"learner.echo_buffer={buffer}"]
    first, second = (run(tmp_path / name, 1000, *sets) for name in ("a", "b"))
    assert first[1:] == second[1:]
    plain, echoed = run(tmp_path / "c", 1000)[0], first[0]
    assert plain.learner_steps == echoed.learner_steps == 60
    assert echoed.env_steps < plain.env_steps


@pytest.mark.parametrize("again", [True, False])
def test_a_reached_goal_ends_the_learner_that_is_started_again_and_not_a_resumed_run(
    tmp_path: Path, again: bool
) -> None:
    flags = {"run.seed": 1000, "run.serial": True, "run.folder": str(tmp_path)}
    looks = ["run.goal=5", "eval.period=5", "eval.num_envs=2"]
    looks += ["eval.gate_episodes=2", "eval.report_episodes=4"]
    config = load("CartPole-v1", flags=flags, sets=[*SETS, *looks])
    first = serial(config, RunFolder.create(config), Stop())
    on = load("CartPole-v1", flags=flags, sets=[*SETS, *looks, "run.resume=true"])
    second = serial(on, RunFolder.reopen(on, again=again), Stop())
    assert first.stopped == second.stopped == "goal"
    assert second.learner_steps - first.learner_steps == (0 if again else 5)
    assert second.gate_return_mean >= first.gate_return_mean
    if again:  # another goal is to be reached anew
        higher = [*SETS, *looks, "run.resume=true", "run.goal=500", "run.max_learner_steps=15"]
        raised = load("CartPole-v1", flags=flags, sets=higher)
        third = serial(raised, RunFolder.reopen(raised, again=True), Stop())
        assert (third.stopped, third.learner_steps) == ("budget", 15)


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    assert run(tmp_path / "a", 1000)[1] != run(tmp_path / "b", 1001)[1]


def test_what_was_learned_before_an_error_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(*_: Any) -> Any:
        raise crashed("CartPole-v1", "in an evaluation", OSError("no display"))

    monkeypatch.setattr(gate, "evaluate", evaluate)
    flags = {"run.serial": True, "run.folder": str(tmp_path / "a")}
    config = load("CartPole-v1", flags=flags, sets=[*SETS, "eval.period=20"])
    made = RunFolder.create(config)
    with pytest.raises(ConfigError, match="no display"):
        serial(config, made, Stop())
    assert read_metadata(made.checkpoint_path.read_bytes())["learner_steps"] == "20"


@pytest.mark.parametrize(("error", "kept"), [(BadPriority("nan"), False), (ValueError(), True)])
def test_newest_params_are_kept_unless_they_diverged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, kept: bool
) -> None:
    def take_turns(_config: Config, _client: Client, learning: Learning, _stop: Stop) -> None:
        learning._learner.steps = 3
        raise error

    monkeypatch.setattr("drlnet.roles.serial._take_turns", take_turns)
    flags = {"run.serial": True, "run.folder": str(tmp_path / "a")}
    made = RunFolder.create(load("CartPole-v1", flags=flags, sets=SETS))
    with pytest.raises(type(error)):
        serial(made.read_config(), made, Stop())
    assert made.checkpoint_path.is_file() is made.learner_path.is_file() is kept


@pytest.mark.parametrize("period_s", [1e-9, 1e9])  # seen by a report, or at the end
@pytest.mark.parametrize("name", ["pqn", "vtrace"])
def test_a_loss_that_is_not_finite_ends_a_run_that_sends_no_priorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, period_s: float
) -> None:
    unrolls = Feed.take

    def take(feed: Feed) -> Any:
        batches = unrolls(feed)
        batches[TABLE].views["reward"][0, 3] = np.nan
        return batches

    monkeypatch.setattr(Feed, "take", take)
    flags = {"run.serial": True, "run.folder": str(tmp_path / "a"), "algo.name": name}
    sets = ["run.max_learner_steps=3", f"learner.report_interval_s={period_s}"]
    made = RunFolder.create(load("CartPole-v1", flags=flags, sets=sets))
    with pytest.raises(BadPriority, match=r"no longer finite \(the loss is nan\): the params have"):
        serial(made.read_config(), made, Stop())
    assert not made.checkpoint_path.exists() and not made.learner_path.exists()


def test_lower_layers_are_on_disk_before_actors_embed_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[bool] = []
    publish = Learning._publish

    def spy(learning: Learning) -> None:
        published.append(bool(learning._learner.params()["frozen"]))
        if published[-1]:
            kept, _ = load_state(learning._run.learner_path, learning.algorithm.architecture)
            assert kept["learner"]["frozen"] and kept["learner"]["steps"] == 20
        publish(learning)

    monkeypatch.setattr(Learning, "_publish", spy)
    sets = [
        "algo.freeze_learner_steps=20",
        "learner.publish_period=10",
        "learner.save_period_s=1e9",
    ]
    run(tmp_path, 1000, "algo.name=seer", *sets)
    assert published == [False, False, *[True] * 5]


def test_a_learner_goes_on_with_the_counts_of_a_table_that_is_gone(tmp_path: Path) -> None:
    flags = {"run.serial": True, "run.folder": str(tmp_path / "a")}
    made = load("CartPole-v1", flags=flags, sets=SETS)
    with Client.in_process(native.Server(["memory:"])) as client:
        first = Learning(made, client, RunFolder.create(made), Stop())
        first.feed.env_steps["gone"] = 700
        first._save_state()
        on = load("CartPole-v1", flags=flags, sets=[*SETS, "run.resume=true"])
        second = Learning(on, client, RunFolder.reopen(on), Stop())
        assert second.feed.env_steps == {"gone": 700}


def test_a_state_that_cannot_be_stored_leaves_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DqnLearner, "state_dict", lambda _: {"seen": {1, 2}})
    flags = {"run.serial": True, "run.folder": str(tmp_path / "a")}
    sets = [*SETS, "learner.save_period_s=1e-9"]
    made = RunFolder.create(load("CartPole-v1", flags=flags, sets=sets))
    with pytest.raises(UserCodeError, match=r"state\.learner\.seen is of the type set"):
        serial(made.read_config(), made, Stop())
    assert read_metadata(made.checkpoint_path.read_bytes())["learner_steps"] == "1"


def test_turns_keep_to_the_ratio() -> None:
    config = load("CartPole-v1", flags={"run.serial": True}, sets=[*SETS, "replay.batch_size=64"])
    created = drawn = 0
    while drawn < 6400:
        if may_draw(config, created, drawn):
            drawn += 64
        else:
            created += 8
        balance = config.replay.samples_per_insert * (created - 300) - drawn
        assert drawn == 0 or 0 <= balance < 64 + 4 * 8


def test_a_queue_s_batch_is_drawn_once_it_is_whole() -> None:
    config = load("CartPole-v1", flags={"run.serial": True, "algo.name": "vtrace"}, sets=SETS[:1])
    assert not may_draw(config, created=31, drawn=0)
    assert may_draw(config, created=32, drawn=0)  # the queue need not have room for one more
    assert not may_draw(config, created=63, drawn=32)
