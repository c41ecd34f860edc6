"""`drlnet stats`: a server's throughput and latency."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from drlnet.cli import options
from drlnet.cli.stopping import until_stopped

if TYPE_CHECKING:
    from drlnet.client import Client
    from drlnet.dashboard import StatsView
    from drlnet.launch.signals import Stop

IntervalOption = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="between two readings")
]
CountOption = Annotated[
    int | None, typer.Option("--count", metavar="N", min=1, help="stop after so many readings")
]

_ANSWER_DEADLINE_S = 5.0


def stats(
    server: options.ServerOption = options.DEFAULT_ADDRESS,
    interval: IntervalOption = 1.0,
    count: CountOption = None,
    eal: options.EalOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
) -> None:
    """Watch a server: operations per second, latency, tables, and what each client reports.

    Live on a terminal, plain tables elsewhere. Ctrl-C ends it; the server does not notice.

    [bold]Examples[/bold]

    drlnet stats

    drlnet stats --server udp://10.0.0.2:7447 --interval 0.5

    drlnet stats --json | jq .           [dim]# one reading, for scripts[/dim]
    """
    from drlnet.client import Client
    from drlnet.dashboard import StatsView, as_json

    with (
        until_stopped() as stop,
        stop.interrupts(),
        Client(server, name="stats", timeout=_ANSWER_DEADLINE_S) as client,
    ):
        if json:
            print(as_json(client.stats()), flush=True)
            return
        with StatsView(server, file=sys.stdout) as view:
            _watch(client, view, stop, interval, count)


def _watch(client: Client, view: StatsView, stop: Stop, interval: float, count: int | None) -> None:
    from drlnet.errors import ReplayTimeout, SessionLost, TransportError

    shown = 0
    while not stop.is_set():
        try:
            view.show(client.stats(), time.monotonic())
        except (TransportError, ReplayTimeout, SessionLost) as error:
            view.gone(error.cause)  # and goes on asking: it may come back
        shown += 1
        if count is not None and shown >= count:
            return
        stop.wait(interval)
