"""The comparison of samplers by what is learned."""

from __future__ import annotations

from pathlib import Path

import pytest
from system.command import finished

from drlnet.bench.learning import Learned, measure_learning, summarise
from drlnet.errors import ConfigError
from drlnet.launch.signals import Stop


def learned(sampler: str, seed: int, reached: bool, steps: int, mean: float) -> Learned:
    return Learned(sampler, "env", seed, reached, steps, steps // 10, mean, 1.0, 100, 2.0)


def test_a_summary_is_over_the_seeds_of_each_sampler() -> None:
    summary = summarise(
        [
            learned("uniform", 0, True, 100, 10.0),
            learned("amper-fr", 0, True, 70, 12.0),
            learned("uniform", 1, False, 300, 14.0),
        ]
    )
    assert list(summary) == ["uniform", "amper-fr"]
    assert summary["uniform"] == {
        "runs": 2,
        "reached": 1,
        "env_steps": [200.0, 100, 300],
        "eval_return_mean": 12.0,
        "eval_return_std_over_seeds": 2.0,
    }


def test_runs_repeat_bit_by_bit_and_differ_by_sampler() -> None:
    def measure() -> list[tuple[str, int, float]]:
        told: list[Learned] = []
        with Stop() as stop:
            records = measure_learning(
                "CartPole-v1",
                ["amper-fr", "uniform"],
                1,
                stop,
                told.append,
                sets=["eval.report_episodes=20", "replay.min_size=200", "run.goal=none"],
                max_learner_steps=60,
            )
        assert records.records == told
        assert [run.reached for run in told] == [False, False]
        return [(run.subject, run.learner_steps, run.eval_return_mean) for run in told]

    first = measure()
    assert [run[:2] for run in first] == [("amper-fr", 60), ("uniform", 60)]
    assert measure() == first


def test_a_stop_keeps_what_there_is() -> None:
    with Stop() as stop:
        stop.set()
        records = measure_learning("CartPole-v1", ["uniform"], 2, stop, lambda _: None)
    assert records.records == []
    assert records.more["interrupted"]


@pytest.mark.parametrize("words", [["watch"], ["learning", "CartPole-v1"], ["distribution"]])
def test_a_file_that_cannot_be_written_is_said_first(tmp_path: Path, words: list[str]) -> None:
    ended = finished(tmp_path, "bench", *words, "--out", "/proc/none/x.json", "--json")
    assert ended.popen.returncode == ConfigError.exit_code, ended.text()
    assert "cannot write to /proc/none" in ended.last_json()["error"]["cause"]
    assert len(ended.out.splitlines()) == 1
