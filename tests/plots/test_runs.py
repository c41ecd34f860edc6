"""Plots of runs: which are seeds of one setting, what labels say, what cannot be drawn."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from drlnet.cli.main import app
from drlnet.config import load
from drlnet.errors import RunFolderError
from drlnet.metrics import RunFolder
from drlnet.plots import Figure
from drlnet.plots.band import median
from drlnet.plots.latency import latency
from drlnet.plots.learning import learning
from drlnet.plots.runs import Run, grouped, read_run
from drlnet.plots.throughput import throughput

HISTOGRAM = {"count": 4, "buckets": [[10.0, 2], [100.0, 1], [1000.0, 1]]}


def made(path: Path, *sets: str, seed: int = 0, env: str = "CartPole-v1", looks: int = 4) -> Path:
    """A run's folder with that many looks at the goal, a reading of learner and server at each."""
    flags = {"run.folder": str(path), "run.seed": seed}
    folder = RunFolder.create(load(env, flags=flags, sets=["eval.period=10", *sets]))
    started = read_started(folder)
    for look in range(1, looks + 1):
        learner = {
            "role": "learner",
            "learner_steps": 10 * look + 1,
            "env_steps": 100 * look,
            "eval_return": 20.0 * look + seed,
            "eval_learner_steps": 10 * look,
        }
        server = {
            "role": "server",
            "table.replay.env_steps": 100 * look,
            "client.learner.learner_steps": 10 * look + 1,
            "transport.udp.bytes_sent": 5000 * look,
            "transport.udp.bytes_received": 1000 * look,
        }
        folder.record(learner, started + look)
        folder.record(learner, started + look + 0.5)  # the same look, told again
        folder.record(server, started + look)
    latencies = {"transport.udp.append.latency": HISTOGRAM, "server.append.latency": HISTOGRAM}
    folder.latency_path.write_text(json.dumps(latencies))
    return path


def read_started(folder: RunFolder) -> float:
    facts = json.loads(folder.facts_path.read_text())
    return datetime.fromisoformat(facts["started"]).timestamp()


def runs(tmp_path: Path, *sets: tuple[str, ...]) -> list[Run]:
    return [read_run(made(tmp_path / str(i), *each)) for i, each in enumerate(sets)]


def words_of(figure: Figure) -> set[str]:
    return {part.text for part in ElementTree.fromstring(figure.svg()).iter() if part.text}


def test_seeds_are_one_group_and_labels_say_what_differs(tmp_path: Path) -> None:
    read = [
        read_run(made(tmp_path / "a", seed=1)),
        read_run(made(tmp_path / "b", "run.sinks=[]", "run.resume=true", seed=2)),
        read_run(made(tmp_path / "c", "replay.sampler=uniform")),
    ]
    found = grouped(read)
    assert found == {"sampler prioritized": read[:2], "sampler uniform": read[2:]}
    assert list(grouped(read[:2])) == [""]


def test_another_environment_is_one_difference(tmp_path: Path) -> None:
    read = [read_run(made(tmp_path / "a")), read_run(made(tmp_path / "b", env="Acrobot-v1"))]
    assert list(grouped(read)) == ["CartPole-v1", "Acrobot-v1"]


def test_many_differences_keep_labels_apart(tmp_path: Path) -> None:
    sets = ["algo.n_step=1", "algo.gamma=0.5", "algo.double=false", "algo.dueling=false"]
    read = runs(tmp_path, (), tuple(sets), (*sets[:3], "algo.target_period=7"))
    labels = list(grouped(read))
    assert len(labels) == 3
    assert labels[0] == "n_step 10, gamma 0.99, double True, 2 more"
    # Nor are those of equal names left out, as a sweep's are.
    for period in (8, 9, 11, 12):
        path = made(tmp_path / f"sweep-{period}" / "seed=0", *sets, f"algo.target_period={period}")
        read.append(read_run(path))
    assert sum(map(len, grouped(read).values())) == len(read)


def test_learning_has_a_point_for_each_look(tmp_path: Path) -> None:
    run = read_run(made(tmp_path / "a", "run.goal=70"))
    words = words_of(learning([run]))
    assert {"goal 70", "seconds", "environment steps"} <= words
    assert not any("seeds" in word for word in words)
    assert "environment steps" not in words_of(learning([run], "seconds"))


