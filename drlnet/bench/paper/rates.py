"""What the transports alone take for a batch's bytes: no session, no table, the same frames.

Measured within the group whose floors it makes, in slices between those of its batches, while the
group's processes are stopped. Sender and receiver are processes that wait in between, asleep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np

from drlnet import native
from drlnet.bench.cores import Cores, pin_process
from drlnet.bench.paper.access import layout_of
from drlnet.bench.paper.groups import Group, Rate
from drlnet.bench.paper.workloads import BASE, BATCHES, SHAPES, Workload
from drlnet.bench.rounds import Effort
from drlnet.bench.transport.subjects import Subject
from drlnet.bench.worker import Worker, WorkerFailed, Workers
from drlnet.launch.signals import Stop

_SENDER, _RECEIVER = "sender", "receiver"
_ANSWER_S = 60.0
_REST_S = 3.0  # while others are stopped, who wait for each other for ten seconds
_LOOK_S = 0.002  # how often a sender looks whether it is to rest
_SLICE = Effort(calls=1000, budget_s=0.025, warm_up=2)


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

    def rest(self) -> None:
        """Sleeps, polling or not."""

    def shut(self) -> None:
        self._sender = None


class _Receiver:
    """The process that takes them."""

    def ready(self) -> None:
        """What it needs is imported."""

    def open(self, address: str, poll: str) -> None:
        self._receiver: native.FrameReceiver | None = native.FrameReceiver(address, poll)

    def rate(self, size: int) -> float | None:
        """Bytes per second of transfers of that length; none when none came to its end."""
        assert self._receiver is not None
        latencies = _SLICE.latencies_us(partial(self._receiver.transfers, size))
        return size / float(np.median(latencies)) * 1e6 if len(latencies) else None

    def shut(self) -> None:
        self._receiver = None


class Rates:
    """Of every transport that a group's floors need, while entered. Raises worker.Stopped.

    tell: told once, with its cause, of a transport that cannot be measured; it is left out then.
    """

    def __init__(self, stop: Stop, cores: Cores, tell: Callable[[str, str], None]) -> None:
        self._cores = cores
        self._stop = stop
        self._tell = tell
        self._failed: set[str] = set()

    def __enter__(self) -> Rates:
        self._stack = ExitStack()
        self._workers = self._stack.enter_context(Workers(self._stop))
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    @contextmanager
    def beside(self, group: Group) -> Iterator[Rate | None]:
        """Measures the rate of a batch's bytes over the group's transport whenever it is called.

        None where no floor is of that group. It opens while the group starts, and is connected at
        the first call.
        """
        transport = group.transport
        wanted = group.place == "network" and group.batches and not group.training
        if not wanted or transport.name in self._failed:
            yield None
            return
        connected = False

        def rate(batch: int) -> float | None:
            nonlocal connected
            if transport.name in self._failed:
                return None
            with self._losing(transport):
                if not connected:
                    address = sender.answer(_REST_S)
                    receiver.begin("open", transport.connect or address, transport.poll)
                    receiver.answer(_REST_S)
                    connected = True
                sender.begin("serve")
                receiver.begin("rate", length_for(group.workload, batch))
                found: float | None = receiver.answer(_REST_S)
                sender.begin("rest")
                for _ in ("serve", "rest"):
                    sender.answer(_REST_S)
                return found
            return None

        with self._losing(transport):
            sender, receiver = self._pair()
            sender.begin("open", transport.listen, transport.poll)
        try:
            yield rate
        finally:
            if transport.name not in self._failed:
                with self._losing(transport):
                    if not connected:
                        sender.answer(_ANSWER_S)
                    for worker in (sender, receiver):
                        worker.call("shut", deadline_s=_ANSWER_S)
            if transport.name in self._failed:
                for name in (_SENDER, _RECEIVER):  # in whatever state: others get new ones
                    if name in self._workers:
                        self._workers.end(name)

    def _pair(self) -> tuple[Worker, Worker]:
        """Sender and receiver, each on its core."""
        sender = self._workers.of(_SENDER, _Sender)
        receiver = self._workers.of(_RECEIVER, _Receiver)
        pin_process(sender.pid, self._cores.server)
        pin_process(receiver.pid, self._cores.client)
        return sender, receiver

    @contextmanager
    def _losing(self, transport: Subject) -> Iterator[None]:
        """A worker that fails within takes the transport out, and no more."""
        try:
            yield
        except (WorkerFailed, OSError) as error:  # OSError: it is gone when it is to be pinned
            self._failed.add(transport.name)
            self._tell(f"bytes of {transport.name}", str(error))


def length_for(workload: Workload, batch: int) -> int:
    """Of the transfers that such a batch is compared with: the nearest of the base case's."""
    spec, base = SHAPES[workload.shape].spec(), SHAPES[BASE.shape].spec()
    size = int(layout_of(spec, batch)["total_bytes"])
    known = [int(layout_of(base, each)["total_bytes"]) for each in BATCHES]
    return min(known, key=lambda one: abs(math.log(one / size)))
