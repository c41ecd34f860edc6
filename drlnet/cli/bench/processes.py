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


def frame_sender(listen: str, poll: Annotated[str, typer.Option("--poll")] = "busy") -> None:
    """Hands out bytes without a session: the other side of `frame-receiver`."""
    from drlnet import native
    from drlnet.launch.signals import Stop

    output = Output(as_json=True)
    with Stop() as stop:
        sender = native.FrameSender(listen, poll)
        output.event("ready", address=sender.address)
        while not stop.is_set():
            sender.serve(0.05)


def frame_receiver(
    address: str,
    poll: Annotated[str, typer.Option("--poll")] = "busy",
    sizes: Annotated[str, typer.Option("--bytes", metavar="N,...")] = "1048576",
    frame_bytes: Annotated[int, typer.Option("--frame-bytes")] = 8968,
    calls: Annotated[int, typer.Option("--calls", min=1)] = 1000,
    budget_s: Annotated[float, typer.Option("--budget-s")] = 0.5,
    core: Annotated[int | None, typer.Option("--core")] = None,
) -> None:
    """What a transport alone takes for so many bytes."""
    from functools import partial

    from drlnet import native
    from drlnet.bench.paper.access import pin_this_thread
    from drlnet.bench.rounds import Effort

    pin_this_thread(core)
    output, receiver = Output(as_json=True), native.FrameReceiver(address, poll)
    for size in map(int, sizes.split(",")):
        transfers = partial(receiver.transfers, size, frame_bytes)
        latencies = Effort(calls, budget_s, 3).latencies_us(transfers)
        output.event(f"{size} bytes", us=latencies.tolist())
