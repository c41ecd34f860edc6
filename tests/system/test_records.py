"""A real run's records, what is drawn from them, and what Prometheus reads meanwhile."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse
from system.command import SMALL, command, finished

from drlnet import errors
from drlnet.client import Client
from drlnet.metrics import RunFolder
from drlnet.metrics.catalog import CATALOG, matches

# With a GPU, and of other algorithms than DQN, whose tests look their own figures up.
OF_OTHER_RUNS = (
    *("gpu_utilization", "gpu_memory_bytes"),
    *("learning_rate", "updates", "value_error", "entropy"),
    *("ratio_mean", "ratio_clipped_share", "batch_policy_lag"),
    *("consolidation", "consolidation_weight", "frozen"),
    "late_steps",  # of slowed environments
    # where replay.rows = learner
    *("mirror.rows", "mirror.rows_behind", "mirror.memory_bytes", "mirror.device_bytes"),
    *("mirror.drawn", "mirror.replaced", "mirror.wait_s"),
)
# Of servers that are index_only, or have several shards.
OF_OTHER_SERVERS = {"table.<table>.saved_bytes", "server.shard_busy_s.<shard>"}
# Where policy.where is central: tests/roles/test_infer.py; what `drlnet stats` adds.
NOT_IN_RECORDS = (
    *("inference role", "server, where policy.where is central"),
    *("learner; drlnet stats adds it", "server that keeps its state (--state)"),
)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    ended = finished(
        folder, "run", "CartPole-v1", "--json", "--max-learner-steps", "4000", "--num-actors", "2",
        *SMALL, "--set", "eval.period=100", "--set", "eval.gate_episodes=20",
    )  # fmt: skip
    return Path(ended.last_json()["run_dir"])


def test_every_name_of_a_run_is_in_the_catalog_once(run_dir: Path) -> None:
    names = {
        name
        for reading in RunFolder(run_dir).readings()
        if reading["role"] == "server"
        for name in reading
    } - {"time", "role"}
    assert any(name.startswith("client.actor-0") for name in names)
    found = {name: [metric.pattern for metric, _ in matches(name)] for name in sorted(names)}
    assert {name: patterns for name, patterns in found.items() if len(patterns) != 1} == {}
    local = {one.pattern for one in CATALOG if one.where not in NOT_IN_RECORDS}
    never = local - {pattern for (pattern,) in found.values()}
    assert never <= {f"client.<client>.{name}" for name in OF_OTHER_RUNS} | OF_OTHER_SERVERS


def test_a_run_leaves_its_records(run_dir: Path) -> None:
    folder = RunFolder(run_dir)
    roles = [reading["role"] for reading in folder.readings()]
    assert roles.count("learner") >= roles.count("server") >= 2
    latencies = json.loads(folder.latency_path.read_text())
    assert sum(count for _, count in latencies["server.append.handling"]["buckets"]) > 0
    assert len(list(folder.tensorboard_path.glob("events.out.tfevents.*"))) == 1


def test_plot_draws_it_and_passes_over_what_is_none(run_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "pictures" / "run.svg"
    ended = finished(
        tmp_path, "plot", str(run_dir), str(tmp_path / "absent"), "--json", "--out", str(out)
    )
    said = ended.last_json()
    kinds = ("learning", "latency", "throughput")
    assert said["written"] == [str(out.with_name(f"run-{kind}.svg")) for kind in kinds]
    for path in said["written"]:
        ElementTree.parse(path)
    assert [skipped["run_dir"] for skipped in said["skipped"]] == [str(tmp_path / "absent")]
    assert "skipped" in ended.err.decode()


def test_plot_refuses_in_two_lines(run_dir: Path, tmp_path: Path) -> None:
    for args, code in (
        ([str(tmp_path)], errors.RunFolderError.exit_code),
        ([str(run_dir), "--out", "plot.pdf"], errors.ConfigError.exit_code),
    ):
        ended = finished(tmp_path, "plot", *args, code=code)
        assert len(ended.err.decode().splitlines()) == 2
        assert not ended.out


def test_no_other_command_pays_for_it(tmp_path: Path) -> None:
    code = "import sys, drlnet.cli.main, drlnet.roles.serve; print(*sys.modules)"
    # Elsewhere: in the checkout it would meet that, not the package that is installed.
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    loaded = set(ended.stdout.split())
    assert "drlnet.cli.plot" in loaded
    assert not {"matplotlib", "prometheus_client", "tensorboardX", "torch"} & loaded


def test_prometheus_reads_a_server(tmp_path: Path) -> None:
    ask = ("--listen", "udp://127.0.0.1:0", "--metrics", "127.0.0.1:0", "--json")
    with command(tmp_path, "serve", *ask) as serving:
        ready = json.loads(serving.wait_for("ready"))
        with Client(ready["addresses"][0], name="notebook") as client:
            client.ping(64)
            families = {family.name: family for family in parse(scrape(ready["metrics"]))}
        (ping,) = (
            sample
            for sample in families["drlnet_server_handling_seconds"].samples
            if sample.name.endswith("_count") and sample.labels["operation"] == "ping"
        )
        assert ping.value == 1
        (peer,) = families["drlnet_peer_frames_received"].samples
        assert peer.labels == {"client": "notebook"}
        assert serving.end(signal.SIGTERM) == 0, serving.text()
    with pytest.raises(urllib.error.URLError):
        scrape(ready["metrics"])


def scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def test_metrics_are_refused_where_they_cannot_be(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        in_use = f"127.0.0.1:{taken.getsockname()[1]}"
        for address, code in (
            (in_use, errors.TransportError.exit_code),
            ("0.0.0.0:9464", errors.Insecure.exit_code),
            ("9464", errors.ConfigError.exit_code),
        ):
            listen = ("--listen", "udp://127.0.0.1:0")
            ended = finished(tmp_path, "serve", *listen, "--metrics", address, code=code)
            assert len(ended.err.decode().splitlines()) == 2
