"""drlnet.train as the command does it, and a loaded run's policy as evaluations play it."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from installed import require
from levers import LEVERS

import drlnet
from drlnet.algos import make_algorithm
from drlnet.cli.main import app
from drlnet.config import load
from drlnet.envs import find_spaces, make_envs
from drlnet.errors import ConfigError, RunFolderError, UnknownKey
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder
from drlnet.nets.params import load as load_params
from drlnet.nets.params import pack, save
from drlnet.roles.serial import serial

ROOT = Path(__file__).resolve().parents[1]
SHORT = {"run.max_learner_steps": 60, "replay.min_size": 300, "actor.envs_per_actor": 8}
QUICK = {**SHORT, "eval.report_episodes": 10, "eval.gate_episodes": 10, "eval.num_envs": 10}


def trained(folder: Path, env: str = "CartPole-v1", **settings: Any) -> drlnet.LoadedRun:
    given = {**QUICK, "run.folder": str(folder), **settings}
    return drlnet.load_run(drlnet.train(env, given, seed=3, serial=True, quiet=True).run_dir)


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> drlnet.LoadedRun:
    return trained(tmp_path_factory.mktemp("api") / "run")


def test_importing_drlnet_imports_no_torch() -> None:
    code = (
        "import sys, drlnet; drlnet.train, drlnet.load_run, drlnet.Client;"
        "assert 'torch' not in sys.modules and 'gymnasium' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/")


def test_a_source_folder_that_hides_the_installed_package_says_so(tmp_path: Path) -> None:
    clone, installed = tmp_path / "clone", tmp_path / "installed" / "drlnet"
    sources = Path(drlnet.__file__).parent
    for path in sources.rglob("*.py"):
        copy = clone / "drlnet" / path.relative_to(sources)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)

    def imported() -> str:
        """What importing says; -S: without what this test itself runs on."""
        paths = {"PYTHONPATH": f"{clone}:{installed.parent}"}
        program = [sys.executable, "-S", "-c", "import drlnet.native"]
        ended = subprocess.run(
            program, cwd=tmp_path, env=paths, capture_output=True, text=True, check=False
        )
        return ended.stderr

    assert "is not built for this Python" in imported()
    installed.mkdir(parents=True)
    (installed / f"_native{EXTENSION_SUFFIXES[0]}").touch()
    said = imported()
    assert (
        f"the folder {clone / 'drlnet'} hides the drlnet that is installed in {installed}" in said
    )
    assert "pip install -e ." in said


def test_it_trains_bit_by_bit_as_the_serial_role_does(
    cartpole: drlnet.LoadedRun, tmp_path: Path
) -> None:
    flags = {"run.seed": 3, "run.serial": True, "run.folder": str(tmp_path / "role")}
    config = load("CartPole-v1", flags=flags, sets=QUICK)
    folder = RunFolder.create(config)
    serial(config, folder, Stop())
    checkpoints = [folder.checkpoint_path, cartpole.path / "checkpoint.safetensors"]
    assert checkpoints[0].read_bytes() == checkpoints[1].read_bytes()


def test_the_result_is_what_the_folder_keeps(cartpole: drlnet.LoadedRun) -> None:
    result = cartpole.result
    assert result is not None and (result.env, result.seed) == ("CartPole-v1", 3)
    assert result.stopped == "budget" and result.learner_steps == 60
    assert 0 < result.wall_clock_s < 100 and result.run_dir == str(cartpole.path)
    assert f"greedy return {result.eval_return_mean:.1f}" in repr(cartpole)


def test_its_keywords_are_the_flags_of_the_command() -> None:
    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    flags = {one.opts[0].removeprefix("--").replace("-", "_") for one in command.params}
    ours = set(inspect.signature(drlnet.train).parameters) - {"env", "settings", "quiet"}
    not_ours = {
        "resume",
        "eal",
        "key",
        "set",
        "pictures",
        "print",
        "json",
        "debug",
        "help_config",
        "env",
    }
    assert ours == flags - not_ours


def test_settings_are_the_dotted_keys_of_the_command(cartpole: drlnet.LoadedRun) -> None:
    assert cartpole.settings["replay.min_size"] == 300 and cartpole.settings["run.serial"] is True
    again = load("CartPole-v1", sets=cartpole.settings)
    assert again == cartpole.config
    with pytest.raises(UnknownKey, match=r"algo\.n_stp") as info:
        drlnet.train("CartPole-v1", {"algo.n_stp": 5})
    assert "algo.n_step" in info.value.remedy
    assert load("CartPole-v1", sets={"run.goal": None}).run.goal is None


def test_curves_are_the_readings(cartpole: drlnet.LoadedRun) -> None:
    curves = cartpole.curves
    assert {"seconds", "env_steps", "learner_steps", "eval_return", "loss"} <= set(curves)
    assert {curve.dtype for curve in curves.values()} == {np.dtype(np.float64)}
    assert len({len(curve) for curve in curves.values()}) == 1
    assert curves["learner_steps"][-1] == 60 and curves["seconds"][-1] > 0


def test_a_policy_plays_one_or_a_batch_of_raw_observations(cartpole: drlnet.LoadedRun) -> None:
    policy, rng = cartpole.policy, np.random.default_rng(0)
    batch = rng.normal(scale=3, size=(50, 4))
    actions = policy(batch)
    assert actions.shape == (50,) and set(actions.tolist()) <= {0, 1}
    assert [int(policy(obs)) for obs in batch] == actions.tolist()
    assert policy(batch.tolist()).tolist() == actions.tolist()
    assert "obs=4 actions=2" in repr(policy)


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 2, 4)), 1.0, {"a": 1}, "text"])
def test_other_observations_are_refused(cartpole: drlnet.LoadedRun, wrong: Any) -> None:
    with pytest.raises(ConfigError, match="observations do not fit CartPole-v1") as info:
        cartpole.policy(wrong)
    assert "\n" not in info.value.cause


def untrained(folder: Path, env: str, **settings: Any) -> drlnet.LoadedRun:
    """A run whose checkpoint has a network's initial params, grown so that its actions differ."""
    config = load(env, flags={"run.folder": str(folder)}, sets=settings)
    run = RunFolder.create(config)
    algorithm = make_algorithm(config, find_spaces(config.env))
    params = {name: 4 * value for name, value in algorithm.learner("cpu", 5).params().items()}
    save(run.checkpoint_path, pack(params, algorithm.architecture))
    return drlnet.load_run(folder)


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {}),
        ("CartPole-v1", {"net.frame_stack": 3}),
        ("CartPole-v1", {"algo.name": "pqn"}),
        ("CartPole-v1", {"algo.name": "vtrace", "net.frame_stack": 2}),
        ("drlnet/CartPolePositions-v1", {"algo.name": "r2d2"}),
        (LEVERS, {"net.frame_stack": 2}),
        ("ALE/Pong-v5", {}),
    ],
)
def test_the_loop_of_the_documentation_plays_as_an_evaluation_does(
    tmp_path: Path, env: str, settings: dict[str, Any]
) -> None:
    if env.startswith("ALE/"):
        require("ale_py")
    run = untrained(tmp_path / "run", env, **settings)
    envs, spaces = make_envs(run.config.env, 1, training=False)
    algorithm = make_algorithm(run.config, spaces)
    player = algorithm.greedy(1)
    player.load(load_params(run.path / "checkpoint.safetensors", algorithm.architecture))
    single, policy, steps = run.make_env(), run.policy, 0
    rows = envs.reset(5)
    for seed in (5, None):  # two episodes, or 40 steps
        obs, info = single.reset(seed=seed)
        policy.reset()
        reward, ended = 0.0, False
        while not ended and steps < 40:
            action = policy(obs, reward, action_mask=info.get("action_mask"))
            expected = player.act(rows)
            np.testing.assert_array_equal(action, spaces.own_actions(expected)[0])
            obs, reward, terminated, truncated, info = single.step(action)
            ended, steps = terminated or truncated, steps + 1
            _, rows = envs.step(expected)
        if ended:
            assert rows.last[0]
            _, rows = envs.step(expected)
    single.close()
    envs.close()
    assert steps > 5


