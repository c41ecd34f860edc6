"""Sweeps: the grid, the table's arithmetic, and real runs."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from system.command import SMALL, all_ended, command, descendants, finished

from drlnet.cli.sweep import _new_folder
from drlnet.errors import ConfigError, RoleFailed, RunFolderError, UnknownKey
from drlnet.launch.signals import Stop
from drlnet.launch.sweep import Planned, Summary, Sweep, grid, interquartile_mean, values_of
from drlnet.metrics import RunFolder


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1", ["1"]),
        ("1, 3,5", ["1", "3", "5"]),
        ("[16,16],[32]", ["[16,16]", "[32]"]),
        ('{ groups = 5, scale = 1 },"a,b"', ["{ groups = 5, scale = 1 }", '"a,b"']),
    ],
)
def test_commas_in_brackets_and_quotes_do_not_separate(text: str, values: list[str]) -> None:
    assert values_of(text) == values


def test_keys_with_several_values_span_a_grid() -> None:
    settings, common = grid(["a.x=1,2", "a.y=7", "b.z=[1,2],[3]"])
    assert settings == [
        ("a.x=1", "b.z=[1,2]"),
        ("a.x=1", "b.z=[3]"),
        ("a.x=2", "b.z=[1,2]"),
        ("a.x=2", "b.z=[3]"),
    ]
    assert common == ["a.y=7"]
    assert grid([]) == ([()], [])
    for wrong in ("a.x", "a.x=1,", "=3"):
        with pytest.raises(ConfigError, match="expected KEY=VALUE"):
            grid([wrong])
    for again in ("a.x=5,7", "a.x=5"):
        with pytest.raises(ConfigError, match=r"several values of a\.x already"):
            grid(["a.x=1,3", again])
    for seeds in ("run.seed=7", "run.seed=1,2"):
        with pytest.raises(ConfigError, match="counts the seeds itself"):
            grid([seeds])


def test_the_interquartile_mean_leaves_a_quarter_out_on_each_side() -> None:
    assert interquartile_mean([5.0]) == 5.0
    assert interquartile_mean([1.0, 2.0, 6.0]) == 3.0
    assert interquartile_mean([100.0, 2.0, 4.0, -50.0]) == 3.0
    assert interquartile_mean([9.0, 1.0, 2.0, 3.0, -9.0]) == 2.0


def result(mean: float, steps: int, stopped: str) -> dict[str, Any]:
    return {
        "eval_return_mean": mean, "env_steps": steps, "stopped": stopped, "wall_clock_s": 2.0,
    }  # fmt: skip


def made(sweep: Sweep, *stopped: str) -> None:
    """Its first runs, as if they had ended so."""
    for run, how in zip(sweep.plan, stopped, strict=False):
        folder = RunFolder.create(sweep._config(run))
        folder.write_result(json.dumps(result(9.0, 5, how)))


@pytest.mark.parametrize("incomplete", ["interrupted", "failed"])
def test_a_run_without_its_end_is_made_again(tmp_path: Path, incomplete: str) -> None:
    sweep = Sweep(tmp_path, ["Env"], [()], 2)
    made(sweep, incomplete, "goal")
    with sweep.open() as left:
        assert left == sweep.plan[:1]


def test_a_result_of_other_settings_is_not_taken_over(tmp_path: Path) -> None:
    """Names of folders have a key's last word alone; of a file with settings the name is known."""
    file = tmp_path / "own.toml"
    file.write_text("[algo]\nn_step = 3\n")
    arguments = ["Env", "--config", str(file), "--set", "run.goal=7"]
    first = [(f"actor.torch_threads={count}",) for count in (1, 2)]
    made(Sweep(tmp_path / "s", arguments, first, 1), "goal", "goal")
    more = Sweep(tmp_path / "s", arguments, first, 2)
    with more.open() as left:
        assert left == more.plan[2:]
    other = Sweep(tmp_path / "s", arguments, [("learner.torch_threads=2",)], 1)
    with pytest.raises(ConfigError, match=r"(actor|learner)\.torch_threads = "), other.open():
        pass
    file.write_text("[algo]\nn_step = 5\n")
    with pytest.raises(ConfigError, match=r"algo\.n_step = 3, which is 5"), more.open():
        pass


def test_one_sweep_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ["Env"], [()], 1)
    with sweep.open():
        second = Sweep(tmp_path, ["Env"], [()], 1)
        with pytest.raises(RunFolderError, match="a sweep goes on in"), second.open():
            pass
    with sweep.open():
        pass


def test_the_folder_of_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ["Env"], [()], 1)
    (run,) = sweep.plan
    told: list[Planned] = []
    going_on = RunFolder.create(sweep._config(run)).going_on(server=None)
    with going_on, sweep.open() as left, Stop() as stop:
        sweep.run(stop, left, 1, told.append)
    assert told == [run] and "still running" in sweep.failures[run.path]
    assert RunFolder(run.path).config_path.is_file()


