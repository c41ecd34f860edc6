"""The replay server: one native poll loop, until it is asked to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

from drlnet import native
from drlnet.config import ServerConfig


def serve(config: ServerConfig, on_ready: Callable[[list[str]], None]) -> None:
    """Serves until SIGTERM or SIGINT. on_ready gets the addresses, their ports resolved.

    Called from the main thread (signals). Does not import torch: it is a server's start-up and
    memory for nothing. Errors: TransportError for an address that cannot be listened on.
    """
    server = native.Server(list(config.listen), poll=config.poll)

    def stop(_number: int, _frame: FrameType | None) -> None:
        server.stop()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        on_ready(list(server.addresses))
        server.run()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