def test_other_numbers_of_episodes_are_refused(cartpole: drlnet.LoadedRun) -> None:
    policy = cartpole.policy
    policy.reset()
    policy.reset(np.array([True, False]))  # before a first call all begin
    policy(np.zeros((5, 4)), np.zeros(5))
    with pytest.raises(ConfigError, match="5 observations came with 3 rewards"):
        policy(np.zeros((5, 4)), np.zeros(3))
    with pytest.raises(ConfigError, match=r"reset\(\) of 2, where the episodes of 5 go on"):
        policy.reset([True, False])


def test_the_settings_of_a_run_that_was_resumed_train_a_new_one(
    cartpole: drlnet.LoadedRun, tmp_path: Path
) -> None:
    path = shutil.copytree(cartpole.path, tmp_path / "run")
    own = {"run.folder": str(path), "run.resume": True}
    RunFolder.reopen(load("CartPole-v1", sets={**cartpole.settings, **own}))
    again = {**drlnet.load_run(path).settings, "run.folder": str(tmp_path / "new")}
    assert again["run.resume"]
    assert drlnet.train("CartPole-v1", again, quiet=True).learner_steps == 60
    assert not drlnet.load_run(tmp_path / "new").config.run.resume


def test_what_cannot_be_learned_by_several_is_refused_early(tmp_path: Path) -> None:
    settings = {"learner.processes": 2, "run.folder": str(tmp_path / "run")}
    threads = torch.get_num_threads()
    with pytest.raises(ConfigError, match="no gradients to average"):
        drlnet.train("FrozenLake-v1", settings, algo="tabular")
    assert not (tmp_path / "run").exists() and torch.get_num_threads() == threads


