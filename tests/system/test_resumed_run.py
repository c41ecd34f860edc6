"""`--resume RUN`: a learner that goes on from its run's folder, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from installed import require
from system.command import SMALL, finished, lines_of_error

from drlnet import errors
from drlnet.algos import make_algorithm
from drlnet.cli.training import going_on, settings_of
from drlnet.config import load
from drlnet.envs import find_spaces
from drlnet.metrics import RunFolder
from drlnet.nets.params import pack, pack_state, save
from drlnet.roles.seeds import role_seed

ENV = "CartPole-v1"


def test_a_run_is_resumed(tmp_path: Path) -> None:
    ended = finished(tmp_path, "run", ENV, "--max-learner-steps", "60", "--json", *SMALL)
    first = ended.last_json()
    again = ("run", "--resume", first["run_dir"], "--max-learner-steps", "90", "--json")
    other = ("--set", "net.hidden_sizes=[24]")
    finished(tmp_path, *again, *other, error=errors.CheckpointMismatch)
    assert json.loads((Path(first["run_dir"]) / "result.json").read_text()) == first
    ended = finished(tmp_path, *again)
    second = ended.last_json()
    assert second["run_dir"] == first["run_dir"] and second["learner_steps"] == 90
    assert second["env_steps"] > first["env_steps"]
    said = RunFolder(Path(first["run_dir"])).readings()
    counts = [one["learner_steps"] for one in said if one["role"] == "learner"]
    assert counts == sorted(counts) and counts[-1] == 90  # one curve over both parts


NOTING = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Noting(CartPoleEnv):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            with open("SEEDS", "a") as file:
                print(seed, file=file)
        return super().reset(seed=seed, options=options)

gym.register("Noting-v0", Noting, max_episode_steps=500)
"""


@pytest.mark.parametrize("where", ["actor", "central"])
def test_a_resumed_run_plays_other_episodes(tmp_path: Path, where: str) -> None:
    """Its actors lease the streams that the first ones had, at a server that knows of none."""
    seeds = tmp_path / "seeds"
    (tmp_path / "noting.py").write_text(NOTING.replace("SEEDS", str(seeds)), encoding="utf-8")
    evaluations = {role_seed(7, purpose) + n for purpose in ("gate", "report") for n in range(20)}

    def played(*words: str) -> tuple[str, set[int]]:
        ended = finished(tmp_path, "run", *words, "--json")
        noted = {int(line) for line in seeds.read_text(encoding="ascii").split()}
        seeds.unlink()
        return ended.last_json()["run_dir"], noted - evaluations

    begins = ("noting:Noting-v0", "--seed", "7", *SMALL, "--set", f"policy.where={where}")
    folder, first = played(*begins, "--max-learner-steps", "20")
    _, second = played("--resume", folder, "--max-learner-steps", "40")
    assert first and second and not first & second


@pytest.mark.fast
@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("env.id", "Acrobot-v1"),
        ("algo.name", "pqn"),  # its settings are others, too
        ("algo.optimizer", "rmsprop"),
    ],
)
def test_another_run_does_not_go_on_from_it(tmp_path: Path, flag: str, value: str) -> None:
    """Also where shapes and actions agree; a learner of its own (--again) is told the same."""
    config = load(ENV, flags={"run.folder": str(tmp_path)})
    folder = RunFolder.create(config)
    folder.learner_path.touch()
    with pytest.raises(errors.CheckpointMismatch) as caught:
        settings_of(None, tmp_path, file=None, flags={}, sets=[f"{flag}={value}"])
    was = {"env.id": ENV, "algo.name": "dqn", "algo.optimizer": "adam"}[flag]
    assert f"{flag} = {was!r}, and {value!r}" in caught.value.cause
    assert f"leave {flag} as it was" in caught.value.remedy
    own = value if flag == "env.id" else ENV
    given = {"flags": {"run.folder": str(tmp_path)}, "sets": {} if own == value else {flag: value}}
    with pytest.raises(errors.CheckpointMismatch, match=flag):
        going_on(load(own, **given), **given)
    same = settings_of(None, tmp_path, file=None, flags={}, sets=[f"{flag}={was}", "run.seed=3"])
    assert (same.env.id, same.run.seed, same.run.resume) == (ENV, 3, True)


def test_a_learner_that_is_started_again_has_its_seed(tmp_path: Path) -> None:
    flags = {"run.folder": str(tmp_path), "run.seed": 2}
    RunFolder.create(load(ENV, flags=flags)).learner_path.touch()
    same = going_on(load(ENV, flags=flags), flags=flags, sets={})
    assert same is not None and same.run.seed == 2
    del flags["run.seed"]  # a script does not say the default
    with pytest.raises(errors.CheckpointMismatch, match=r"run\.seed = 2, and 0 cannot"):
        going_on(load(ENV, flags=flags), flags=flags, sets={})


def test_a_network_whose_code_has_changed_since(tmp_path: Path) -> None:
    """As IMPALA's convolutions were once not normalised: the settings say the same."""
    require("minatar")
    flags = {"net.name": "impala", "net.norm": "layer", "run.folder": str(tmp_path / "run")}
    sets = ["net.channels=[4]", "net.hidden_sizes=[8]", "algo.unroll=8", "algo.minibatch_size=8"]
    sets += ["actor.envs_per_actor=8", "replay.batch_size=8", "eval.num_envs=1"]
    config = load("MinAtar/Breakout-v1", flags={**flags, "algo.name": "pqn"}, sets=sets)
    folder = RunFolder.create(config)
    algorithm = make_algorithm(config, find_spaces(config.env))
    learner = algorithm.learner("cpu", 0)

    def as_before(params: Any) -> dict[str, Any]:
        return {name: one for name, one in params.items() if not name.endswith(".0.1.weight")}

    state = learner.state_dict()
    assert len(as_before(state["online"])) < len(state["online"])
    facts = {"learner_steps": "1", "env_steps": "64"}
    kept = {"learner": {**state, "online": as_before(state["online"])}, "torch_rng": torch.zeros(1)}
    save(folder.learner_path, pack_state(kept, algorithm.architecture, facts))
    save(
        folder.checkpoint_path,
        pack(as_before(learner.params()), algorithm.architecture, {**facts, "mean": "1"}),
    )
    files = {path: path.read_bytes() for path in folder.path.iterdir()}
    for words in (("run", "--resume"), ("learn", "--resume"), ("eval",)):
        ended = finished(tmp_path, *words, str(folder.path), error=errors.CheckpointMismatch)
        lines = lines_of_error(ended)
        assert len(lines) == 2 and "the params are not of the network" in lines[0], ended.text()
        assert ".0.1.weight' (none in the params, [" in lines[0]
        assert lines[1].startswith("  try: use the version of drlnet")
        assert {path: path.read_bytes() for path in folder.path.iterdir()} == files


@pytest.mark.parametrize(
    ("words", "error", "cause"),
    [
        ((), errors.RunFolderError, "cannot be resumed: config.toml is missing"),
        ((ENV,), errors.ConfigError, "--resume RUN with ENV"),
    ],
)
@pytest.mark.parametrize("role", ["run", "learn"])
def test_what_cannot_be_resumed(
    tmp_path: Path, role: str, words: tuple[str, ...], error: type[errors.DrlnetError], cause: str
) -> None:
    ended = finished(tmp_path, role, *words, "--resume", "nowhere", error=error)
    first, second = lines_of_error(ended)
    assert cause in first and second.startswith("  try: ")
