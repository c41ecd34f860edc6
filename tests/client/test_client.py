"""The client in one process with its server: what users may pass, and what it then does."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from drlnet import Client, Column, Item, Table, View, errors, native
from drlnet.errors import ReplayTimeout


@pytest.fixture
def server() -> native.Server:
    return native.Server(["memory:"])


@pytest.fixture
def table(server: native.Server) -> Iterator[Table]:
    with Client.in_process(server) as client:
        yield client.table(
            "t", columns={"x": Column("float32")}, item=Item({"x": View("x")}), capacity=100
        )


# A name travels in 40 bytes: it may be cut within a character.
@pytest.mark.parametrize("name", ["a" + "é" * 30, "学" * 20, "x" * 60])
def test_a_long_name_does_not_spoil_the_statistics(server: native.Server, name: str) -> None:
    with Client.in_process(server, name=name) as client:
        client.report({"figure": 5})
        values = [
            value
            for key, value in client.stats().items()
            if key.startswith(f"client.{name[:13]}") and key.endswith(".figure")
        ]
    assert values == [5]


@pytest.mark.parametrize("timeout", [0.0, -1.0, -math.inf, math.nan, 1e-3])
def test_no_time_is_a_timeout(table: Table, timeout: float) -> None:
    with pytest.raises(ReplayTimeout, match="min_size"):
        table.sample(4, timeout=timeout)


@pytest.mark.parametrize("timeout", [1e10, 1e300, math.inf, None])
def test_all_the_time_is_no_timeout(table: Table, timeout: float | None) -> None:
    with table.writer(1) as writer:
        steps = writer.append({"x": np.ones(1)}, np.ones(1, np.bool_), np.zeros(1, np.bool_))
        writer.add_items(np.zeros(1, np.int64), steps)
    assert table.sample(4, timeout=timeout).views["x"].tolist() == [1.0] * 4


def test_a_signal_while_an_error_is_made_is_raised_as_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(errors, "from_status", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Client("nonsense://nowhere", name="test", timeout=1.0)


def test_blobs_are_kept_by_name_and_bounded(server: native.Server) -> None:
    with Client.in_process(server, name="a") as one, Client.in_process(server, name="b") as other:
        assert one.get_blob("settings") is None
        first = one.put_blob("settings", b"x" * 131_072)
        assert other.get_blob("settings") == (first, b"x" * 131_072)
        second = other.put_blob("settings", b"")
        assert second > first
        assert one.get_blob("settings", newer_than=first) == (second, b"")
        assert one.get_blob("settings", newer_than=second) is None
        for name, blob in (("n" * 65, b""), ("a", b"x" * 131_073), ("a", b"x" * 1_000_000)):
            with pytest.raises(errors.ConfigError, match="blob"):
                one.put_blob(name, blob)
        for number in range(63):
            one.put_blob(f"blob-{number}", b"1234")
        with pytest.raises(errors.ServerFull, match="64 blobs"):
            one.put_blob("one too many", b"")
        one.put_blob("blob-7", b"12345678")
        figures = one.stats()
    assert figures["server.blobs"] == 64
    assert figures["server.blob_bytes"] == 63 * 4 + 4
