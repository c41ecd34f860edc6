"""Servers on threads of this process; the fixture `address` (conftest.py) is that of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from drlnet import native
from drlnet.roles.serve import looping


@contextmanager
def running(servers: Sequence[native.Server]) -> Iterator[str]:
    """The first one's address, while each of them runs on a thread."""
    with looping([*servers]):
        yield servers[0].addresses[0]


@contextmanager
def serving(
    shards: int = 1, listen: str = "udp://127.0.0.1:0", poll: str = "block", **settings: Any
) -> Iterator[str]:
    """The address of a server of that many shards."""
    with running(native.Server.shards([listen], shards, poll, **settings)) as address:
        yield address