def test_learning_of_seeds_is_a_median_and_a_band(tmp_path: Path) -> None:
    from drlnet.plots.learning import _curve

    read = [read_run(made(tmp_path / str(seed), seed=seed, looks=2 + seed)) for seed in (0, 1, 2)]
    x, returns = _curve(read[2], "steps")
    assert x.tolist() == [100, 200, 300, 400]
    assert returns.tolist() == [22, 42, 62, 82]
    middle = median([_curve(run, "steps") for run in read], after_end="last")
    assert middle.low is not None
    assert middle.high is not None
    assert (middle.x[0], middle.x[-1]) == (100, 400)
    assert (middle.low[-1], middle.y[-1], middle.high[-1]) == (40, 61, 82)  # the last are kept
    assert "3 seeds" in words_of(learning(read))


def test_learning_over_frames_and_minutes(tmp_path: Path) -> None:
    from drlnet.plots.learning import _curve

    pong = read_run(made(tmp_path / "a", env="ALE/Pong-v5"))
    assert _curve(pong, "frames")[0].tolist() == [400, 800, 1200, 1600]  # frame_skip 4
    assert _curve(pong, "minutes")[0].tolist() == pytest.approx([1 / 60, 2 / 60, 3 / 60, 4 / 60])
    assert {"frames", "over frames"} <= words_of(learning([pong], "frames"))
    assert {"minutes", "over minutes"} <= words_of(learning([pong], "minutes"))
    cartpole = read_run(made(tmp_path / "b"))
    assert _curve(cartpole, "frames")[0].tolist() == _curve(cartpole, "steps")[0].tolist()


def test_latency_has_a_panel_for_each_operation(tmp_path: Path) -> None:
    words = words_of(latency(runs(tmp_path, (), ("server.transport=dpdk:local",))))
    assert {"append", "transport udp", "transport dpdk:local, udp"} <= words
    assert "sample" not in words


def test_throughput_is_what_counters_grew_by(tmp_path: Path) -> None:
    from drlnet.plots.throughput import _rate

    (run,) = runs(tmp_path, ())
    patterns = ("transport.<transport>.bytes_sent", "transport.<transport>.bytes_received")
    seconds, rates = _rate(run, patterns)
    assert list(seconds) == pytest.approx([2, 3, 4])
    assert list(rates) == pytest.approx([6000] * 3)
    assert "learner steps per second" in words_of(throughput([run]))

    # What a run records as it ends, some milliseconds after a reading, is no rate.
    last = {**run.server[-1], "time": run.server[-1]["time"] + 0.004}
    last["transport.udp.bytes_sent"] += 900
    at_end = replace(run, server=[*run.server, last])
    assert list(_rate(at_end, patterns)[1]) == pytest.approx([6000] * 3)
    again = [{**each, "time": each["time"] + 4.5} for each in run.server]  # it went on
    both = replace(run, server=[*at_end.server, *again])
    assert max(_rate(both, patterns)[1]) == pytest.approx(6000)


def test_learner_steps_are_the_learner_s_own(tmp_path: Path) -> None:
    """The server has the reports of its other processes, too, and of one that it has replaced."""
    from drlnet.plots.throughput import _PANELS, _rate

    (run,) = runs(tmp_path, ())
    more = {"client.learner-1.learner_steps": 500, "client.learner~2.learner_steps": 900}
    server = [*run.server[:2], *({**each, **more} for each in run.server[2:])]
    _, rates = _rate(replace(run, server=server), _PANELS["learner steps per second"])
    assert max(rates) == pytest.approx(20)  # 10 steps within the half second before each look


@pytest.mark.parametrize("told", ["all starts", "the last one"])
def test_seconds_go_on_after_a_pause(tmp_path: Path, told: str) -> None:
    from drlnet.plots.learning import _curve
    from drlnet.plots.throughput import _rate

    path = made(tmp_path / "a")
    folder = RunFolder(path)
    folder.learner_path.touch()
    facts = json.loads(folder.facts_path.read_text())
    last_s = next(reversed(list(folder.readings())))["time"]
    for start_s in (last_s + 1000, last_s + 5000):  # it goes on twice, first in vain
        RunFolder.reopen(folder.read_config())
        at = datetime.fromtimestamp(start_s).astimezone().isoformat(timespec="milliseconds")
        facts = {**json.loads(folder.facts_path.read_text()), "started": at}
        if told == "the last one":
            del facts["earlier_starts_s"]
        folder.facts_path.write_text(json.dumps(facts))
    values = {"env_steps": 500, "eval_return": 90.0, "eval_learner_steps": 50}
    folder.record({"role": "learner", **values}, start_s + 2)
    folder.record({"role": "server", "table.replay.env_steps": 40}, start_s + 2)
    run = read_run(path)
    early = 1.0 if told == "the last one" else 0.0  # time counts from the first reading
    seconds = [1, 2, 3, 4, 4.5 + 2]
    assert _curve(run, "seconds")[0].tolist() == pytest.approx([s - early for s in seconds])
    assert _rate(run, ("table.<table>.env_steps",))[0][-1] == pytest.approx(6.5 - early)


