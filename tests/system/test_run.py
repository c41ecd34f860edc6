"""`drlnet run`, and every way in which it can end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from installed import require
from system.command import (
    PROGRAM,
    SMALL,
    Command,
    all_ended,
    command,
    descendants,
    finished,
    lines_of_error,
)

from drlnet import errors
from drlnet.metrics import RunFolder

ENV = "CartPole-v1"
KEYS = {
    *("env", "seed", "eval_return_mean", "eval_return_std", "eval_episodes", "wall_clock_s"),
    *("env_steps", "learner_steps", "run_dir"),
}


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("run")
    ended = finished(
        folder, "run", ENV, "--json", "--max-learner-steps", "100", "--num-actors", "2", *SMALL
    )
    return {**ended.last_json(), "stderr": ended.err.decode()}


@pytest.mark.fast  # one whole run in the loop of every day
def test_run_ends_with_a_result(small_run: dict[str, Any]) -> None:
    assert small_run.keys() >= KEYS
    assert small_run["env"] == ENV
    assert small_run["eval_episodes"] == 20
    assert small_run["learner_steps"] >= 100
    assert small_run["env_steps"] > 0
    assert 0 < small_run["wall_clock_s"] < 120


def test_run_folder_is_complete(small_run: dict[str, Any]) -> None:
    folder = Path(small_run["run_dir"])
    names = {path.name for path in folder.iterdir()}
    assert {"config.toml", "facts.json", "metrics.jsonl", "checkpoint.safetensors"} <= names
    assert (folder / "metrics.jsonl").read_text().strip()


def test_eval_plays_the_checkpoint(small_run: dict[str, Any], tmp_path: Path) -> None:
    first = finished(tmp_path, "eval", small_run["run_dir"], "--json")
    assert first.last_json().keys() >= KEYS
    assert first.last_json()["eval_return_mean"] == small_run["eval_return_mean"]
    plain = finished(tmp_path, "eval", small_run["run_dir"], "--episodes", "4")
    assert "over 4 episodes" in plain.out.decode()


def test_eval_of_another_architecture(small_run: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "other"
    shutil.copytree(small_run["run_dir"], folder)
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("hidden_sizes = [16]", "hidden_sizes = [17]"))
    ended = finished(tmp_path, "eval", str(folder), error=errors.CheckpointMismatch)
    assert len(lines_of_error(ended)) == 2
    (folder / "checkpoint.safetensors").write_bytes(b"not a checkpoint")
    ended = finished(tmp_path, "eval", str(folder), error=errors.CheckpointMismatch)


def test_eval_films_an_episode(small_run: dict[str, Any], tmp_path: Path) -> None:
    ended = finished(
        tmp_path, "eval", small_run["run_dir"], "--video", "film.avi", error=errors.ConfigError
    )
    assert len(lines_of_error(ended)) == 2
    require("pygame")
    ended = finished(
        tmp_path, "eval", small_run["run_dir"], "--episodes", "2", "--video", "film.gif"
    )
    assert "film.gif" in ended.err.decode() + ended.out.decode()
    assert (tmp_path / "film.gif").read_bytes().startswith(b"GIF89a")


def test_eval_of_no_run(tmp_path: Path) -> None:
    finished(tmp_path, "eval", str(tmp_path / "absent"), error=errors.RunFolderError)


@pytest.mark.parametrize("role", ["run", "learn", "actor"])
def test_unknown_environment_suggests(tmp_path: Path, role: str) -> None:
    ended = finished(tmp_path, role, "CartPole-v7", error=errors.UnknownEnvironment)
    assert "CartPole-v1" in ended.err.decode()
    assert len(lines_of_error(ended)) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("role", ["run", "learn", "actor"])
def test_a_vector_form_that_there_is_not_is_said_first(tmp_path: Path, role: str) -> None:
    own = ("--set", "env.vectorization=vector_entry_point")
    ended = finished(tmp_path, role, "Acrobot-v1", *own, error=errors.ConfigError)
    assert "error: environment Acrobot-v1 cannot be made" in ended.err.decode()
    assert not list(tmp_path.iterdir())


def test_help_config_shows_what_a_run_would_take_and_from_where(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[replay]\nbatch_size = 64\n")
    ended = finished(
        tmp_path, "run", ENV, "--help-config", "--config", "mine.toml", "--seed=3", "--set",
        "env.kwargs.size=5",
    )  # fmt: skip
    shown = {line.split()[0]: line for line in ended.out.decode().splitlines() if line.strip()}
    for key, value, origin in [
        ("run.goal", "495.0", "recipe"),
        ("replay.batch_size", "64", "file"),
        ("run.seed", "3", "flag"),
        ("env.vectorization", '"vector_entry_point"', "recipe"),  # whole: this is a pipe
        ("env.kwargs", '{ "size" = 5 }', "--set"),
        ("replay.sampler", '"prioritized"', "default"),
    ]:
        assert re.match(rf"{re.escape(key)} +{re.escape(value)} +{origin} ", shown[key]), shown[key]
    assert "cartpole-v1.toml" in shown["The"]
    ended = finished(tmp_path, "run", "--help-config", "--json")  # a table all the same
    assert "Without ENV there is no recipe" in ended.out.decode()


def test_unknown_key_suggests(tmp_path: Path) -> None:
    ended = finished(tmp_path, "run", ENV, "--set", "replay.capacty=5", error=errors.UnknownKey)
    assert "replay.capacity" in ended.err.decode()
    assert not list(tmp_path.iterdir())


def test_a_folder_for_pictures_that_cannot_be_written_is_said_first(tmp_path: Path) -> None:
    ended = finished(tmp_path, "run", ENV, "--pictures", "/proc/none", error=errors.ConfigError)
    assert "choose another folder with --pictures" in ended.err.decode()
    assert not list(tmp_path.iterdir())


def test_settings_that_can_deadlock(tmp_path: Path) -> None:
    limiter = ("--set", "replay.samples_per_insert=8", "--set", "replay.error_buffer=1")
    finished(tmp_path, "run", ENV, *limiter, error=errors.Deadlock)


@pytest.mark.exhaustive
def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    words = (ENV, "--server", "udp://127.0.0.1:9", *SMALL)
    with command(tmp_path, "learn", *words) as learn, command(tmp_path, "actor", *words) as actor:
        for waiting in (learn, actor):  # each for its deadline, side by side
            assert waiting.end() == errors.TransportError.exit_code, waiting.text()
            assert "udp://127.0.0.1:9" in waiting.err.decode()
    assert not list(tmp_path.glob("runs/*"))


def started(tmp_path: Path, *args: str) -> Any:
    return command(tmp_path, "run", ENV, *SMALL, *args)


def below(run: Command, count: int) -> dict[int, str]:
    """The processes of a run, once it is training."""
    run.wait_for("learner_steps [1-9]")
    found = descendants(run.popen.pid)
    assert len(found) >= count, found
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_survives_a_run(tmp_path: Path, number: int) -> None:
    with started(tmp_path) as run:
        pids = list(below(run, 4))
        code = run.end(number)
        assert code == (-number if number == signal.SIGKILL else 128 + number), run.text()
        assert all_ended(pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_during_start_up(tmp_path: Path, number: int) -> None:
    with started(tmp_path) as run:
        run.wait_for("starting")
        pids = list(descendants(run.popen.pid))
        assert run.end(number) == 128 + number, run.text()
        assert all_ended(pids)


def kill_an_actor(run: Command) -> dict[int, str]:
    """Kills one; the run's processes from before."""
    pids = below(run, 4)
    actor = next(pid for pid, line in pids.items() if "actor" in line.split("\0"))
    os.kill(actor, signal.SIGKILL)
    return pids


