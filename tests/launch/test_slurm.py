"""A run is followed through Slurm's own commands, here stand-ins that say what a test wants."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drlnet.cli.launch import run_job
from drlnet.cli.output import Output
from drlnet.cli.which import run_named
from drlnet.config import load
from drlnet.errors import RoleFailed, RunFolderError
from drlnet.launch.engines import slurm
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run for Slurm, whose squeue tells of a job that waits, fails, and tells of none."""
    waits = "case $(wc -c < asked) in 1) echo PENDING;; 2|3) echo timed out >&2; exit 1;; esac"
    squeue = f"printf . >> asked; {waits}"
    stubs = {"sbatch": "echo 77", "scancel": "touch cancelled", "squeue": squeue}
    for name, does in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\ncd {tmp_path}\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "_LOOK_S", 0.0)
    return RunFolder.create(load("CartPole-v1", sets={"run.folder": str(tmp_path / "run")}))


def test_a_squeue_that_fails_for_a_while_is_asked_again(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RoleFailed, match="ended without a result"):
        run_job("", run, Stop(), Output(True))
    assert capsys.readouterr().err.count("squeue does not answer: timed out") == 1
    # The run begins with its learner, however long the job waited.
    assert (run.path / "run.sbatch").exists() and not run.facts_path.exists()
    with pytest.raises(RunFolderError, match="has not begun: its job waits"):
        run_named(str(run.path))


def test_a_squeue_that_fails_for_long_ends_the_prompt_alone(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "_BEAR_S", 0.0)
    with pytest.raises(RoleFailed, match="squeue does not answer") as raised:
        run_job("", run, Stop(), Output(True))
    assert raised.value.remedy == "the job goes on: scancel 77"
    assert (run.path / "run.sbatch").exists() and not (run.path.parent / "cancelled").exists()


def test_a_job_that_is_cancelled_while_it_waits_leaves_no_folder(run: RunFolder) -> None:
    with Stop() as stop:
        stop.set()
        run_job("", run, stop, Output(True))
    assert (run.path.parent / "cancelled").exists() and not run.path.exists()


def test_what_a_terminal_signals_does_not_reach_the_commands_of_slurm(run: RunFolder) -> None:
    (run.path.parent / "squeue").write_text("#!/bin/sh\ncut -d' ' -f6 /proc/$$/stat\n")
    assert slurm._states("77") != [str(os.getsid(0))]
