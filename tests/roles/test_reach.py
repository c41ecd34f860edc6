"""A role may be started before its server."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from served import serving

from drlnet.launch.signals import Stop
from drlnet.roles.reach import reach


def test_a_server_that_starts_later_is_found_and_waited_for_in_words() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address = f"udp://127.0.0.1:{free.getsockname()[1]}"
    said: list[str] = []
    with Stop() as stop, ExitStack() as servers:

        def start_server(line: str) -> None:
            said.append(line)
            servers.enter_context(serving(listen=address))

        for _ in range(2):  # the second time it is there
            with reach(address, "early", "block", stop, start_server) as client:
                assert client.ping() > 0
    assert said == [f"no answer from {address} yet; it has 10 s to start"]