def test_throughput_of_seeds_is_a_median_and_a_band(tmp_path: Path) -> None:
    from drlnet.plots.throughput import _rate

    read = [read_run(made(tmp_path / str(seed), seed=seed, looks=4 + seed)) for seed in (0, 1, 2)]
    assert "3 seeds" in words_of(throughput(read))
    started_s = read[0].started_s
    server = [
        {**each, "time": started_s + (each["time"] - started_s) / 2} for each in read[0].server
    ]
    fast = replace(read[0], server=server)
    curves = [_rate(run, ("table.<table>.env_steps",)) for run in (fast, *read[1:])]
    middle = median(curves, after_end="nothing")
    assert middle.low is not None and middle.high is not None
    assert middle.x[-1] == pytest.approx(6)
    # The first seed goes twice as fast, and counts no more once it has ended.
    assert (middle.low[0], middle.y[0], middle.high[0]) == pytest.approx((100, 100, 200))
    assert (middle.low[-1], middle.high[-1]) == pytest.approx((100, 100))


def test_what_cannot_be_drawn_says_why(tmp_path: Path) -> None:
    path = made(tmp_path / "a", looks=1)
    RunFolder(path).latency_path.unlink()
    run = read_run(path)
    for draw, cause in ((latency, "kept its latencies"), (throughput, "two readings")):
        with pytest.raises(RunFolderError, match=cause) as raised:
            draw([run])
        assert raised.value.remedy
    before_a_look = [{**reading, "eval_return": None} for reading in run.learner]
    unseen = Run(run.path, run.config, run.started_s, before_a_look, [], {}, False)
    with pytest.raises(RunFolderError, match="evaluated"):
        learning([unseen])


def test_broken_folders(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a run's folder"):
        read_run(tmp_path)
    with pytest.raises(RunFolderError, match="no readings yet"):
        read_run(made(tmp_path / "new", looks=0))

    path = made(tmp_path / "cut")
    metrics = path / "metrics.jsonl"
    whole = len(read_run(path).learner)
    metrics.write_text(metrics.read_text() + '{"time": 1, "role": "lear')
    assert read_run(path).cut_short
    assert len(read_run(path).learner) == whole

    metrics.write_text('{"time": 1')
    with pytest.raises(RunFolderError, match="no readings yet"):
        read_run(path)
    metrics.write_text('{"time": 1}\nnonsense\n')
    with pytest.raises(RunFolderError, match="line 2 cannot be parsed"):
        read_run(path)
    metrics.write_text('{"time": 1}\n')
    (path / "latency.json").write_text('{"server')
    with pytest.raises(RunFolderError, match=r"latency\.json is cut short"):
        read_run(path)


@pytest.mark.parametrize("name", ["metrics.jsonl", "latency.json"])
def test_a_file_that_cannot_be_read_is_a_folder_that_cannot(tmp_path: Path, name: str) -> None:
    """Nor by root: nothing lies at the beginning of a process's memory."""
    path = made(tmp_path / "a")
    (path / name).unlink()
    (path / name).symlink_to("/proc/self/mem")
    with pytest.raises(RunFolderError, match="cannot read the run's folder"):
        read_run(path)


def test_a_folder_that_may_not_be_read_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = made(tmp_path / "good"), made(tmp_path / "bad")
    (bad / "metrics.jsonl").unlink()
    (bad / "metrics.jsonl").symlink_to("/proc/self/mem")
    monkeypatch.setattr("os.access", lambda path, _: Path(path) != bad)
    args = ["plot", str(bad), str(good), "--what", "throughput", "--out", str(tmp_path / "a.svg")]
    result = CliRunner().invoke(app, [*args, "--json"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.output.splitlines()[-1])
    assert [one["run_dir"] for one in said["skipped"]] == [str(bad)]
    assert said["runs"] == [str(good)]
