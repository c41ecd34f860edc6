"""Connects roles to their server, in whichever order they are started."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from drlnet.client import Client
from drlnet.errors import ReplayTimeout, ServerLoading, SessionLost, TransportError
from drlnet.roles.stop import Stop

TIMEOUT_S = 10.0
UNANSWERED = ReplayTimeout, SessionLost, TransportError
_AWAY_S = 60.0  # of one that keeps its state, and is started again meanwhile; as for an append
_LOADING_S = 1800.0  # of a server that reads its state
_PARTING_S = 3.0
_SILENT_S = 1.0  # of the wait: a server that runs answers sooner


@contextmanager
def awaited(
    server: str, note: Callable[[str], None], timeout_s: float = TIMEOUT_S
) -> Iterator[None]:
    """While a client comes to the server at that address, which may start timeout_s later.

    note: told, on a thread of its own, when no server has answered for a second.
    """
    line = f"no answer from {server} yet; it has {timeout_s:g} s to start"
    telling = threading.Timer(_SILENT_S, note, (line,))
    telling.daemon = True
    telling.start()
    try:
        yield
    finally:
        telling.cancel()


def reach(
    server: str,
    name: str,
    poll: str,
    stop: Stop,
    note: Callable[[str], None],
    *,
    kept: bool = False,
) -> Client:
    """A client of the server at that address; note: see awaited.

    A server that reads its state is waited for, in words, now and whenever it is started again.
    kept: the run keeps its replay, so that a server that is away comes back; calls wait longer.
    Errors: TransportError without an answer in time; KeyboardInterrupt when stopped before. Main
    thread.
    """
    timeout_s = _AWAY_S if kept else TIMEOUT_S
    end_s = time.monotonic() + _LOADING_S
    with awaited(server, note, timeout_s), stop.interrupts():
        while True:
            try:
                return Client(server, name=name, timeout=timeout_s, poll=poll, patient=True)
            except ServerLoading as error:
                if time.monotonic() > end_s:
                    raise
                note(error.cause)


@contextmanager
def parting(client: Client) -> Iterator[None]:
    """While a role says its last words to a server, which may have ended first: where all are told
    to end at once, for example. It then does without an answer, soon. No other calls may follow."""
    client.set_timeout(_PARTING_S)
    with suppress(*UNANSWERED):
        yield
