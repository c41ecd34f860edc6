"""A user's own algorithm, network and wrapper: files in the folder where the command is run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from system.command import DEADLINE_S, PROGRAM, SMALL, command, finished, lines_of_error, server

from drlnet.cli.help import DOCS
from drlnet.errors import ConfigError, UnknownKey, UserCodeError
from drlnet.metrics import RunFolder

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a user has the files; nothing of the package's tests is beside them."""
    for file in PLUGINS.glob("*.py"):
        shutil.copy(file, tmp_path)
    return tmp_path


ALGORITHMS = pytest.mark.parametrize(
    ("algo", "sets"),
    [
        ("qr_dqn:QrDqn", ["algo.quantiles=32", "net.hidden_sizes=[64, 64]"]),
        ("actor_critic:ActorCritic", []),
    ],
)


def run_cartpole(folder: Path, algo: str, sets: list[str], *budget: str) -> dict[str, Any]:
    words = [word for text in sets for word in ("--set", text)]
    ended = finished(
        folder, "run", "CartPole-v1", "--algo", algo, *words, "--json", "--seed", "1000", *budget,
        deadline_s=300.0,
    )  # fmt: skip
    return ended.last_json()


@ALGORITHMS
def test_an_algorithm_of_the_users_own_trains(folder: Path, algo: str, sets: list[str]) -> None:
    few = ("--max-learner-steps", "20", "--set", "eval.report_episodes=20")
    result = run_cartpole(folder, algo, sets, *few)
    assert result["learner_steps"] >= 20 and result["eval_episodes"] == 20


@pytest.mark.exhaustive  # the better part of a minute each
@ALGORITHMS
def test_an_algorithm_of_the_users_own_learns(folder: Path, algo: str, sets: list[str]) -> None:
    result = run_cartpole(folder, algo, sets)
    # The recipe's goal stands 20 above what is asked for: the report's episodes are other ones.
    assert result["eval_return_mean"] >= 475 and result["stopped"] == "goal"


def test_its_settings_are_listed(folder: Path) -> None:
    ended = finished(folder, "run", "--help-config", "--algo", "qr_dqn:QrDqn")
    text = ended.out.decode()
    assert "algo.quantiles" in text and "policy.epsilon_base" in text
    assert "algo.double" not in text
    assert (
        "net.waves"
        in finished(folder, "run", "--help-config", "--set", "net.name=parts:Fourier").out.decode()
    )


def test_a_network_and_a_wrapper_of_the_users_own(folder: Path) -> None:
    ended = finished(
        folder, "run", "CartPole-v1", "--serial", "--max-env-steps", "1500", "--json",
        "--set", "net.name=parts:Fourier", "--set", "net.waves=16",
        "--set", "env.wrappers=['parts:Half']", "--set", "env.vectorization=sync",
        "--set", "eval.report_episodes=20",
    )  # fmt: skip
    result = json.loads(ended.out.splitlines()[-1])
    played = json.loads(finished(folder, "eval", result["run_dir"], "--json").out.splitlines()[-1])
    assert 2 <= played["eval_return_mean"] <= 250  # half of the 4 to 500 steps


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["--algo", "qr_dqn:QrDqm"], "module qr_dqn has no QrDqm"),
        (["--algo", "qr_dqm:QrDqn"], "module qr_dqm cannot be imported"),
        (["--algo", "dqm"], "algo.name = 'dqm': unknown name"),
        (["--algo", "qr_dqn:QrDqn", "--set", "algo.double=true"], "unknown config key algo.double"),
        (["--set", "env.wrappers=['parts:Half']"], "vector_entry_point makes none"),
        (["--set", "net.name=parts:Fuorier"], "module parts has no Fuorier"),
        (
            ["--set", "net.name=parts:Fourier", "--set", "net.norm=layer"],
            "unknown config key net.norm: parts:Fourier has no such setting",
        ),
    ],
)
def test_what_is_not_there_is_named_before_anything_starts(
    folder: Path, words: list[str], cause: str
) -> None:
    error = UnknownKey if "unknown config key" in cause else ConfigError
    ended = finished(folder, "run", "CartPole-v1", *words, error=error)
    lines = ended.err.decode().splitlines()
    assert cause in lines[0] and lines[1].startswith("  try: ") and len(lines) == 2
    assert not (folder / "runs").exists()


CRASHING = """
from drlnet.algos.dqn import Dqn, DqnLearner

class BoomLearner(DqnLearner):
    def step(self, batches):
        return {}["missing"]

class Boom(Dqn):
    def learner(self, device, seed):
        return BoomLearner(self, device, seed)
"""


def test_a_crash_of_the_users_code_leaves_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "boom.py").write_text(CRASHING)
    ended = finished(tmp_path, "run", "CartPole-v1", "--algo", "boom:Boom", error=UserCodeError)
    log = next(tmp_path.glob("runs/*/learner.log"))
    assert "error: learner: KeyError: 'missing', in boom.py:6, step()" in ended.err.decode()
    assert f"it is in {log}" in ended.err.decode()
    assert 'return {}["missing"]' in log.read_text()


CRASHING_ENV = """
import sys
import gymnasium as gym

class Mine(gym.Wrapper):
    def __init__(self, role, **kwargs):
        super().__init__(gym.make("CartPole-v1", **kwargs))
        self.left = 20 if sys.argv[1] == role else 10**9

    def step(self, action):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("100% broken")
        return super().step(action)

gym.register("Mine-v0", Mine)
"""


