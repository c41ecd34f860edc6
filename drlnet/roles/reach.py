"""How roles come to their server: in whichever order they are started."""

from __future__ import annotations

import threading
from collections.abc import Callable

from drlnet.client import Client
from drlnet.roles.stop import Stop

_TIMEOUT_S = 10.0
_SILENT_S = 1.0  # of the wait: a server that runs answers sooner


def reach(server: str, name: str, poll: str, stop: Stop, note: Callable[[str], None]) -> Client:
    """A client of the server at that address, which may start some seconds later.

    note: told, on a thread of its own, when nobody has answered for a second. Errors:
    TransportError when nobody does in time; KeyboardInterrupt when stopped before. Main thread.
    """
    line = f"no answer from {server} yet; it has {_TIMEOUT_S:g} s to start"
    telling = threading.Timer(_SILENT_S, note, (line,))
    telling.daemon = True
    telling.start()
    try:
        with stop.interrupts():
            return Client(server, name=name, timeout=_TIMEOUT_S, poll=poll)
    finally:
        telling.cancel()
