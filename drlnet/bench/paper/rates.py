"""What the transports alone take for a batch's bytes: no session, no table, the same frames.

Measured right before and right behind a group whose floors it makes. Sender and receiver are
processes that wait in between, asleep: to start them would put seconds between a rate and its
group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np

from drlnet import native
from drlnet.bench.cores import Cores, pin_process
from drlnet.bench.paper.access import layout_of
from drlnet.bench.paper.groups import Group
from drlnet.bench.paper.workloads import BASE, BATCHES, SHAPES
from drlnet.bench.rounds import Effort
from drlnet.bench.worker import WorkerFailed, Workers
from drlnet.launch.signals import Stop

_SENDER, _RECEIVER = "sender", "receiver"
_ANSWER_S = 60.0
_LOOK_S = 0.02  # how often a sender looks whether it is to stop


class _Sender:
    """The process that hands out bytes: its memory and its port are new each time."""

    def hear(self, asked: Callable[[], bool]) -> None:
        """Told by the process that it is in (Worker)."""
        self._asked = asked

    def ready(self) -> None:
        """What it needs is imported."""

    def open(self, listen: str, poll: str) -> str:
        """Its address."""
        self._sender: native.FrameSender | None = native.FrameSender(listen, poll)
        return self._sender.address

    def serve(self) -> None:
        """Answers until asked for something else."""
        assert self._sender is not None
        while not self._asked():
            self._sender.serve(_LOOK_S)

    def shut(self) -> None:
        self._sender = None


class _Receiver:
    """The process that takes them."""

    def ready(self) -> None:
        """What it needs is imported."""

    def rates(
        self, address: str, poll: str, sizes: Sequence[int], effort: Effort
    ) -> dict[int, float]:
        """Bytes per second, by the length of a transfer."""
        receiver = native.FrameReceiver(address, poll)
        found = {}
        for size in sizes:
            latencies = effort.latencies_us(partial(receiver.transfers, size))
            if len(latencies):
                found[size] = size / float(np.median(latencies)) * 1e6
        return found


class Rates:
    """Of every transport that a group's floors need, while entered. Raises worker.Stopped."""

    def __init__(self, stop: Stop, effort: Effort, cores: Cores) -> None:
        # Half of it before a group and half behind.
        self._effort = Effort(effort.calls, effort.budget_s / 2, 3)
        self._cores = cores
        self._stop = stop
        self._failed: set[str] = set()

    def __enter__(self) -> Rates:
        self._stack = ExitStack()
        self._workers = self._stack.enter_context(Workers(self._stop))
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def of(self, group: Group) -> dict[int, float]:
        """Bytes per second now, by length; none where no floor is of that group.

        Raises WorkerFailed once for a transport that cannot be measured, which is left out then.
        """
        transport = group.transport
        sizes = sizes_of(group)
        if not sizes or transport.name in self._failed:
            return {}
        try:
            sender = self._workers.of(_SENDER, _Sender)
            receiver = self._workers.of(_RECEIVER, _Receiver)
            pin_process(sender.pid, self._cores.server)
            pin_process(receiver.pid, self._cores.client)
            address = sender.call("open", transport.listen, transport.poll)
            sender.begin("serve")
            there = transport.connect or address
            found: dict[int, float] = receiver.call(
                "rates", there, transport.poll, sizes, self._effort
            )
            sender.begin("shut")
            for _ in ("serve", "shut"):
                sender.answer(_ANSWER_S)
        except WorkerFailed:
            self._failed.add(transport.name)
            for name in (_SENDER, _RECEIVER):  # in whatever state they are: others get new ones
                if name in self._workers:
                    self._workers.end(name)
            raise
        return found


def sizes_of(group: Group) -> list[int]:
    """Lengths of the transfers that its batches are compared with: the base case's batches."""
    if group.place != "network" or group.training:
        return []
    spec, base = SHAPES[group.workload.shape].spec(), SHAPES[BASE.shape].spec()
    known = [int(layout_of(base, batch)["total_bytes"]) for batch in BATCHES]
    wanted = [int(layout_of(spec, batch)["total_bytes"]) for batch in group.batches]
    return sorted({nearest(known, size) for size in wanted})


def nearest(known: Sequence[int], size: int) -> int:
    """Of the known lengths."""
    return min(known, key=lambda one: abs(math.log(one / size)))
