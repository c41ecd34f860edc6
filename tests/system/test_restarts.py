"""A run whose learner is killed: it goes on from the learner's state, and says so."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

from system.command import SMALL, Command, all_ended, command, descendants, finished, learned_since
from system.sshd import free_port

from drlnet import errors
from drlnet.metrics import RunFolder

ENV = "CartPole-v1"


def run(folder: Path, *more: str) -> tuple[str, ...]:
    own = ("--set", f"run.folder={folder / 'run'}", "--set", "learner.save_period_s=0.3")
    return ("run", ENV, *SMALL, *own, *more)


def pid_of(role: str, running: Command) -> int:
    """The leader of its session: an evaluator is forked from its learner."""
    found = descendants(running.popen.pid)
    return next(
        pid for pid, line in found.items() if role in line.split("\0") and os.getsid(pid) == pid
    )


def kill_the(role: str, running: Command) -> dict[int, str]:
    """Kills it; the run's processes from before."""
    found = descendants(running.popen.pid)
    os.kill(pid_of(role, running), signal.SIGKILL)
    return found


def test_a_killed_server_goes_on_from_its_state(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    more = ("--keep-replay", "--set", "server.durability=0.1", "--max-learner-steps", "5000")
    with command(tmp_path, *run(tmp_path, *more, "--json")) as running:
        running.wait_for("learner_steps [1-9]", deadline_s=120)
        pids = kill_the("serve", running)
        running.wait_for("server restarts 1", deadline_s=120)
        learned_since(running, folder, time.time())
        assert running.end(deadline_s=180) == 0, running.text()
        result = running.last_json()
        assert (result["server_restarts"], result["stopped"]) == (1, "budget")
        assert (result["learner_restarts"], result["actor_restarts"]) == (0, 0)
        assert result["failures"] == ["server was killed by SIGKILL"]
        assert all_ended([*pids])
    state = finished(tmp_path, "state", "ls", str(folder.replay_path), "--json").last_json()
    assert state["starts"] == 2 and state["damage"] == []
    assert state["tables"][0]["env_steps"] >= result["env_steps"]


def stopped(process: int, running: Command, seconds: float) -> None:
    """Reads on, and lets the process go on after so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        running.read(0.2)
    os.kill(process, signal.SIGCONT)


def test_a_kept_run_outlives_a_long_silence_of_its_server(tmp_path: Path) -> None:
    """Longer than the 10 s that a call has otherwise: a restart on a busy machine takes as long."""
    folder = RunFolder(tmp_path / "run")
    with command(tmp_path, *run(tmp_path, "--keep-replay", "--json")) as running:
        # While it starts: nothing has a session yet.
        while not folder.live_path.is_file():
            running.read(0.02)
        server = pid_of("serve", running)
        os.kill(server, signal.SIGSTOP)
        log = folder.path / "learner.log"
        while not (log.is_file() and "yet; it has 60 s to start" in log.read_text()):
            running.read(0.2)
        stopped(server, running, 12)
        running.wait_for("learner_steps [1-9]", deadline_s=120)
        os.kill(server, signal.SIGSTOP)
        stopped(server, running, 12)
        learned_since(running, folder, time.time())
        assert running.end(signal.SIGINT, deadline_s=120) == 130, running.text()
        assert running.last_json()["failures"] == []


def test_a_killed_server_without_a_state_ends_the_run(tmp_path: Path) -> None:
    with command(tmp_path, *run(tmp_path)) as running:
        running.wait_for("learner_steps [1-9]", deadline_s=120)
        pids = kill_the("serve", running)
        assert running.end() == errors.RoleFailed.exit_code, running.text()
        assert "server was killed by SIGKILL" in running.err.decode()
        assert "--keep-replay" in running.err.decode().splitlines()[-1]
        assert all_ended([*pids])


def test_a_killed_learner_goes_on_from_its_state(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with command(tmp_path, *run(tmp_path, "--json")) as running:
        line = running.wait_for("learner_steps [1-9][0-9]{2}|learner_steps [1-9],", deadline_s=120)
        before = int(re.findall(r"learner_steps ([\d,]+)", line)[0].replace(",", ""))
        while not folder.learner_path.is_file():
            running.read(0.1)
        pids = kill_the("learn", running)
        running.wait_for(r"learner restarts 1", deadline_s=120)
        learned_since(running, folder, time.time(), before)
        assert running.end(signal.SIGTERM, deadline_s=120) == 143, running.text()
        result = running.last_json()
        assert (result["learner_restarts"], result["stopped"]) == (1, "interrupted")
        assert result["failures"] == ["learner was killed by SIGKILL"]
        assert result["learner_steps"] > before
        assert "1 failure, after which the run went on" in running.text()
        assert all_ended([*pids])
    # The server has counted on, and nothing twice.
    steps = [one["env_steps"] for one in folder.readings() if one.get("role") == "learner"]
    assert steps == sorted(steps)
    counted = folder.last_reading("server")["table.replay.env_steps"]
    assert result["env_steps"] <= counted


def test_a_learner_killed_in_the_last_evaluation_has_reached_the_goal(tmp_path: Path) -> None:
    goal = ["run.goal=8", "eval.period=20", "eval.gate_episodes=2"]
    long = ["eval.num_envs=2", "eval.report_episodes=4000", "replay.samples_per_insert=8"]
    words = [word for one in goal + long for word in ("--set", one)]
    log = tmp_path / "run" / "learner.log"
    with command(tmp_path, *run(tmp_path, *words, "--json")) as running:
        while not (log.is_file() and '"trained"' in log.read_text()):
            assert running.popen.poll() is None, running.text()
            running.read(0.1)
        kill_the("learn", running)
        assert running.end(deadline_s=120) == 0, running.text()
        result = running.last_json()
        assert (result["learner_restarts"], result["stopped"]) == (1, "goal")


def test_a_learner_that_is_killed_too_often_ends_the_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    more = ("--set", "run.learner_restarts=1", "--json")
    with command(tmp_path, *run(tmp_path, *more)) as running:
        running.wait_for("learner_steps [1-9]", deadline_s=120)
        kill_the("learn", running)
        running.wait_for("learner restarts 1", deadline_s=120)
        pids = kill_the("learn", running)
        assert running.end(deadline_s=120) == errors.RoleFailed.exit_code, running.text()
        killed = "learner was killed by SIGKILL"
        assert killed in running.last_json()["error"]["cause"]
        assert f"1 failure, after which the run went on:\n  {killed}\n" in running.err.decode()
        assert all_ended([*pids])
    result = json.loads(folder.result_path.read_text())
    assert (result["stopped"], result["learner_restarts"]) == ("failed", 1)
    assert result["failures"] == [killed] and killed in result["failure"]


def test_an_evaluator_that_is_killed_does_not_end_the_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with command(tmp_path, *run(tmp_path, "--json")) as running:
        running.wait_for("learner_steps [1-9]", deadline_s=120)
        (evaluator,) = descendants(pid_of("learn", running))
        before = folder.last_reading("learner")["learner_steps"]
        os.kill(evaluator, signal.SIGKILL)
        running.wait_for("learner restarts 1", deadline_s=120)
        learned_since(running, folder, time.time())
        assert len(descendants(pid_of("learn", running))) == 1
        assert running.end(signal.SIGTERM, deadline_s=120) == 143, running.text()
        result = running.last_json()
        assert result["failures"] == ["learner: evaluator was killed by SIGKILL"]
        assert result["learner_restarts"] == 1 and result["learner_steps"] >= before
        assert all_ended([evaluator])


def test_what_is_printed_does_the_run(tmp_path: Path) -> None:
    printed = finished(tmp_path, *run(tmp_path, "--max-learner-steps", "300", "--print"))
    assert not (tmp_path / "run").exists()  # nothing was started
    table, script = printed.err.decode(), printed.out.decode()
    assert table.startswith("role ") and "server " in table and "actor " in table
    drlnet = shlex.join(["drlnet"])
    assert f"\n{drlnet} learn {ENV} --server $server" in script
    (tmp_path / "run.sh").write_text(script.replace("7447", str(free_port())))
    ended = subprocess.run(
        ["sh", "run.sh"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert '"eval_return_mean"' in ended.stdout
    assert RunFolder(tmp_path / "run").checkpoint_path.is_file()
