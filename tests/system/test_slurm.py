"""The script for Slurm, in a cluster of three nodes on this machine."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest
from system.command import SMALL, command, finished, lines_of_error
from system.slurm import slurm

from drlnet import errors
from drlnet.metrics import RunFolder

ENV = "CartPole-v1"


def serving(folder: Path) -> list[str]:
    """The servers that run in that folder, in their words."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            words = (process / "cmdline").read_text().split("\0")
            if "serve" in words and (process / "cwd").readlink() == folder:
                found.append(" ".join(words))
    return found


@pytest.mark.exhaustive
def test_a_job_that_is_queued_again_goes_on(tmp_path: Path) -> None:
    with slurm(tmp_path / "slurm") as cluster:
        folder = RunFolder(tmp_path / "run")
        printed = finished(
            tmp_path, "launch", ENV, "--on", "slurm", "--print", *SMALL, "--num-actors", "2",
            "--max-learner-steps", "12000", "--set", "learner.save_period_s=0.3",
            "--set", f"run.folder={folder.path}",
        )  # fmt: skip
        script = tmp_path / "run.sbatch"
        script.write_bytes(printed.out)
        job = cluster.run("sbatch", "--parsable", str(script), within=tmp_path).strip()

        def learns() -> bool:
            newest = folder.last_reading("learner") if folder.learner_path.is_file() else {}
            return bool(newest.get("learner_steps", 0) > 500)

        cluster.wait_for("a learner's state", learns, 180)
        assert folder.last_reading("learner")["learner_steps"] < 12_000
        cluster.run("scontrol", "requeue", job)
        cluster.wait_for("the job's end", lambda: cluster.states() == {"PENDING"}, 120)
        for part in (f"{job}+0", f"{job}+1"):  # else it begins two minutes later
            cluster.run("scontrol", "update", f"JobId={part}", "StartTime=now")
        assert len(serving(tmp_path)) <= 1
        cluster.wait_for("the run's end", lambda: not cluster.states(), 300)
        cluster.wait_for("the server's end", lambda: not serving(tmp_path), 30)
        log = next(tmp_path.glob("drlnet-*.log")).read_text()
        result = folder.read_result()
        assert (result["stopped"], result["learner_steps"]) == ("budget", 12_000), log
        steps = [one["learner_steps"] for one in folder.readings() if one.get("role") == "learner"]
        assert steps == sorted(steps)  # it did not begin anew
        assert log.count("joining the run at") >= 4  # both actors, twice


@pytest.mark.exhaustive
def test_a_job_is_submitted_followed_and_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slurm(tmp_path / "slurm") as cluster:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, cluster.environment[name])
        launch = ("launch", ENV, "--on", "slurm", *SMALL, "--json", "--insecure")
        refused = finished(
            tmp_path, *launch, "--slurm-args", "--partition=nowhere", error=errors.ConfigError
        )
        cause, remedy = lines_of_error(refused)[-2:]
        assert "partition" in cause and "sinfo" in remedy
        assert not list((tmp_path / "runs").iterdir())

        ended = finished(tmp_path, *launch, "--max-learner-steps", "300", deadline_s=240)
        assert ended.last_json()["learner_steps"] == 300
        assert "joining the run at" in ended.text()  # what the job says comes to the prompt

        with command(tmp_path, *launch) as running:
            running.wait_for("joining the run at", deadline_s=240)
            assert running.end(signal.SIGINT, deadline_s=120) == 130, running.text()
        cluster.wait_for("no job", lambda: not cluster.states(), 60)