def test_default_folders_of_one_second_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len({_new_folder("a/B-v0") for _ in range(20)}) == 20
    assert len(list((tmp_path / "runs").iterdir())) == 20


def test_seeds_count_up_from_the_first(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ["Env"], [()], 2, first_seed=7)
    own = [sweep.command(run)[-3:-1] for run in sweep.plan]  # over all that comes before
    assert own == [["--set", "run.seed=7"], ["--set", "run.seed=8"]]
    assert [run.path.name for run in sweep.plan] == ["seed=7", "seed=8"]


def test_a_summary_is_over_the_seeds_of_one_setting(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, ["Env"], [("a.n=1",), ("a.n=2",)], 3)
    (one0, two0, one1, two1, one2, _) = (run.path for run in sweep.plan)
    sweep.results = {
        one0: result(10.0, 100, "goal"),
        one1: result(40.0, 300, "goal"),
        one2: result(12.0, 900, "budget"),
        two0: result(7.0, 900, "budget"),
    }
    sweep.failures = {two1: "it died"}
    median_one = 12.0
    assert sweep.summaries() == [
        Summary("n=1", 3, 0, 2, median_one, 62 / 3, 200.0, 2.0),
        Summary("n=2", 1, 1, 0, 7.0, 7.0, None, 2.0),
    ]
    assert [run.get("error") for run in sweep.to_dict(interrupted=False)["runs"]] == [
        None, None, None, "it died", None,
    ]  # fmt: skip


def sweep_args(folder: Path, *more: str) -> list[str]:
    return [
        *("sweep", "CartPole-v1", "--serial", "--seeds", "2", "--json", "--out", str(folder)),
        *("--max-learner-steps", "60", *SMALL[:-4], *more),
        *("--set", "eval.period=30"),
    ]


@pytest.mark.slow
def test_two_settings_by_two_seeds_run_once(tmp_path: Path) -> None:
    args = sweep_args(tmp_path / "s", "--jobs", "2", "--set", "algo.n_step=1,3")
    ended = finished(tmp_path, *args, deadline_s=120)
    said = ended.last_json()
    assert said == json.loads((tmp_path / "s" / "sweep.json").read_text())
    assert [one["setting"] for one in said["settings"]] == ["n_step=1", "n_step=3"]
    assert all(one["runs"] == 2 and one["failed"] == 0 for one in said["settings"])
    assert {(run["setting"], run["seed"]) for run in said["runs"]} == {
        (setting, seed) for setting in ("n_step=1", "n_step=3") for seed in (0, 1)
    }
    for run in said["runs"]:
        assert run["learner_steps"] == 60
        assert Path(run["run_dir"]).parent == tmp_path / "s"
    assert (tmp_path / "s" / "learning.svg").is_file(), ended.text()

    shutil.rmtree(tmp_path / "s" / "n_step=3-seed=1")  # the same again makes what is missing
    again = finished(tmp_path, *args, deadline_s=120)
    assert "3 of 4 runs have results already" in again.err.decode()
    without_clock = [
        [{**run, "wall_clock_s": 0} for run in one["runs"]] for one in (again.last_json(), said)
    ]
    assert without_clock[0] == without_clock[1]

    other = finished(tmp_path, *args, "--goal", "400", error=ConfigError)
    assert "holds another sweep" in other.last_json()["error"]["cause"]


@pytest.mark.slow
def test_a_run_that_fails_is_listed_and_the_others_go_on(tmp_path: Path) -> None:
    # The second environment refuses what its constructor does not know.
    args = sweep_args(tmp_path / "s", "--jobs", "2", "--set", "env.kwargs={},{ nothing = 1 }")
    ended = finished(tmp_path, *args, deadline_s=120, error=RoleFailed)
    runs = ended.last_json()["runs"]
    assert [("error" in run, run["seed"]) for run in runs] == [
        (False, 0), (True, 0), (False, 1), (True, 1),
    ]  # fmt: skip


def test_a_setting_that_no_run_takes_is_refused_at_once(tmp_path: Path) -> None:
    args = sweep_args(tmp_path / "s", "--set", "algo.n_stepp=1,3")
    ended = finished(tmp_path, *args, error=UnknownKey)
    assert "algo.n_stepp" in ended.last_json()["error"]["cause"]
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_ctrl_c_ends_all_and_keeps_what_there_is(tmp_path: Path) -> None:
    args = sweep_args(tmp_path / "s", "--jobs", "2", "--set", "run.max_learner_steps=60,1000000")
    args.remove("--max-learner-steps")
    args.remove("60")
    with command(tmp_path, *args) as running:
        running.wait_for("max_learner_steps=60, seed 0: greedy return")
        below = list(descendants(running.popen.pid))
        assert running.end(signal.SIGINT) == 128 + signal.SIGINT, running.text()
    assert all_ended(below)
    said = running.last_json()
    assert said["interrupted"] and len(said["runs"]) >= 1
    assert "interrupted: the table has the runs that ended" in running.err.decode()
