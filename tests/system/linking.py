"""A process of clients that says what becomes of it: connects, then pings for every line."""

from __future__ import annotations

import json
import os
import sys
import threading

from drlnet import Client
from drlnet.errors import DrlnetError


def cpus() -> list[list[int]]:
    """Those that this thread may run on, and a thread that it starts."""
    found = [sorted(os.sched_getaffinity(0))]
    thread = threading.Thread(target=lambda: found.append(sorted(os.sched_getaffinity(0))))
    thread.start()
    thread.join()
    return found


def say(**values: object) -> None:
    print(json.dumps(values), flush=True)


def main(address: str, count: int) -> None:
    """So many clients. Every line of standard input is a ping by each; its end is this process's.

    ping_us: the longest.
    """
    before = cpus()
    try:
        clients = [Client(address, name="linking", timeout=10) for _ in range(count)]
        for client in clients:
            client.ping()
        say(up=True, before=before, after=cpus())
    except DrlnetError as error:
        say(up=False, error=type(error).__name__, cause=error.cause, remedy=error.remedy)
        return
    for _ in sys.stdin:
        try:
            say(ping_us=max(client.ping() for client in clients))
        except DrlnetError as error:
            say(error=type(error).__name__, cause=error.cause, remedy=error.remedy)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
