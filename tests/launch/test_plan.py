"""What a run is made of, and how it is printed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from drlnet.algos import make_algorithm
from drlnet.config import load
from drlnet.envs import find_spaces
from drlnet.launch.plan import Plan, plan_of, with_tables

GIVEN = {
    "env.id": "CartPole-v1", "actor.num_actors": 3, "algo.n_step": 5, "server.shards": 2,
    "run.goal": None, "run.folder": "runs/mine",
}  # fmt: skip


def made(**more: object) -> Plan:
    given = {**GIVEN, **more}
    return plan_of(load("CartPole-v1", sets=given))


def test_roles_with_what_each_takes() -> None:
    plan = made()
    assert [(role.name, role.count, role.cores) for role in plan] == [
        ("server", 1, 2),
        ("learner", 1, 2),
        ("actor", 3, 1),
    ]
    assert {role.name for role in plan if role.needed} == {"server", "learner"}
    assert plan.cores() == 7 and plan.cores("actor") == 3
    assert plan.shares() == "server 2, learner 2, actor 3"
    assert plan.shares("server", "infer") == "server 2"
    assert max(map(len, plan.table().splitlines())) <= 80
    central = made(**{"policy.where": "central", "learner.device": "cuda"})
    assert (central.role("infer").gpus, central.role("learner").gpus) == (0, 1)
    assert made(**{"policy.where": "central", "actor.device": "cuda"}).role("infer").gpus == 1
    ranks = made(**{"learner.processes": 4, "learner.torch_threads": 2, "learner.device": "cuda"})
    learner = ranks.role("learner")
    assert (learner.count, learner.cores, learner.gpus) == (1, 9, 4)


def test_the_learner_alone_is_told_the_settings() -> None:
    plan = made()
    server, learner = plan.role("server"), plan.role("learner")
    assert plan.role("actor").args(server="udp://a:1") == [
        "actor",
        "--server",
        "udp://a:1",
        "--json",
    ]
    words = learner.args(server="udp://a:1")
    sets = dict(word.split("=") for at, word in enumerate(words) if words[at - 1] == "--set")
    assert sets == {
        "actor.num_actors": "3",
        "algo.n_step": "5",
        "server.shards": "2",
        "run.goal": "none",
        "run.folder": '"runs/mine"',
    }
    assert "server.shards=2" in server.args(host="10.0.0.2")
    assert "udp://10.0.0.2:0" in server.args(host="10.0.0.2")
    assert shlex.split(learner.command())[:3] == ["drlnet", "learn", "CartPole-v1"]


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        ('base = "none"\n[algo]\nn_step = 2\n', ["run.max_seconds=5"]),
        ('[algo]\nname = "btr"\n', ["run.goal=none"]),
        # What a default follows from, and that default of another value's.
        ("[algo]\nn_step = 20\n", ["replay.samples_per_insert=8", "replay.error_buffer=5000"]),
    ],
)
def test_the_learners_settings_are_those_of_the_file_without_the_file(
    text: str, sets: list[str], tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text(text)
    folder = f'run.folder="{tmp_path / "run"}"'
    config = load("CartPole-v1", file=tmp_path / "own.toml", sets=[*sets, folder])
    words = plan_of(config).role("learner").argv
    told = [word for at, word in enumerate(words) if words[at - 1] == "--set"]
    assert load("CartPole-v1", sets=told) == config


@pytest.mark.parametrize(
    ("given", "copies"),
    [
        ({}, (1, 0)),
        ({"replay.rows": "learner"}, (1, 1)),
        ({"replay.rows": "device", "server.index_only": True}, (0, 1)),
        ({"replay.rows": "learner", "learner.processes": 2}, (1, 1)),  # a shard each
        ({"replay.rows": "learner", "learner.processes": 4}, (1, 4)),
    ],
)
def test_server_and_learner_hold_the_rows_that_lie_there(
    given: dict[str, object], copies: tuple[int, int]
) -> None:
    config = load("CartPole-v1", sets={**GIVEN, "replay.capacity": 100_000, **given})
    tables = make_algorithm(config, find_spaces(config.env)).tables()
    plan, rows = plan_of(config), 100_000 * 28
    whole = with_tables(plan, config, tables)
    more = [whole.role(n).memory_bytes - plan.role(n).memory_bytes for n in ("server", "learner")]
    index = 64 * 100_000 * (copies[0] == 0)
    assert more == pytest.approx([copies[0] * rows + index, copies[1] * rows], rel=0.4)