def test_a_policy_with_a_memory_plays_episodes(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run", "drlnet/CartPolePositions-v1", **{"algo.name": "r2d2"})
    policy, rng = run.policy, np.random.default_rng(0)
    episode, rewards = rng.normal(size=(30, 5, 2)), rng.normal(scale=9, size=(30, 5))

    def played(rewards: Any, ended_at: int | None = None) -> list[Any]:
        policy.reset()
        taken = []
        for step, obs in enumerate(episode):
            if step == ended_at:
                policy.reset([True, False, False, False, False])
            taken.append(policy(obs, rewards[step]))
        return np.array(taken).T.tolist()  # by environment

    once, cut = played(rewards), played(rewards, ended_at=10)
    assert once == played(rewards)
    assert once != played(0 * rewards) and once[0] != cut[0] and once[1:] == cut[1:]
    with pytest.raises(ConfigError, match="'r2d2' reads rewards") as info:
        policy(episode[0])
    assert "policy(obs, reward)" in info.value.remedy
    with pytest.raises(ConfigError, match="1 observations, where the episodes of 5 go on"):
        policy(episode[0, 0], 1.0)
    policy.reset()
    assert policy(episode[0, 0]) in (0, 1)  # a first one has no reward


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"config\.toml is missing"):
        drlnet.load_run(tmp_path)


def test_other_threads_are_refused() -> None:
    found: list[Exception] = []

    def call() -> None:
        try:
            drlnet.train("CartPole-v1")
        except ConfigError as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "main" in str(found[0])


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Stop):
        def __enter__(self) -> Stop:
            entered = super().__enter__()
            signal.raise_signal(signal.SIGINT)
            return entered

    monkeypatch.setattr("drlnet.launch.signals.Stop", Stopped)


@pytest.mark.usefixtures("interrupted")
def test_a_training_without_an_end_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        drlnet.train("MountainCar-v0", {"run.folder": str(tmp_path / "run")})
    line = "MountainCar-v0 has neither goal nor budget here: Ctrl-C ends it, or give run.goal or"
    assert line in capsys.readouterr().err


@pytest.mark.usefixtures("interrupted")
def test_interrupted_before_there_is_anything(tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "run")
    assert signal.getsignal(signal.SIGINT) is handler


def run_example(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    package = Path(drlnet.__file__).parents[1]
    code = f"import sys; sys.path.append({str(package)!r})\n{code}"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def examples(page: str = "drlnet/docs/python.md") -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    code = examples("README.md")[0].replace("seed=1", "max_env_steps=1500, serial=True")
    ended = run_example(code + "print(policy([0.0, 0.0, 0.0, 0.0]))", tmp_path)
    assert ended.stdout.splitlines()[-1] in ("0", "1"), ended.stderr


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    ended = run_example(examples()[0], tmp_path)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("return ") and lines[1].startswith("5 ")
    assert re.fullmatch(r"\[[01] [01] [01]\]", lines[-1])


def test_the_optuna_example_says_what_train_takes() -> None:
    code = examples()[1]
    assert len([line for line in code.splitlines() if line]) <= 12
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    (call,) = [node for node in calls if ast.unparse(node.func) == "drlnet.train"]
    given = {word.arg: word.value for word in call.keywords if word.arg}
    inspect.signature(drlnet.train).bind(*call.args, **given)
    keys = re.findall(r'"(\w+\.\w+)":', code)
    load("CartPole-v1", sets=dict.fromkeys(keys, 1))


@pytest.mark.slow
def test_the_optuna_example_finds_settings(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    code = (
        examples()[1]
        .replace("n_trials=20", "n_trials=2")
        .replace("max_seconds=60", "max_env_steps=1500, serial=True")
    )
    ended = run_example(f"{code}\nprint(len(study.trials), study.best_value > 5)", tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "2 True"


@pytest.mark.slow
def test_processes_of_its_own(tmp_path: Path) -> None:
    code = """
import drlnet
settings = {"run.max_learner_steps": 100, "replay.min_size": 300, "eval.report_episodes": 20}
result = drlnet.train("CartPole-v1", {**settings, "eval.num_envs": 20}, seed=2, num_actors=1)
print(result.stopped, result.learner_steps, drlnet.load_run(result.run_dir).config.actor.num_actors)
"""
    ended = run_example(code, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "budget 100 1\n"
    assert "starting the learner and actors" in ended.stderr
