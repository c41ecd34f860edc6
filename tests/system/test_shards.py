"""The real commands with a server of several shards."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path

import pytest
from system.command import DEADLINE_S, SMALL, command, finished
from system.local_link import meeting_place
from system.using import use

from drlnet.metrics import RunFolder

__all__ = ["meeting_place"]

TWO = ["serve", "--shards", "2", "--listen", "udp://127.0.0.1:0", "--json"]


def test_a_server_of_two_shards_over_udp(tmp_path: Path) -> None:
    with command(tmp_path, *TWO, "--poll", "block", "--metrics", "127.0.0.1:0") as serving:
        ready = json.loads(serving.wait_for("ready"))
        assert ready["shards"] == 2
        (address,) = ready["addresses"]
        figures = use(address)
        assert figures["table.t.items_created"] == 15
        assert figures["table.t.capacity"] == 100
        told = finished(tmp_path, "stats", "--server", address, "--json").last_json()
        assert told["table.t.items_drawn"] == 60
        with urllib.request.urlopen(ready["metrics"], timeout=DEADLINE_S) as page:
            assert 'drlnet_table_items_drawn_total{table="t"} 60.0' in page.read().decode()
        assert serving.end(signal.SIGTERM) == 0


def test_a_server_of_two_shards_over_shared_memory(tmp_path: Path, meeting_place: Path) -> None:
    with command(tmp_path, *TWO, "--listen", "dpdk:local") as serving:
        ready = json.loads(serving.wait_for("ready"))
        over_udp, local = ready["addresses"]
        assert local == "dpdk:local"
        assert (meeting_place / "default-shard1").exists()
        assert use(local)["table.t.items_created"] == 15
        told = finished(tmp_path, "stats", "--server", over_udp, "--json").last_json()
        assert told["table.t.items_drawn"] == 60
        assert serving.end(signal.SIGTERM) == 0
    assert list(meeting_place.iterdir()) == []


def test_a_run_of_two_shards_trains(tmp_path: Path) -> None:
    ran = finished(
        tmp_path,
        *("run", "CartPole-v1", "--json", *SMALL),
        *("--set", "server.shards=2", "--set", "run.max_learner_steps=200"),
    )
    result = ran.last_json()
    assert result["learner_steps"] == 200
    readings = RunFolder(Path(result["run_dir"])).readings()
    served = [one for one in readings if one["role"] == "server"][-1]
    assert served["table.replay.capacity"] == 5000
    assert served["table.replay.items_drawn"] > 0


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["serve", "--shards", "0"], 3, "server.shards"),
        (["serve", "--shards", "65"], 3, "server.shards"),
        (["serve", "--shards", "2", "--listen", "udp://127.0.0.1:65535"], 4, "no port above it"),
        (
            ["run", "CartPole-v1", "--serial", "--max-learner-steps", "1"],
            3,
            "one thread is one shard",
        ),
        (
            ["run", "CartPole-v1", "--set", "replay.min_size=600", "--set", "replay.capacity=1000"],
            20,
            "fill 500 rows",
        ),
    ],
)
def test_wrong_shards_are_refused(tmp_path: Path, args: list[str], code: int, words: str) -> None:
    two = ["--set", "server.shards=2", "--set", "actor.envs_per_actor=1", "--set"]
    sets = [*two, "actor.num_actors=1"] if args[0] == "run" else []
    refused = finished(tmp_path, *args, *sets, "--json", code=code)
    assert words in refused.text()


def test_more_shards_than_cores_are_warned_of(tmp_path: Path) -> None:
    args = ["--shards", "64", "--listen", "udp://127.0.0.1:0", "--json", "--poll", "block"]
    with command(tmp_path, "serve", *args) as serving:
        serving.wait_for("64 shards take turns")
        serving.wait_for("ready")
        assert serving.end(signal.SIGTERM) == 0
