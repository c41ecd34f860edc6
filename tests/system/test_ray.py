"""A run in a Ray cluster of three nodes, all of this machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from system.command import (
    all_ended,
    command,
    descendants,
    finished,
    learned_since,
    lines_of_error,
)
from system.test_joining import wait_for_actors

from drlnet import errors
from drlnet.metrics import RunFolder

pytest.importorskip("ray", reason="needs ray: pip install 'drlnet[ray]'")

ENV = "CartPole-v1"
START_S = 240.0  # beside other tests Ray has taken more than two minutes to tell of a lost node

# In a process of its own, which answers lines: Ray's driver leaves threads and signal handlers.
CLUSTER = """
import json, sys
head, *cores = map(int, sys.argv[1:])
from ray.cluster_utils import Cluster
first = {"num_cpus": head, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=first)
nodes = [cluster.add_node(num_cpus=count) for count in cores]
print(json.dumps({"address": cluster.address}), flush=True)
for line in sys.stdin:
    if line.startswith("remove"):
        cluster.remove_node(nodes.pop(), allow_graceful=False)
    elif line.startswith("add"):
        nodes.append(cluster.add_node(num_cpus=cores[0]))
    print(json.dumps({"nodes": len(nodes)}), flush=True)
cluster.shutdown()
"""


class Cluster:
    """Nodes of so many cores, the head first."""

    def __init__(self, folder: Path, cores: Sequence[int]) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, *map(str, cores)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.pid = self._popen.pid
        self.address: str = self._line()["address"]

    def do(self, what: str) -> int:
        """ "remove" or "add" a node; returns how many there are beside the head."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(f"{what}\n")
        self._popen.stdin.flush()
        return int(self._line()["nodes"])

    def _line(self) -> dict[str, Any]:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:  # Ray may say something there, too
            if line.startswith("{"):
                said: dict[str, Any] = json.loads(line)
                return said
        raise AssertionError("the cluster has ended")

    def end(self) -> None:
        """Ends all nodes."""
        pids = [self.pid, *descendants(self.pid)]
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(60)
        finally:
            self._popen.kill()
            self._popen.wait()
        assert all_ended(pids)


@contextmanager
def cluster(folder: Path, cores: Sequence[int] = (4, 3, 3)) -> Iterator[Cluster]:
    made = Cluster(folder, cores)
    try:
        yield made
    finally:
        made.end()


def launch(where: Cluster, folder: Path, *more: str) -> tuple[str, ...]:
    own = ("--set", f"run.folder={folder / 'run'}", "--json", "--insecure", "--num-actors", "4")
    return ("launch", ENV, "--on", "ray", "--address", where.address, *own, *more)


@pytest.mark.exhaustive
def test_cartpole_is_learned_although_a_node_goes(tmp_path: Path) -> None:
    with (
        cluster(tmp_path) as where,
        command(tmp_path, *launch(where, tmp_path, "--seed", "1")) as running,
    ):
        running.wait_for("host main is there", deadline_s=START_S)
        running.wait_for("learner_steps [1-9]", deadline_s=START_S)
        assert where.do("remove") == 1
        running.wait_for("host .* is lost", deadline_s=START_S)
        running.wait_for("restarts", deadline_s=START_S)
        assert running.end(deadline_s=400) == 0, running.text()
        result = running.last_json()
        assert result["eval_return_mean"] >= 475 and result["stopped"] == "goal"
        assert result["failures"] and all("lost with" in words for words in result["failures"])


def test_nodes_that_come_are_used(tmp_path: Path) -> None:
    """By actors that wait for one, and by those that `launch --join` adds."""
    with cluster(tmp_path, cores=(3, 2)) as where:
        endless = ("run.goal=none", "run.max_seconds=none", "run.max_env_steps=none")
        sets = [word for value in endless for word in ("--set", value)]
        run = launch(where, tmp_path, *sets, "--num-actors", "2")
        with command(tmp_path, *run) as running:
            wait_for_actors(running, tmp_path, tmp_path / "run", 2)
            assert where.do("remove") == 0
            running.wait_for("host actors-1 is lost", deadline_s=START_S)
            running.wait_for("host actors-0 is lost", deadline_s=START_S)
            lost = running.text().count("is there: ")
            assert where.do("add") == 1
            added_s = time.monotonic()
            while running.text().count("is there: ") < lost + 2:
                assert time.monotonic() < added_s + START_S, running.text()
                running.read(1.0)
            learned_since(running, RunFolder(tmp_path / "run"), time.time())

            assert where.do("add") == 2
            at = ("--on", "ray", "--address", where.address, "--num-actors", "2")
            with command(tmp_path, "launch", "--join", str(tmp_path / "run"), *at) as joining:
                wait_for_actors(joining, tmp_path, tmp_path / "run", 4)
                assert joining.end(signal.SIGINT, deadline_s=START_S) == 130, joining.text()
            assert running.end(signal.SIGINT, deadline_s=START_S) == 130, running.text()


def test_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    with cluster(tmp_path) as where:
        with command(tmp_path, *launch(where, tmp_path, "--set", "run.goal=none")) as running:
            running.wait_for("learner_steps [1-9]", deadline_s=START_S)
            found = descendants(where.pid).items()
            mine = [pid for pid, line in found if "__main__.py" in line]
            assert len(mine) >= 7  # agents, server, learner, actors
            running.end(signal.SIGINT, deadline_s=START_S)
            assert running.popen.returncode == 130, running.text()
        assert all_ended(mine)


def test_too_few_cores_are_told_by_role(tmp_path: Path) -> None:
    with cluster(tmp_path) as where:
        ended = finished(
            tmp_path,
            *launch(where, tmp_path, "--num-actors", "40", "--set", "replay.capacity=1e5"),
            deadline_s=START_S,
            error=errors.ConfigError,
        )
        cause, remedy = lines_of_error(ended)[-2:]
        assert "takes 43 cores (server 1, learner 2, actor 40); the Ray cluster has 10" in cause
        assert "fewer actors" in remedy
        assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_an_address_that_is_no_cluster(tmp_path: Path) -> None:
    where = ("launch", ENV, "--on", "ray", "--address", "127.0.0.1:1")
    ended = finished(tmp_path, *where, deadline_s=START_S, error=errors.TransportError)
    cause, remedy = lines_of_error(ended)[-2:]
    assert "no Ray cluster answers at 127.0.0.1:1" in cause and "ray start --head" in remedy
