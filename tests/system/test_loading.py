"""A server that takes long to read its state: its clients wait, and are told (help operations)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from system.command import command, finished, learned_since, lines_of_error
from system.stateful import (
    DEADLINE_S,
    STREAMS,
    Filling,
    free_address,
    items_of,
    open_table,
    serving,
)
from system.test_restarts import kill_the, run

from drlnet import errors
from drlnet.client import Client
from drlnet.metrics import RunFolder

HOW_FAR = r"reading its state: [0-9.]+ of [0-9.]+ MB"


@contextmanager
def held_up(state: Path, after: str) -> Iterator[Callable[[], None]]:
    """A server that reads this state waits in a pipe among its files, until it is let go on.

    Gives what lets it. after: how the names of the files begin that the pipe's comes behind.
    """
    name = max(one.name for one in (state / "shard-0").glob(f"{after}-*"))
    pipe = state / "shard-0" / f"{name[:-9]}999999999"
    os.mkfifo(pipe)
    with ExitStack() as stack:

        def let_go() -> None:
            descriptor = os.open(pipe, os.O_RDWR)  # it opens at once for those that read it, too
            stack.callback(os.close, descriptor)

        stack.callback(pipe.unlink, missing_ok=True)
        yield let_go


def filled(tmp_path: Path, address: str, *args: str) -> None:
    with serving(tmp_path, address, *args) as server:
        with Client(address, key=tmp_path / "keys" if args else None) as client:
            filling = Filling(open_table(client))
            filling.append(300)
            filling.writer.flush()
        assert server.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("keys", [False, True])
def test_clients_wait_for_a_server_that_reads_its_state(tmp_path: Path, keys: bool) -> None:
    address = free_address()
    if keys:
        finished(tmp_path, "keygen", "keys")
    serve = ("--key", "keys/server.key") if keys else ()
    key = tmp_path / "keys" if keys else None
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path, address, *serve))
        patient = stack.enter_context(Client(address, timeout=5.0, key=key, patient=True))
        hasty = stack.enter_context(Client(address, timeout=1.0, key=key))
        table = open_table(patient)
        filling = Filling(table)
        filling.append(300)
        filling.writer.flush()
        before = items_of(table)
        hasty.ping()
        assert server.end(signal.SIGTERM) == 0
        let_go = stack.enter_context(held_up(tmp_path / "state", "rows"))
        again = stack.enter_context(
            command(tmp_path, "serve", "--listen", address, "--state", "state", *serve)
        )
        again.wait_for(HOW_FAR)
        with pytest.raises(errors.ServerLoading, match=HOW_FAR):
            Client(address, timeout=1.0, key=key)
        with pytest.raises(errors.ServerLoading, match=HOW_FAR):
            hasty.ping()

        def go_on() -> None:
            patient.ping()
            filling.append(50)
            filling.writer.flush()

        pool = stack.enter_context(ThreadPoolExecutor(1))
        going_on = pool.submit(go_on)
        asking = ("stats", "--server", address, "--json", *(("--key", "keys") if keys else ()))
        with command(tmp_path, *asking) as stats:
            stats.wait_for(HOW_FAR)  # after 10 s: more than `patient` gives a call
            assert not going_on.done()
            let_go()
            again.wait_for("ready")
            assert stats.end() == 0, stats.text()
            assert stats.last_json()["state.incarnation"] == 2
        going_on.result(DEADLINE_S)
        assert hasty.ping() > 0
        assert patient.own_stats()["server_restarts"] == 1
        assert patient.stats()["table.replay.rows"] == 350 * STREAMS
        found = items_of(table)
        assert {x: found[x] for x in before} == before


def test_a_server_that_is_stopped_meanwhile_leaves_its_state_as_it_was(tmp_path: Path) -> None:
    address = free_address()
    filled(tmp_path, address)
    state = tmp_path / "state"
    before = {one: one.read_bytes() for one in (state / "shard-0").iterdir()}
    with (
        held_up(state, "rows") as let_go,
        command(tmp_path, "serve", "--listen", address, "--state", "state") as server,
    ):
        server.wait_for(HOW_FAR)
        server.popen.send_signal(signal.SIGTERM)
        server.wait_for("stopping; the state stays as it was")
        let_go()  # from the system's call that it is in
        assert server.end() == 0, server.text()
        assert "ready" not in server.text()
    assert {one: one.read_bytes() for one in (state / "shard-0").iterdir()} == before
    with serving(tmp_path, address), Client(address) as client:
        assert client.stats()["table.replay.rows"] == 300 * STREAMS


def test_what_is_found_wrong_meanwhile_ends_it(tmp_path: Path) -> None:
    address = free_address()
    filled(tmp_path, address)
    state = tmp_path / "state"
    for snapshot in (state / "shard-0").glob("snapshot-*"):
        snapshot.write_bytes(b"")
    with (
        held_up(state, "snapshot") as let_go,
        command(tmp_path, "serve", "--listen", address, "--state", "state") as server,
    ):
        server.wait_for(HOW_FAR)
        let_go()
        assert server.end() == errors.StateDamaged.exit_code, server.text()
        cause, remedy = lines_of_error(server)
        assert "no snapshot in" in cause and "restore the folder" in remedy


def test_a_server_serves_while_it_reads_rows(tmp_path: Path) -> None:
    address, pixels = free_address(), 16_000
    with serving(tmp_path, address) as server, Client(address) as client:
        filling = Filling(open_table(client, pixels, capacity=12_000), pixels=pixels)
        filling.append(3000)
        filling.writer.flush()
        before = client.stats()
        assert server.end(signal.SIGTERM) == 0
    with serving(tmp_path, address), Client(address) as client:
        table = open_table(client, pixels, capacity=12_000)
        filling.writer = table.writer(STREAMS, timeout=DEADLINE_S)
        filling.t = 3000
        to_load = []
        while not to_load or to_load[-1] > 0:
            batch = table.sample(32)
            x = batch.views["x"][:, 1]
            assert (batch.views["x"][:, 2] == x + 1).all()
            assert (batch.views["image"] == (x % 251)[:, None]).all()
            assert table.update_priorities(batch.keys, np.full(32, 2.0)) == (32, 0)
            filling.append(1)
            stats = client.stats()
            to_load.append(stats["state.rows_to_load"])
        assert to_load == sorted(to_load, reverse=True)
        filling.writer.flush()
        stats = client.stats()
        assert stats["table.replay.rows"] == 12_000
        assert len(table.new_priorities().keys) == stats["table.replay.live_items"]
        assert stats["table.replay.live_items"] > 0.9 * before["table.replay.live_items"]


def test_a_run_waits_for_its_server(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    more = (
        "--keep-replay",
        "--set",
        "server.durability=0.1",
        "--set",
        "run.max_learner_steps=none",
    )
    with command(tmp_path, *run(tmp_path, *more, "--json")) as running:
        running.wait_for("learner_steps [1-9]", deadline_s=120)
        with held_up(folder.replay_path, "rows") as let_go:
            kill_the("serve", running)
            log = folder.path / "server.log"
            while log.read_text().count("reading its state") < 4:  # 16 s: more than a call's 10 s
                assert running.popen.poll() is None, running.text()
                running.read(0.2)
            let_go()
            learned_since(running, folder, time.time())
        assert running.end(signal.SIGTERM, deadline_s=120) == 143, running.text()
        result = running.last_json()
        assert result["failures"] == ["server was killed by SIGKILL"]
        assert (result["learner_restarts"], result["actor_restarts"]) == (0, 0)
