"""`drlnet stats`: watches a server, and says where the bottleneck is."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, TextIO

import typer

from drlnet.cli import completion, options
from drlnet.cli.output import drop, json_file, shown
from drlnet.cli.stopping import until_stopped

if TYPE_CHECKING:
    from drlnet.client import Client
    from drlnet.dashboard import Reading
    from drlnet.launch.signals import Stop

RunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        autocompletion=completion.runs,
        help="the folder of a running run: read its server",
    ),
]
IntervalOption = Annotated[
    float,
    typer.Option("--interval", metavar="SECONDS", min=0.1, max=86400, help="between two readings"),
]
CountOption = Annotated[
    int | None, typer.Option("--count", metavar="N", min=1, help="stop after this many readings")
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", help="one reading as a line of JSON, or --count of them", rich_help_panel="Output"
    ),
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="with --json: a line per interval, with rates and the bottleneck",
        rich_help_panel="Output",
    ),
]
OnceOption = Annotated[
    bool,
    typer.Option("--once", help="plain tables of one interval, and exit", rich_help_panel="Output"),
]
CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        help="a header and a line of the main figures per interval; added to any other output",
        rich_help_panel="Output",
    ),
]

_ANSWER_DEADLINE_S = 3.0  # of a server that has answered before


class Sink(Protocol):
    """Where readings go."""

    def show(self, reading: Reading, time_s: float) -> None:
        """A reading, and when it was taken."""

    def gone(self, why: str) -> None:
        """Is told that the server did not answer."""


def stats(
    run: RunArgument = None,
    server: options.ServerOption = None,
    interval: IntervalOption = 1.0,
    count: CountOption = None,
    eal: options.EalOption = None,
    key: options.KeyOption = None,
    json: JsonOption = False,
    follow: FollowOption = False,
    once: OnceOption = False,
    csv: CsvOption = None,
    debug: options.DebugOption = False,
) -> None:
    """Watch a server: the bottleneck and what to do, throughput, latency, every client.

    Without RUN and --server it is the only server of yours that runs on this
    machine. Full screen on a terminal (h lists the keys), a line per interval
    elsewhere. The server has 10 seconds to start; when it goes away this says
    so and waits for it. Ctrl-C or q ends it; the server does not notice.

    [bold]Examples[/bold]

    drlnet stats                         [dim]# of drlnet serve, or of drlnet run[/dim]

    drlnet stats runs/CartPole-v1-20260101-120000-0

    drlnet stats --server udp://10.0.0.2:7447 --interval 0.5

    drlnet stats --once                  [dim]# plain tables[/dim]

    drlnet stats --json | jq .           [dim]# one reading, for scripts[/dim]

    drlnet stats --json --follow --csv figures.csv
    """
    from drlnet.cli.which import server_to_watch

    _check(json, follow, once, interval)
    address = server_to_watch(run, server)
    options.require_dpdk(eal, [address])
    patient = follow or not (once or json)
    if not patient and count is None:
        count = 2 if once else 1  # the tables show their difference
    with until_stopped() as stop, ExitStack() as stack:
        readings = _Readings(address, stop, interval, count, patient)
        readings.begin()  # what is wrong from the start ends the command
        sinks: list[Sink] = [_csv(csv, stack)] if csv is not None else []
        sinks.append(_sink(address, stop, stack, json, follow, once))
        try:
            for time_s, reading in readings:
                for sink in sinks:
                    if isinstance(reading, str):
                        sink.gone(reading)
                    else:
                        sink.show(reading, time_s)
        except BrokenPipeError:
            # The reader of our lines has closed the pipe: `drlnet stats | head`.
            drop(json_file())


def _check(json: bool, follow: bool, once: bool, interval: float) -> None:
    from drlnet.errors import ConfigError

    if follow and not json:
        raise ConfigError("--follow goes with --json", "add --json, or leave --follow out")
    if once and json:
        raise ConfigError("--once prints tables, --json prints JSON", "choose one of them")
    if math.isnan(interval):  # which the range of some versions of click lets pass
        raise ConfigError("--interval nan is not a time", "give seconds, from 0.1 to a day")


def _sink(server: str, stop: Stop, stack: ExitStack, json: bool, follow: bool, once: bool) -> Sink:
    from drlnet.dashboard import JsonLines, Lines, Screen, Tables

    if json:
        return JsonLines(json_file(), bare=not follow)
    if once:
        tables = Tables(server, sys.stdout)
        stack.callback(tables.close)
        return tables
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in {"dumb", "unknown"}:
        return Lines(server, sys.stdout)
    keys = sys.stdin if sys.stdin.isatty() else None
    screen = Screen(server, stop.end, keys=keys, file=sys.stdout)
    stop.before_abort = screen.give_back
    return stack.enter_context(screen)


def _csv(path: Path, stack: ExitStack) -> Sink:
    from drlnet.dashboard import Csv
    from drlnet.errors import cannot_write

    try:
        file: TextIO = stack.enter_context(path.open("w", encoding="utf-8", newline=""))
    except OSError as error:
        raise cannot_write(path, error) from error
    return Csv(file)


class _Readings:
    """Readings of a server at intervals, or why none came; it may go away and come back."""

    def __init__(
        self, server: str, stop: Stop, interval: float, count: int | None, patient: bool
    ) -> None:
        self._server, self._stop = server, stop
        self._interval, self._count, self._patient = interval, count, patient
        self._client: Client | None = None

    def begin(self) -> None:
        """Opens the session, as every role does. Raises what the client raises."""
        from drlnet.roles.reach import reach

        def note(line: str) -> None:
            print(shown(line), file=sys.stderr, flush=True)  # whatever standard output is for

        self._client = reach(self._server, "stats", "adaptive", self._stop, note)
        self._client.set_timeout(_ANSWER_DEADLINE_S)

    def __iter__(self) -> Iterator[tuple[float, Reading | str]]:
        from drlnet.errors import ReplayTimeout, SessionLost, TransportError

        taken = 0
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                reading: Reading | str = self._read()
            except (TransportError, ReplayTimeout, SessionLost) as error:
                if not self._patient:  # it has answered begin()
                    raise type(error)(
                        f"the server at {self._server} answers no longer: it has ended, or is busy",
                        "drlnet ls shows how its run ended",
                    ) from error
                reading, self._client = error.cause, None
            yield time.monotonic(), reading
            taken += 1
            if taken == self._count:
                return
            self._stop.wait(max(0.0, began + self._interval - time.monotonic()))

    def _run_of(self, client: Client) -> Reading:
        from drlnet import native
        from drlnet.roles.run_at_server import progress

        told = progress(client)
        known = (key for key in ("name", "env", "algo") if key in told)
        return {f"run.{key}": native.printable(told[key]) for key in known}

    def _read(self) -> Reading:
        from drlnet import native
        from drlnet.client import Client
        from drlnet.metrics.usage import machine_figures

        with self._stop.interrupts():
            if self._client is None:  # it had gone away
                self._client = Client(self._server, name="stats", timeout=_ANSWER_DEADLINE_S)
            reading: dict[str, object] = dict(self._client.stats())
            reading |= self._run_of(self._client)
        if native.is_loopback(self._server):
            # Only then are the server's and its clients' cores ours.
            reading |= machine_figures()
        return reading
