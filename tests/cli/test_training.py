"""What `learn` shows of its server."""

from __future__ import annotations

import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from system.command import DEADLINE_S, serving

from drlnet.cli import training
from drlnet.cli.output import Output
from drlnet.cli.run import run_processes
from drlnet.cli.training import announce, keep_result, learn_view, note_no_end, result_of
from drlnet.client import Client
from drlnet.config import load
from drlnet.dashboard import ProgressView
from drlnet.errors import RoleFailed, RunFolderError
from drlnet.launch.local import LocalRun
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder
from drlnet.roles.evaluate import Evaluation


def test_a_view_of_a_server_that_never_answers_ends_when_it_is_told_to(tmp_path: Path) -> None:
    folder = RunFolder.create(load("CartPole-v1", flags={"run.folder": str(tmp_path / "run")}))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        mute.settimeout(30)
        address = f"udp://127.0.0.1:{mute.getsockname()[1]}"
        with learn_view(folder, address, Output(as_json=False)):
            mute.recv(4096)  # it has asked
            begun = time.monotonic()
        assert time.monotonic() - begun < 3


@pytest.mark.slow
def test_a_view_goes_on_after_a_silence_of_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, shown = threading.Semaphore(0), threading.Semaphore(0)

    def client(*args: Any, **more: Any) -> Client:
        begun.release()
        return Client(*args, **more)

    monkeypatch.setattr("drlnet.client.Client", client)
    monkeypatch.setattr(ProgressView, "show", lambda *_: shown.release())
    monkeypatch.setattr(training, "_ANSWER_DEADLINE_S", 0.5)
    folder = RunFolder.create(load("CartPole-v1", flags={"run.folder": str(tmp_path / "run")}))
    with (
        serving(tmp_path) as (started, address),
        learn_view(folder, address, Output(as_json=False)),
    ):
        assert shown.acquire(timeout=DEADLINE_S)
        started.popen.send_signal(signal.SIGSTOP)
        while begun.acquire(blocking=False):
            pass
        assert begun.acquire(timeout=DEADLINE_S), "no other session was begun"
        while shown.acquire(blocking=False):
            pass
        started.popen.send_signal(signal.SIGCONT)
        assert shown.acquire(timeout=DEADLINE_S)


@pytest.mark.parametrize("end", ["", "goal", "max_seconds", "max_env_steps", "max_learner_steps"])
def test_a_run_without_an_end_says_so_in_one_line(
    end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {f"run.{end}": 100_000} if end else {}
    note_no_end(load("MountainCar-v0", flags=flags), Output(as_json=False))
    said = capsys.readouterr().out
    assert said.count("\n") == (not end) and ("neither goal nor budget" in said) == (not end)


@pytest.mark.parametrize(("learner_steps", "told"), [(0, True), (7, False)])
def test_a_budget_that_ended_before_any_learning_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, learner_steps: int, told: bool
) -> None:
    config = load("CartPole-v1", sets=["run.max_seconds=1"])
    played, made_by = Evaluation([9.0], 0, 1), {"learner_steps": learner_steps}
    announce(result_of(config, RunFolder(tmp_path), played, made_by, "budget"), Output(False))
    said = "nothing was learned: the budget ended before the first learner step"
    assert (said in capsys.readouterr().out) is told


def test_a_result_is_kept_where_the_learners_state_is_not(tmp_path: Path) -> None:
    config, full = load("CartPole-v1"), RunFolderError("cannot write learner.safetensors", "")
    result = result_of(config, RunFolder(tmp_path), Evaluation([9.0], 0, 1), {}, "budget")
    with pytest.raises(RunFolderError) as caught:
        keep_result(RunFolder(tmp_path), result, full)
    assert caught.value is full
    assert RunFolder(tmp_path).read_result()["eval_return_mean"] == 9.0
    with pytest.raises(RunFolderError) as caught:  # the first one, where that has no room either
        keep_result(RunFolder(tmp_path / "absent"), result, full)
    assert caught.value is full


def test_a_run_that_goes_on_has_its_result_until_there_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load("CartPole-v1", flags={"run.folder": str(tmp_path / "run"), "run.resume": True})
    begun = RunFolder.create(config)
    begun.learner_path.touch()
    begun.write_result('{"stopped": "budget"}')
    folder = RunFolder.reopen(config)
    assert not folder.read_result()
    monkeypatch.setattr(LocalRun, "run", lambda _: {})  # interrupted before there is anything
    with Stop() as stop:
        run_processes(config, folder, stop, Output(as_json=False))
    assert folder.read_result() == {"stopped": "budget"}


@pytest.mark.parametrize("steps", [7, 8])
def test_a_run_that_goes_on_in_vain_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    flags = {"run.folder": str(tmp_path / "run"), "run.resume": True}
    begun = RunFolder.create(load("CartPole-v1", flags=flags))
    begun.learner_path.touch()
    begun.record({"role": "learner", "learner_steps": 7})
    begun.write_result('{"stopped": "budget"}')
    kept = (begun.config_path, begun.facts_path, begun.result_path)
    before = [path.read_bytes() for path in kept]
    mistaken = load("CartPole-v1", flags={**flags, "server.metrics": "127.0.0.1:1"})
    folder = RunFolder.reopen(mistaken)

    def fail(_: LocalRun) -> dict[str, Any]:
        folder.record({"role": "learner", "learner_steps": steps})
        raise RoleFailed("the server failed", "correct it")

    monkeypatch.setattr(LocalRun, "run", fail)
    with Stop() as stop, pytest.raises(RoleFailed):
        run_processes(mistaken, folder, stop, Output(as_json=False))
    assert ([path.read_bytes() for path in kept] == before) is (steps == 7)
    assert folder.read_result()["stopped"] == ("budget" if steps == 7 else "failed")