def crashing_in(role: str, vectorization: str) -> list[str]:
    return [
        *("mine:Mine-v0", *SMALL, "--set", f"env.kwargs.role={role}"),
        *("--set", f"env.vectorization={vectorization}", "--set", "eval.period=20"),
        *("--set", "eval.gate_episodes=20", "--set", "eval.num_envs=2"),
    ]


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize(("role", "named"), [("actor", "actor-0"), ("learn", "evaluator")])
def test_a_crash_of_the_users_environment_leaves_its_traceback(
    tmp_path: Path, role: str, named: str, vectorization: str
) -> None:
    (tmp_path / "mine.py").write_text(CRASHING_ENV)
    words = crashing_in(role, vectorization)
    ended = finished(tmp_path, "run", *words, "--num-actors", "1", error=UserCodeError)
    log = next(tmp_path.glob(f"runs/*/{named}.log"))
    first, second = lines_of_error(ended)[-2:]
    assert "RuntimeError: 100% broken, in mine.py:13, step()" in first and named in first
    assert str(log) in second
    result = RunFolder(log.parent).read_result()
    assert result["stopped"] == "failed" and result["failure"] in first
    (listed,) = json.loads(finished(tmp_path, "ls", "--json").out)["runs"]
    assert listed["ended"] == "failed"
    count = log.read_text().count('raise RuntimeError("100% broken")')
    # Of an actor: three restarts and the end.
    assert count >= (4 if role == "actor" else 1), log.read_text()


@pytest.mark.parametrize("count", ["1", "2"])
def test_by_hand_standard_error_has_the_traceback(tmp_path: Path, count: str) -> None:
    (tmp_path / "mine.py").write_text(CRASHING_ENV)
    words = crashing_in("actor", "sync")
    with server(tmp_path) as address, command(tmp_path, "learn", *words, "--server", address):
        play = [*PROGRAM, "actor", *words, "--server", address, "--num-actors", count]
        ended = subprocess.run(play, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == UserCodeError.exit_code, ended.stderr
    assert ended.stderr.count('raise RuntimeError("100% broken")') >= 4
    errors = [line for line in ended.stderr.splitlines() if "error: " in line]
    assert len(errors) == 1 and "in mine.py:13, step()" in errors[0]


def test_the_examples_of_the_documentation_run(tmp_path: Path) -> None:
    code = [
        re.findall(r"```python\n(.*?)```", (DOCS / f"{topic}.md").read_text("utf-8"), re.DOTALL)
        for topic in ("environments", "algorithms")
    ]
    env, net = (next(one for one in found if "class My" in one) for found in code)
    (tmp_path / "my_module.py").write_text(env + net, encoding="utf-8")
    ended = finished(
        tmp_path, "run", "my_module:MyEnv-v0", "--serial", "--json",
        "--set", "net.name=my_module:MyNet", "--set", "replay.min_size=200",
        "--max-env-steps", "2000",
    )  # fmt: skip
    result = ended.last_json()
    assert result["env_steps"] >= 2000 and result["learner_steps"] > 0
    assert 0.0 <= result["eval_return_mean"] <= 1.0


TRAINING = """
import sys
import gymnasium as gym
import drlnet

gym.register("Mine-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=100)
drlnet.train("exp:Mine-v0", max_learner_steps=20, serial=sys.argv[1] == "serial")
"""


@pytest.mark.parametrize("how", ["serial", "processes"])
def test_a_module_that_trains_as_it_is_imported_is_refused(tmp_path: Path, how: str) -> None:
    (tmp_path / "exp.py").write_text(TRAINING)
    program = [sys.executable, "exp.py", how]
    ended = subprocess.run(
        program, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert "ConfigError: train() was called while exp is imported" in ended.stderr
    assert 'put it under `if __name__ == "__main__"`' in ended.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (
            CRASHING_ENV.replace('raise RuntimeError("100% broken")', "sys.exit()"),
            "error: SystemExit, in mine.py:13, step()",
        ),
        (
            "import sys\n\nsys.exit()\n",
            "mine:Mine-v0: module mine cannot be imported: SystemExit, in mine.py:3",
        ),
    ],
    ids=["as it steps", "as it is imported"],
)
def test_an_exit_of_the_users_code_is_an_error(tmp_path: Path, code: str, cause: str) -> None:
    (tmp_path / "mine.py").write_text(code)
    words = [*crashing_in("run", "sync"), "--serial", "--max-learner-steps", "20"]
    ended = subprocess.run(
        [*PROGRAM, "run", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == UserCodeError.exit_code, ended.stderr
    assert cause in ended.stderr


PRINTING_ENV = """
import os
import gymnasium as gym

class Mine(gym.Wrapper):
    def __init__(self, **kwargs):
        super().__init__(gym.make("CartPole-v1", **kwargs))

    def step(self, action):
        print("{", end="", flush=True)
        os.write(1, b"{")  # as C does
        return super().step(action)

gym.register("Mine-v0", Mine)
"""


@pytest.mark.parametrize("how", [["--serial"], ["--num-actors", "1"]], ids=["serial", "processes"])
def test_json_stands_apart_from_what_the_users_code_prints(tmp_path: Path, how: list[str]) -> None:
    (tmp_path / "mine.py").write_text(PRINTING_ENV)
    words = ["mine:Mine-v0", *SMALL, "--set", "env.vectorization=sync", *how]
    ended = finished(tmp_path, "run", *words, "--max-learner-steps", "20", "--json")
    assert ended.last_json()["learner_steps"] >= 20