def test_a_killed_actor_starts_again(tmp_path: Path) -> None:
    with started(tmp_path, "--num-actors", "2", "--json") as run:
        before = kill_an_actor(run)
        run.wait_for("actor restarts 1")
        now = descendants(run.popen.pid)
        assert sum("actor" in line.split("\0") for line in now.values()) == 2
        assert run.end(signal.SIGINT) == 128 + signal.SIGINT, run.text()
        result = run.last_json()
        assert (result["stopped"], result["actor_restarts"]) == ("interrupted", 1)
        assert all_ended([*before, *now])


def test_actors_that_are_killed_too_often_end_the_run(tmp_path: Path) -> None:
    with started(tmp_path, "--set", "run.actor_restarts=0") as run:
        pids = kill_an_actor(run)
        assert run.end() == errors.RoleFailed.exit_code, run.text()
        assert "actor-" in run.err.decode()
        assert "SIGKILL" in run.err.decode()
        assert all_ended(list(pids))


def test_serial_is_reproducible(tmp_path: Path) -> None:
    results = []
    for name in ("a", "b"):
        folder = ("--set", f"run.folder={tmp_path / name}")
        ended = finished(
            tmp_path, "run", ENV, "--serial", "--seed", "5", "--max-env-steps", "3000", "--json",
            *SMALL, *folder,
        )  # fmt: skip
        results.append(ended.last_json())
    for volatile in ("wall_clock_s", "run_dir"):
        for result in results:
            del result[volatile]
    assert results[0] == results[1]
    checkpoints = [(tmp_path / name / "checkpoint.safetensors").read_bytes() for name in "ab"]
    assert checkpoints[0] == checkpoints[1]


