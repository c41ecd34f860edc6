"""A user's own algorithm, network and wrapper: files in the folder where the command is run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from system.command import finished

from drlnet.errors import RoleFailed

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
    assert ended.popen.returncode == 0, ended.text()
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
    assert ended.popen.returncode == 0, ended.text()
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
    ],
)
def test_what_is_not_there_is_named_before_anything_starts(
    folder: Path, words: list[str], cause: str
) -> None:
    ended = finished(folder, "run", "CartPole-v1", *words)
    assert ended.popen.returncode in (3, 19), ended.text()
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
    ended = finished(tmp_path, "run", "CartPole-v1", "--algo", "boom:Boom")
    assert ended.popen.returncode == RoleFailed.exit_code, ended.text()
    log = next(tmp_path.glob("runs/*/learner.log"))
    assert "error: learner: KeyError: 'missing', in boom.py:6" in ended.err.decode()
    assert f"it is in {log}" in ended.err.decode()
    assert 'return {}["missing"]' in log.read_text()
