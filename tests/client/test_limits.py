"""What clients can make grow ends at the server's limits: an error, and a counter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from served import serving

from drlnet import Client, Column, Item, View, native
from drlnet.errors import ConfigError, ServerFull

COLUMNS = {"x": Column("float32", (2,))}
ITEM = Item({"x": View("x")}, boundary="cross")


def opened(client: Client, name: str, **other: Any) -> Any:
    return client.table(
        **({"name": name, "columns": COLUMNS, "item": ITEM, "capacity": 100} | other)
    )


def append(client: Client, rows: int) -> None:
    """Row by row, in less than a second."""
    writer = opened(client, "a").writer(1)
    for row in range(rows):
        writer.append({"x": np.full((1, 2), row, np.float32)}, [row == 0], [False])
        writer.flush()


def views(count: int) -> Item:
    return Item({f"x{i}": View("x") for i in range(count)}, boundary="cross")


REFUSED: list[tuple[str, int, Callable[[Client], object]]] = [
    ("tables", 1, lambda client: opened(client, "b")),
    ("table_bytes", 1 << 20, lambda client: opened(client, "b", capacity=10**6)),
    ("table_parts", 2, lambda client: opened(client, "b", item=views(3))),
    ("name_bytes", 12, lambda client: opened(client, "b" * 13)),
    ("streams", 2, lambda client: opened(client, "a").writer(3)),
    ("append_rows", 3, lambda client: append(client, 7)),
    ("params_bytes", 1000, lambda client: client.publish(bytes(1001))),
    ("report_bytes", 100, lambda client: client.report({"x": "y" * 100})),
]


@pytest.mark.parametrize(("limit", "most", "beyond"), REFUSED, ids=[row[0] for row in REFUSED])
def test_beyond_a_limit_is_an_error_and_counted(
    limit: str, most: int, beyond: Callable[[Client], object]
) -> None:
    with serving(limits={limit: most}) as address, Client(address) as client:
        opened(client, "a")
        with pytest.raises((ServerFull, ConfigError)):
            beyond(client)
        opened(client, "a").writer(1).close()
        stats = client.stats()
    assert {k: v for k, v in stats.items() if k.startswith("server.refused.") and v} == {
        f"server.refused.{limit}": 1
    }


def test_a_full_server_refuses_another_client_until_one_leaves() -> None:
    with serving(limits={"sessions": 2}) as address, Client(address) as one:
        one.ping()
        with Client(address) as two:
            two.ping()
            with pytest.raises(ServerFull, match="2 clients"):
                Client(address, timeout=5).ping()
        with Client(address) as next_one:
            next_one.ping()
        assert one.stats()["server.refused.sessions"] >= 1


def test_limits_are_named_and_bounded() -> None:
    with pytest.raises(ConfigError, match=r"the limit server.limits.table is unknown"):
        native.Server(["udp://127.0.0.1:0"], limits={"table": 1})
    with pytest.raises(ConfigError, match=r"server.limits.tables is 0\n.*1 to 256"):
        native.Server(["udp://127.0.0.1:0"], limits={"tables": 0})