def test_no_run_waits_for_torchs_compiler(tmp_path: Path) -> None:
    python, *program = PROGRAM
    ended = subprocess.run(
        [python, "-X", "importtime", *program, "run", ENV, "--serial", "--max-learner-steps", "1",
         *SMALL],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "torch.optim" in imported
    assert not {"torch._dynamo", "sympy"} & imported


def test_ctrl_c_during_the_evaluation_keeps_the_checkpoint(tmp_path: Path) -> None:
    with command(
        tmp_path, "run", ENV, "--serial", "--max-env-steps", "1000", *SMALL,
        "--set", "eval.report_episodes=100000",
    ) as run:  # fmt: skip
        run.wait_for("evaluating")
        assert run.end(signal.SIGINT) == 130, run.text()
        assert "the checkpoint is in" in run.out.decode()
    assert list(tmp_path.glob("runs/*/checkpoint.safetensors"))


def test_ctrl_c_tells_and_keeps_what_was_best(tmp_path: Path) -> None:
    with started(tmp_path, "--set", "eval.period=50") as run:
        run.wait_for(r"greedy \d")
        assert run.end(signal.SIGINT) == 130, run.text()
    said = run.out.decode()
    folder = next(tmp_path.glob("runs/*"))
    result = json.loads((folder / "result.json").read_text())
    assert result["stopped"] == "interrupted" and result["eval_return_std"] is None
    assert result["eval_episodes"] == 20 and result["eval_learner_steps"] >= 50
    best, step = result["eval_return_mean"], result["eval_learner_steps"]
    assert f"best greedy return {best:.1f} over 20 episodes, at learner step {step:,}" in said
    assert f"drlnet eval {folder.relative_to(tmp_path)}  # plays it" in said
    assert finished(tmp_path, "eval", str(folder), "--json").last_json()["env"] == ENV


def test_a_good_run_says_what_may_come_next(tmp_path: Path) -> None:
    ended = finished(tmp_path, "run", ENV, *SMALL, "--max-learner-steps", "20")
    folder = next(tmp_path.glob("runs/*")).relative_to(tmp_path)
    *_, plot, play, sweep = ended.out.decode().splitlines()
    assert plot.startswith(f"  drlnet plot {folder}  # ")
    assert play.startswith(f"  drlnet eval {folder}  # ")
    assert sweep.startswith(f"  drlnet sweep {ENV} --seeds 5  # ")


@pytest.mark.parametrize(("hidden", "unwritten"), [("[16]", "records"), ("[64, 64]", "checkpoint")])
def test_a_disk_that_is_full_costs_what_it_would_hold_and_no_result(
    tmp_path: Path, hidden: str, unwritten: str
) -> None:
    args = ["run", "CartPole-v1", "--json", "--max-learner-steps", "100", *SMALL]
    args += ["--set", f"net.hidden_sizes={hidden}"]
    with command(tmp_path, *args, within=["prlimit", "--fsize=8192"]) as running:
        assert running.end() == errors.RunFolderError.exit_code, running.text()
    result, error = map(json.loads, running.out.decode().splitlines()[-2:])
    assert result["eval_episodes"] == 20 and result["learner_steps"] >= 100
    folder = Path(result["run_dir"])
    said = error["error"]["cause"]
    assert "cannot write" in said and str(folder) in said and "File too large" in said
    assert ("checkpoint.safetensors" in said) == (unwritten == "checkpoint")
    assert (folder / "checkpoint.safetensors").exists() == (unwritten == "records")
    assert not list(folder.glob("*.part"))
    assert lines_of_error(running)[-2:] == [f"error: {said}", "  try: make room or check rights"]


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("args", [["--version"], ["run", "No-Such-v0", "--json"]])
def test_an_output_that_takes_nothing_ends_in_a_line(
    monkeypatch: pytest.MonkeyPatch, args: list[str], unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [*PROGRAM, *args], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    told = errors.ConfigError if args == ["--version"] else errors.UnknownEnvironment
    assert ended.returncode == told.exit_code
    assert [line[:7] for line in ended.stderr.splitlines()] == ["error: ", "  try: "]


LONG = """
import time
import gymnasium as gym
import numpy as np

class Long(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        time.sleep(0.001)  # its work
        return np.zeros(2, np.float32), 1.0, False, False, {}

gym.register("Long-v0", Long, max_episode_steps=100_000)
"""


def test_a_budget_in_seconds_and_a_report_that_is_bounded_too(tmp_path: Path) -> None:
    (tmp_path / "long_of_a_test.py").write_text(LONG)
    begun = time.monotonic()
    ended = finished(
        tmp_path, "run", "long_of_a_test:Long-v0", "--json", *SMALL, "--max-seconds", "12",
        "--set", "run.max_seconds=12", "--set", "eval.max_report_seconds=2",
        "--set", "replay.samples_per_insert=4",
    )  # fmt: skip
    took_s = time.monotonic() - begun
    result = ended.last_json()
    assert result["stopped"] == "budget" and result["learner_steps"] > 0
    assert result["eval_episodes"] == 0 and result["eval_return_mean"] is None
    assert "over 0 of 20 planned (eval.max_report_seconds) episodes" in ended.err.decode()
    assert took_s < 12 + 2 + 8  # and some to end its processes, on a busy machine


@pytest.mark.parametrize("server", ["server.shards=2", "server.index_only=true"])
def test_a_run_whose_rows_travel_once(tmp_path: Path, server: str) -> None:
    ended = finished(
        tmp_path,
        *("run", ENV, "--json", "--max-learner-steps", "300", "--num-actors", "2", *SMALL),
        *("--set", "replay.rows=learner", "--set", server, "--set", "run.record=all"),
    )
    readings = RunFolder(Path(ended.last_json()["run_dir"])).readings()
    last = {key: value for reading in readings for key, value in reading.items()}
    mirrored = {key: value for key, value in last.items() if "mirror." in key}
    assert mirrored, sorted(last)
    rows = next(value for key, value in mirrored.items() if key.endswith("mirror.rows"))
    drawn = next(value for key, value in mirrored.items() if key.endswith("mirror.drawn"))
    assert rows > 0
    assert drawn >= 300
