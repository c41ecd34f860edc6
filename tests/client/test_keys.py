"""Sessions with keys: who is let in, and what each role may do."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest

from drlnet import native
from drlnet.client import Client, Column, Item, View
from drlnet.config import ServerConfig
from drlnet.config.keys import KEY_VARIABLE, make_keys, server_keys
from drlnet.errors import Forbidden
from drlnet.roles.serve import looping, serve

DEADLINE_S = 60.0


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys")
    return tmp_path / "keys"


@contextmanager
def serving(folder: Path | None, monkeypatch: pytest.MonkeyPatch, shards: int = 1) -> Iterator[str]:
    """The address of a server with the keys of that folder."""
    with monkeypatch.context() as patch:
        patch.setenv(KEY_VARIABLE, str(folder or ""))
        servers = native.Server.shards(["udp://127.0.0.1:0"], shards, keys=server_keys())
    with looping(servers):
        yield servers[0].addresses[0]


@pytest.mark.parametrize("shards", [1, 2])
def test_roles(keys: Path, monkeypatch: pytest.MonkeyPatch, shards: int) -> None:
    with (
        serving(keys, monkeypatch, shards) as address,
        Client(address, key=keys / "learner.key") as learner,
    ):
        assert learner.publish(b"params") == 1
        reading = learner.stats()
        assert reading["server.sealed"] == 1
        assert reading["peer.client.role"] == "learner"
        with Client(address, key=keys / "actor.key", name="actor") as actor:
            assert actor.fetch() == (1, b"params")
            with pytest.raises(Forbidden, match="publish: the key of an actor") as caught:
                actor.publish(b"poison")
            assert caught.value.remedy == "give --key the file of the learner"
            table = actor.table(
                "t", columns={"x": Column("int64")}, item=Item({"x": View("x")}), capacity=100
            )
            with pytest.raises(Forbidden, match="update_priorities"):
                table.update_priorities(np.array([1], np.uint64), np.array([1.0], np.float32))
        with Client(address, key=keys / "viewer.key", name="viewer") as viewer:
            assert viewer.stats()["server.rights_refused"] >= 2
            with pytest.raises(Forbidden, match="fetch: the key of a viewer"):
                viewer.fetch()
        assert learner.fetch() == (1, b"params")


def test_strangers(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_keys(tmp_path / "others")
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with serving(keys, monkeypatch) as address:
        with pytest.raises(Forbidden, match="the server wants a key"):
            Client(address)
        with pytest.raises(Forbidden, match="for another server"):
            Client(address, key=tmp_path / "others")
    with serving(None, monkeypatch) as address, pytest.raises(Forbidden, match="has no keys"):
        Client(address, key=keys)


def test_both_keys_are_good_while_they_are_replaced(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = keys.with_name("former.key")
    former.write_bytes((keys / "actor.key").read_bytes())
    former.chmod(0o600)
    make_keys(keys, rotate=True)
    with serving(keys, monkeypatch) as address:
        for key in (former, keys / "actor.key"):
            with Client(address, key=key) as client:
                assert client.ping() > 0
    make_keys(keys, rotate=True)
    with serving(keys, monkeypatch) as address, pytest.raises(Forbidden, match="replaced"):
        Client(address, key=former)


class Wire:
    """Carries datagrams between a client and a server, and keeps those to the server."""

    def __init__(self, server: str) -> None:
        host, _, port = server.removeprefix("udp://").rpartition(":")
        self._near, self._far = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
        self._near.bind(("127.0.0.1", 0))
        self._far.connect((host, int(port)))
        self.address = f"udp://127.0.0.1:{self._near.getsockname()[1]}"
        self.to_server: list[bytes] = []
        self._client: tuple[str, int] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._carry)

    def __enter__(self) -> Wire:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()
        self._near.close()
        self._far.close()

    def _carry(self) -> None:
        while not self._over.is_set():
            for ready in select.select([self._near, self._far], [], [], 0.05)[0]:
                data, sender = ready.recvfrom(65536)
                if ready is self._near:
                    self._client = sender
                    self.to_server.append(data)
                    self._far.send(data)
                elif self._client is not None:
                    self._near.sendto(data, self._client)

    def again(self) -> None:
        """Sends all of it once more, from the same address and from another."""
        with socket.socket(type=socket.SOCK_DGRAM) as other:
            other.connect(self._far.getpeername())
            for data in list(self.to_server):
                self._far.send(data)
                other.send(data)


def test_what_was_recorded_is_worth_nothing(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving(keys, monkeypatch) as server,
        Wire(server) as wire,
        Client(server, key=keys, name="observer") as observer,
    ):
        with Client(wire.address, key=keys, name="learner") as learner:
            assert learner.publish(b"one") == 1
            assert learner.publish(b"two") == 2
            replayed = observer.stats()["server.drops.replayed"]
            wire.again()
            while observer.stats()["server.drops.replayed"] == replayed:
                observer.ping()
            assert learner.publish(b"three") == 3
            reading = observer.stats()
            assert reading["server.clients"] == 2
            assert reading["server.handshakes"] == 2
        while observer.stats()["server.clients"] > 1:
            observer.ping()
        # The session is over: its hello may begin another, in which nobody can say a word.
        wire.again()
        assert observer.publish(b"four") == 4
        assert observer.fetch() == (4, b"four")
        reading = observer.stats()
        assert "peer.learner.transport" not in reading
        assert reading["server.drops.session"] > 0


class Asked(threading.Event):
    """A role's Stop, for threads."""

    end = threading.Event.set
    interrupts = nullcontext


@pytest.mark.slow
def test_shards_that_have_joined_take_new_keys(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, str(keys))
    ready, notes, stop = SimpleQueue[str](), SimpleQueue[str](), Asked()
    listen = ("udp://127.0.0.1:0",)
    with ThreadPoolExecutor() as threads, ExitStack() as stack:
        stack.callback(stop.set)

        def say(addresses: list[str], _: str | None) -> None:
            ready.put(addresses[0])

        first = threads.submit(serve, ServerConfig(listen, elsewhere=1), say, stop, notes.put)
        address = ready.get(timeout=DEADLINE_S)
        other = threads.submit(serve, ServerConfig(listen, join=address), say, stop, notes.put)
        ready.get(timeout=DEADLINE_S)
        for _ in range(2):
            make_keys(keys, rotate=True)
            assert [notes.get(timeout=DEADLINE_S) for _ in range(2)] == [
                "the keys were replaced"
            ] * 2
            with Client(address, key=keys) as client:
                # The second time its session has been ended, and it joins anew.
                while not any(name.startswith("peer.shard") for name in client.stats()):
                    assert not other.done(), other.result()
        stop.set()
        assert (first.result(), other.result()) == (None, None)
