"""Trials in processes of their own: how they can end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from drlnet.doctor import Probes
from drlnet.doctor.probe import TrialFailed
from drlnet.doctor.trials import run_trial
from drlnet.errors import NotInstalled


def probes(script: str, deadline_s: float = 30.0) -> Probes:
    """One trial, "it", whose process runs this."""
    return Probes(["it"], program=[sys.executable, "-c", script], deadline_s=deadline_s)


def test_the_last_line_is_the_answer_and_may_be_asked_for_twice() -> None:
    with probes("""print("noise"); print('{"version": "1"}')""") as started:
        assert started.answer("it") == {"version": "1"}
        assert started.answer("it") == {"version": "1"}


def test_its_own_error_is_passed_on() -> None:
    script = """print('{"error": {"cause": "no DPDK", "remedy": "install it"}}'); exit(4)"""
    with probes(script) as started:
        for _ in range(2):
            with pytest.raises(TrialFailed) as raised:
                started.answer("it")
            assert (raised.value.cause, raised.value.remedy) == ("no DPDK", "install it")


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("import os; os.kill(os.getpid(), 4)", "killed by SIGILL"),
        ("import sys; sys.exit('no such thing')", "exit code 1: no such thing"),
        ("print('not json')", "exit code 0"),
        ("print('[1]')", "exit code 0"),
    ],
)
def test_an_end_without_an_answer_says_how_it_ended(script: str, cause: str) -> None:
    with probes(script) as started, pytest.raises(TrialFailed, match=cause):
        started.answer("it")


def test_one_that_hangs_is_killed() -> None:
    began = time.monotonic()
    with probes("import time; time.sleep(600)", deadline_s=0.5) as started:
        with pytest.raises(TrialFailed, match=r"no answer within 0\.5 s"):
            started.answer("it")
        assert time.monotonic() - began < 30
    with probes("import time; time.sleep(600)"):
        pass  # and so is one that was not asked
    assert time.monotonic() - began < 30


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    started = Probes(["it"], program=[str(tmp_path / "absent")])
    with started, pytest.raises(TrialFailed, match="cannot start a process"):
        started.answer("it")
    (tmp_path / "closed").touch(0o600)
    started = Probes(["it"], program=[str(tmp_path / "closed")])
    with started, pytest.raises(TrialFailed, match=r"cannot start .*/closed: Permission"):
        started.answer("it")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(
        NotInstalled, match=r"gymnasium is not installed\npip install .*gymnasium>="
    ):
        run_trial("gymnasium")


def test_a_package_that_is_broken_counts_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    assert "cannot be imported" in run_trial("torch")["error"]["cause"]


def test_a_gpu_that_takes_no_step_leaves_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    takes = torch.nn.Linear.to

    def to(net: torch.nn.Linear, device: str) -> torch.nn.Linear:
        if device == "cuda":
            raise RuntimeError("CUDA out of memory.\nTry again.")
        return takes(net, device)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.nn.Linear, "to", to)
    answer = run_trial("torch")
    assert (answer["cuda"], answer["cuda_error"]) == (None, "CUDA out of memory.")
    assert answer["version"] == torch.__version__


def test_a_package_that_lacks_what_is_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium.vector

    monkeypatch.delattr(gymnasium.vector, "AutoresetMode")  # as in gymnasium 1.0
    assert "cannot import name 'AutoresetMode'" in run_trial("gymnasium")["error"]["cause"]


def test_a_package_that_does_not_work_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import gymnasium

    def make(name: str) -> None:
        raise RuntimeError("first\nsecond")

    monkeypatch.setattr(gymnasium, "make", make)
    assert run_trial("gymnasium")["error"]["cause"] == "does not work: RuntimeError: first"


def test_a_server_over_udp_answers() -> None:
    assert "udp" in run_trial("udp")["transports"]
