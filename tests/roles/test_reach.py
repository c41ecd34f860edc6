"""A role may be started before its server."""

from __future__ import annotations

from contextlib import ExitStack

from served import serving
from system.stateful import free_address

from drlnet.launch.signals import Stop
from drlnet.roles.reach import reach


def test_a_server_that_starts_later_is_found_and_waited_for_in_words() -> None:
    address = free_address()
    said: list[str] = []
    with Stop() as stop, ExitStack() as servers:

        def start_server(line: str) -> None:
            said.append(line)
            servers.enter_context(serving(listen=address))

        for _ in range(2):  # the second time it is there
            with reach(address, "early", "block", stop, start_server) as client:
                assert client.ping() > 0
    assert said == [f"no answer from {address} yet; it has 10 s to start"]
