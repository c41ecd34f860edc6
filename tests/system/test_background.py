"""A run in the background: `ls`, `watch`, `stats RUN`, and what the newest run is."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from system.command import SMALL, command, finished

from drlnet import errors

ENV = "CartPole-v1"


def test_a_run_is_listed_watched_and_found(tmp_path: Path) -> None:
    none = finished(tmp_path, "ls")
    assert "no runs in" in none.text()
    finished(tmp_path, "watch", error=errors.RunFolderError)
    with command(tmp_path, "run", ENV, "--seed", "3", "--json", *SMALL) as run:
        run.wait_for("learner_steps [1-9]")
        (folder,) = (tmp_path / "runs").iterdir()
        name = f"runs/{folder.name}"

        assert "running" in finished(tmp_path, "ls").text()
        reading = finished(tmp_path, "stats", name, "--json").last_json()
        assert any(key.startswith("client.learner") for key in reading)
        again = finished(tmp_path, "learn", "--resume", name, error=errors.RunFolderError)
        assert "is still running" in again.text() and f"drlnet watch {folder}" in again.text()

        with command(tmp_path, "watch") as watching, command(tmp_path, "watch", name) as other:
            watching.wait_for("training .*learner_steps [1-9]")
            other.wait_for("training .*learner_steps [1-9]")
            assert other.end(signal.SIGINT) == 130, other.text()
            assert run.end(signal.SIGINT) == 130, run.text()
            assert watching.end() == 0, watching.text()
            assert "(interrupted" in watching.text()
    assert not (folder / "live.json").exists()

    (listed,) = finished(tmp_path, "ls", "--json").last_json()["runs"]
    assert (listed["env"], listed["algo"], listed["seed"]) == (ENV, "dqn", 3)
    assert (listed["ended"], listed["path"]) == ("interrupted", str(folder))
    assert listed["learner_steps"] > 0 and listed["seconds"] > 0

    ended = finished(tmp_path, "stats", name, error=errors.RunFolderError)
    assert f"try: see what it recorded: drlnet plot {name}" in ended.text()
    finished(tmp_path, "plot")
    played = finished(tmp_path, "eval", "--episodes", "2", "--json")
    assert f"the newest run: {name}" in played.text().replace(f"{tmp_path}/", "")
    assert tmp_path / played.last_json()["run_dir"] == folder
    over = finished(tmp_path, "watch", name)
    assert "(interrupted" in over.text()


def test_a_killed_run_has_no_result(tmp_path: Path) -> None:
    with command(tmp_path, "run", ENV, *SMALL) as run:
        run.wait_for("learner_steps [1-9]")
        run.end(signal.SIGKILL)
    (folder,) = (tmp_path / "runs").iterdir()
    (listed,) = finished(tmp_path, "ls", "--json").last_json()["runs"]
    assert listed["ended"] == "no result"
    ended = finished(tmp_path, "watch", f"runs/{folder.name}", error=errors.RunFolderError)
    assert "has ended without a result" in ended.text()
    (folder / "config.toml").write_text("[replay\n")
    assert "unreadable" in finished(tmp_path, "ls").text()


def test_a_serial_run_goes_on_without_a_server(tmp_path: Path) -> None:
    with command(tmp_path, "run", ENV, "--serial", "--max-env-steps", "10000000", *SMALL) as run:
        run.wait_for("training")
        (folder,) = (tmp_path / "runs").iterdir()
        while not (folder / "live.json").exists():
            run.read(1.0)
            assert run.popen.poll() is None, run.text()
        assert json.loads((folder / "live.json").read_text())["server"] is None
        ended = finished(tmp_path, "stats", f"runs/{folder.name}", error=errors.RunFolderError)
        assert "is a serial run" in ended.text()
        run.end(signal.SIGINT)
