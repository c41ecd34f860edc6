"""The processes that benchmarks start for themselves; hidden, as nobody types them."""

from __future__ import annotations

from typing import Annotated

import typer

from drlnet.cli.output import Output


def transport_client(
    address: str,
    poll: Annotated[str, typer.Option("--poll")] = "busy",
    calls: Annotated[int, typer.Option("--calls", min=1)] = 5000,
    budget_s: Annotated[float, typer.Option("--budget-s")] = 0.5,
    warm_up: Annotated[int, typer.Option("--warm-up", min=1)] = 200,
    core: Annotated[int | None, typer.Option("--core")] = None,
) -> None:
    """The measuring side of `transport --netns`."""
    from drlnet.bench.rounds import Effort
    from drlnet.bench.transport.client import measure

    output = Output(as_json=True)
    for measured in measure(address, poll, Effort(calls, budget_s, warm_up), core=core):
        output.event("measured", **measured.to_json())


def ring_echo(path: str) -> None:
    """The other side of the ring that `transport` measures."""
    from drlnet.bench.transport.ring import echo
    from drlnet.launch.signals import Stop

    output = Output(as_json=True)
    with Stop() as stop:
        count = echo(path, stop, lambda: output.event("ready"))
    output.event("echoed", messages=count)


def worker(descriptor: int) -> None:
    """A process of `replay` or `sampler`."""
    from drlnet.bench.worker import serve_calls

    serve_calls(descriptor)


def bulk_reader(address: str) -> None:
    """The client that `turns` measures against."""
    from drlnet.bench.turns import read_in_bulk
    from drlnet.launch.signals import Stop

    output = Output(as_json=True)
    with Stop() as stop:
        rate = read_in_bulk(address, stop, lambda: output.event("ready"))
    output.event("read", bytes_per_second=rate)
