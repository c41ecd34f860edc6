"""How far apart the cores are: what is looked at, and what is said of it."""

from __future__ import annotations

import json
import os
import threading

import pytest

from drlnet import __version__
from drlnet.bench import measure
from drlnet.bench.machine import CoreDistance, Cores
from drlnet.bench.records import OfRounds, Record, Records, lower_than, over
from drlnet.cli.bench.command import show_below
from drlnet.cli.output import Output


def seen(*rounds: list[int]) -> CoreDistance:
    """A group every seven seconds."""
    distance = CoreDistance()
    for looks in rounds:
        distance.begin_round()
        for index, ns in enumerate(looks):
            distance.add(f"group {index}", ns, 7.0 * index)
    return distance


def test_a_look_leaves_the_thread_where_it_was() -> None:
    cores, before = Cores.usable(), os.sched_getaffinity(0)
    distance = CoreDistance()
    distance.look(Cores(None, None, 1), "one core")
    assert distance.rounds == []
    threads = threading.active_count()
    for _ in range(3):
        distance.look(cores, "a subject")
    assert os.sched_getaffinity(0) == before
    assert threading.active_count() == threads
    for look in distance.rounds[0] if distance.rounds else []:
        assert look.before == "a subject" and 5 < look.ns < 1e6
    assert measure.core_round_trip_ns(4096) is None


def test_cores_that_stay_are_one_figure() -> None:
    assert CoreDistance().in_words() == ""
    words = seen([126, 130], [], [125]).in_words()
    assert words == "Between the cores a cache line takes 126 ns there and back."


def test_cores_that_moved_are_said() -> None:
    words = seen([126, 130], [530, 126], [520, 510], [125]).in_words()
    assert "from 125 to 530 ns there and back, as where a host moves virtual ones" in words
    assert words.endswith("ratios are taken within rounds.")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_line_stands_below_the_tables_and_in_the_json(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    distance = seen([126], [530, 128])
    one = Record("transport", "udp block", "64 B", "ping", 1.0, 2.0, 1e6, 1)
    records = Records([one], {}, distance)
    show_below(Output(as_json), records)
    show_below(Output(as_json), Records([], {}, distance))  # nothing was measured
    show_below(Output(as_json), Records([one]))  # nothing was looked at
    captured = capsys.readouterr()
    shown = captured.err if as_json else captured.out
    assert " ".join(shown.split()) == distance.in_words()
    assert max(len(line) for line in shown.splitlines()) <= 80
    said = json.loads(records.to_json())
    assert list(said)[:3] == ["machine", "setup", "core_round_trips"]
    assert said["version"] == __version__
    assert said["core_round_trips"]["in_words"] == distance.in_words()
    assert said["core_round_trips"]["by_round"][1][0] == {
        "before": "group 0", "ns": 530, "at_s": 0.0,
    }  # fmt: skip
    assert "core_round_trips" not in json.loads(Records([one]).to_json())


def test_a_ratio_is_the_median_of_the_rounds_that_both_have() -> None:
    near, far = 1.0, 3.0
    ours = {1: 2 * near, 2: 2 * far, 3: 2 * far, 5: 99.0}
    baseline = {1: near, 2: far, 3: far, 4: 99.0}
    assert over(ours, baseline) == OfRounds(2.0, 2.0, 2.0)
    # Medians of all rounds would say 6: ours has two far rounds, the baseline of one round is near.
    assert over({1: 2.0, 2: 6.0, 3: 6.0}, {1: 1.0}) == OfRounds(2.0, 2.0, 2.0)
    assert over({1: 2.0}, {2: 1.0}) is None
    assert lower_than({1: 2.0, 2: 1.0, 3: 8.0}, dict.fromkeys((1, 2, 3), 4.0)) == (
        OfRounds(0.5, -1.0, 0.75)
    )
