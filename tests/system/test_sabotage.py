"""A run is sabotaged for real, and `drlnet stats` names the culprit within five seconds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from system.command import SMALL, Command, command

pytestmark = pytest.mark.exhaustive  # each loads a server for seconds

WITHIN_S = 5.0
START_S = 60.0
ENV = "Slow-v0"
WITH_ENV = [sys.executable, str(Path(__file__).with_name("slow_env.py"))]
SETTINGS = [
    *SMALL,
    *("--set", "replay.samples_per_insert=16", "--set", "eval.period=1000000000"),
    *("--set", "learner.publish_period=50"),
]


class Run:
    """A server, a learner, an actor, and a client that watches them."""

    def __init__(self, folder: Path, stack: ExitStack, kwargs: str, within: Sequence[str]) -> None:
        self._folder, self._stack, self._within = folder, stack, within
        self._settings = [*SETTINGS, "--set", f"env.kwargs={kwargs}"]

    def start(self, listen: str) -> None:
        serving = self._command("serve", "--json", "--listen", listen)
        address = json.loads(serving.wait_for("ready"))["addresses"][0]
        role = (ENV, "--server", address, "--json", *self._settings)
        self.learner = self._command("learn", *role, within=WITH_ENV)
        self.actor = self._command("actor", *role, "--index", "0", within=WITH_ENV)
        self.stats = self._command(
            "stats", "--server", address, "--json", "--follow", "--interval", "0.5"
        )

    def _command(self, *args: str, within: Sequence[str] = ()) -> Command:
        inside = [*self._within, *within]
        return self._stack.enter_context(command(self._folder, *args, within=inside))

    def wait_for(self, name: str, deadline_s: float) -> dict[str, Any]:
        """The first reading, of those to come, with a bottleneck of that name."""
        return self.wait_until(lambda reading: reading["bottleneck"]["name"] == name, deadline_s)

    def wait_until(
        self, holds: Callable[[dict[str, Any]], object], deadline_s: float
    ) -> dict[str, Any]:
        """The first reading, of those to come, of which that holds."""
        begun, seen = time.monotonic(), []
        skip = self.stats.out.count(b"\n")
        while True:
            left = begun + deadline_s - time.monotonic()
            lines = self.stats.out.split(b"\n")[:-1]
            for line in lines[skip:]:
                reading = json.loads(line)
                skip += 1
                seen.append(reading["bottleneck"]["line"])
                if holds(reading):
                    return dict(reading)
            assert left > 0, f"not among: {seen}"
            for role in (self.learner, self.actor):
                assert role.popen.poll() is None, role.end() and role.text()
            self.stats.read(left)


def _set(step_s: Path, seconds: str) -> None:
    """What a step of the environment takes from now on; at once, for it is read all the time."""
    new = step_s.with_suffix(".new")
    new.write_text(seconds, encoding="ascii")
    new.replace(step_s)


@contextmanager
def _running(
    folder: Path, kwargs: str, listen: str = "udp://127.0.0.1:0", within: Sequence[str] = ()
) -> Iterator[Run]:
    with ExitStack() as stack:
        run = Run(folder, stack, kwargs, within)
        run.start(listen)
        yield run


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    """A network namespace of our own; "" for those who may not have one."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        yield ""
        return
    name = f"drl{os.getpid()}b"
    if subprocess.run(["ip", "netns", "add", name], check=False).returncode:
        yield ""
        return
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.fixture(scope="module")
def step_s(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that says how long a step of the environment takes."""
    path = tmp_path_factory.mktemp("slow") / "step_s"
    _set(path, "0")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, step_s: Path, namespace: str) -> Iterator[Run]:
    """One run for several sabotages, one after the other."""
    within = ["ip", "netns", "exec", namespace] if namespace else []
    folder = tmp_path_factory.mktemp("run")
    with _running(folder, f'{{step_s="{step_s}"}}', within=within) as running:
        yield running


@contextmanager
def _throttled(pid: int, share: float) -> Iterator[None]:
    """The process runs for that share of the time only."""
    ended, period_s = threading.Event(), 0.1

    def throttle() -> None:
        while not ended.is_set():
            os.kill(pid, signal.SIGSTOP)
            ended.wait(period_s * (1 - share))
            os.kill(pid, signal.SIGCONT)
            ended.wait(period_s * share)

    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        os.kill(pid, signal.SIGCONT)


def test_a_window_that_is_too_small(tmp_path: Path) -> None:
    # The first of these tests: the run that the others share takes cores as long as it lives.
    # 40 kB a row: an append is 256 KiB, many times what the server's buffer takes.
    with _running(tmp_path, "{size=10000}", "udp://127.0.0.1:0,buffer=32768") as running:
        running.wait_until(lambda reading: reading.get("table.replay.rows", 0) > 0, START_S)
        # It is too small from the first: what starts takes the cores, which is named before it.
        reading = running.wait_for("small_window", START_S)
    assert "window is too small" in reading["bottleneck"]["line"]


def test_starved_actors(run: Run, step_s: Path) -> None:
    run.wait_for("learner_slow", START_S)  # with an environment that takes no time
    _set(step_s, "0.02")
    reading = run.wait_for("environment_slow", WITHIN_S)
    assert "environment takes" in reading["bottleneck"]["line"]


def _is_held(reading: dict[str, Any]) -> bool:
    """Whether the limiter holds an append."""
    return any(key.endswith(".waiting_for") and value == "inserts_limit"
               for key, value in reading.items())  # fmt: skip


def test_a_throttled_learner(run: Run, step_s: Path) -> None:
    _set(step_s, "0.002")
    run.wait_for("environment_slow", START_S)
    with _throttled(run.learner.popen.pid, 0.02):
        # The limiter lets actors go ahead a little before it holds them.
        run.wait_until(_is_held, START_S)
        reading = run.wait_for("learner_slow", WITHIN_S)
    assert "held" in reading["bottleneck"]["line"]
    assert "learner is too slow" in reading["bottleneck"]["line"]


def test_lost_packets(run: Run, step_s: Path, namespace: str) -> None:
    if not namespace or shutil.which("nft") is None:
        pytest.skip("losing frames takes root, ip and nft: apt-get install iproute2 nftables")
    _set(step_s, "0")
    within = ["ip", "netns", "exec", namespace, "nft"]
    for words in (
        "add table inet lossy",
        "add chain inet lossy input { type filter hook input priority 0 ; }",
        "add rule inet lossy input meta l4proto udp numgen random mod 100 < 5 drop",
    ):
        subprocess.run([*within, words], check=True)
    try:
        reading = run.wait_for("packet_loss", WITHIN_S)
    finally:
        subprocess.run([*within, "delete table inet lossy"], check=True)
    assert "of the frames are lost" in reading["bottleneck"]["line"]


def test_a_limiter_that_is_full(run: Run, step_s: Path) -> None:
    _set(step_s, "0")
    run.wait_for("learner_slow", START_S)  # what came before is over
    os.kill(run.learner.popen.pid, signal.SIGSTOP)
    try:
        reading = run.wait_for("learner_silent", WITHIN_S)
    finally:
        os.kill(run.learner.popen.pid, signal.SIGCONT)
    assert "learner has been silent" in reading["bottleneck"]["line"]
