"""What a replay memory must do to be measured, drlnet's or another's, and the data that goes in.

A memory is made and used in the learner's process. Clients that insert beside it are processes of
their own: they go through the door that the memory opens for them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.shapes import Shape

BY = 50  # transitions of an insertion that is not one by one: a step of as many environments
_EPISODE = 200
_DIFFERENT = 4  # blocks of random values, used in turn

Block = dict[str, NDArray[Any]]
"""Transitions by column: obs, next_obs [k, *stacked], action, reward, terminated [k]."""
Drawn = tuple[Any, Any, Any]
"""(keys or indices, importance weights, rows), as the memory hands them out."""


class Inserter(ABC):
    """One process's way in. Transitions get the largest priority seen so far, as is usual."""

    @abstractmethod
    def insert(self, block: Block) -> None:
        """Inserts k transitions, 1 or BY, of as many environments; may return before it is done."""

    def wait_for_inserts(self) -> None:  # noqa: B027, most have nothing to wait for
        """Waits until all that was inserted is stored."""

    def close(self) -> None:  # noqa: B027
        """Ends what it has started."""


Door = Callable[[], Inserter]
"""Made in the learner's process, opened in another: it must pickle."""


Step = Callable[[NDArray[np.float32]], None]
"""A learner's, which takes the new priorities [batch] of what it draws."""


class Memory(Inserter):
    """A prioritized replay memory, empty when it is made."""

    includes: ClassVar[str] = ""  # for a caption: what it is, and how it is used

    @abstractmethod
    def __init__(self, shape: Shape) -> None: ...

    @abstractmethod
    def sample(self, batch: int) -> Drawn:
        """Draws with replacement, by priority; the rows are arrays in this process's memory."""

    @abstractmethod
    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        """New priorities [k], raw, of drawn keys [k]. Returns when others would see them."""

    def fill(self, blocks: Iterator[Block], capacity: int) -> None:
        """Fills it to its capacity. Not timed."""
        for _ in range(-(-capacity // BY)):
            self.insert(next(blocks))
        self.wait_for_inserts()

    def cycle(self, batch: int, priorities: NDArray[np.float32]) -> None:
        """What a learner does in each step, without what it does itself."""
        keys, _, _ = self.sample(batch)
        self.update(keys, priorities)

    def prefetching(self, batch: int) -> AbstractContextManager[Step] | None:
        """The same with batches asked for ahead and updates that no call awaits; None: cannot."""
        return None

    def sent_bytes(self) -> int | None:
        """What the server has sent so far, where that is to be told; None elsewhere."""
        return None

    @abstractmethod
    def door(self) -> Door:
        """For a process that inserts beside this one."""

    def welcome(self, count: int) -> None:
        """Lets in that many clients that are at the door, where a memory has one."""

    def let_go(self) -> None:
        """Returns once clients that are leaving have come through the door for the last time."""


class InProcess(Memory):
    """A memory of the learner's own process: what others insert comes through a socket.

    The learner takes what has come before it draws, as programs without a replay server do.
    """

    def __init__(self, shape: Shape) -> None:
        self._doorbell: Listener | None = None
        self._senders: list[Connection[Any, Any]] = []

    @abstractmethod
    def draw(self, batch: int) -> Drawn:
        """Does what Memory.sample does."""

    def sample(self, batch: int) -> Drawn:
        self._take()
        return self.draw(batch)

    def door(self) -> Door:
        place = f"\0drlnet-replay-{os.getpid()}"  # of Linux' abstract names: no file is left
        if self._doorbell is None:
            self._doorbell = Listener(place)
        return partial(_Sender, place)

    def _take(self) -> None:
        """What waits in the sockets now."""
        for sender in self._senders:
            while not sender.closed and sender.poll():
                self._receive(sender)

    def _receive(self, sender: Connection[Any, Any]) -> None:
        try:
            block: Block = sender.recv()
        except EOFError:
            sender.close()
        else:
            self.insert(block)

    def welcome(self, count: int) -> None:
        assert self._doorbell is not None
        self._senders += [self._doorbell.accept() for _ in range(count)]

    def let_go(self) -> None:
        for sender in self._senders:
            while not sender.closed:
                self._receive(sender)
        self._senders.clear()

    def close(self) -> None:
        for sender in self._senders:
            sender.close()
        if self._doorbell is not None:
            self._doorbell.close()


class _Sender(Inserter):
    """The other end."""

    def __init__(self, place: str) -> None:
        self._connection = Client(place)

    def insert(self, block: Block) -> None:
        self._connection.send(block)

    def close(self) -> None:
        self._connection.close()


def blocks_of(shape: Shape) -> Iterator[Block]:
    """BY transitions at a time, of as many environments, in episodes; without end."""
    random = np.random.default_rng(0)
    made = [_random_block(shape, random) for _ in range(_DIFFERENT)]
    goes_on, ends = np.zeros(BY, bool), np.ones(BY, bool)
    step = 0
    while True:
        for block in made:
            step += 1
            yield {**block, "terminated": goes_on if step % _EPISODE else ends}


def _random_block(shape: Shape, random: np.random.Generator) -> Block:
    def values(dtype: str, inner: tuple[int, ...]) -> NDArray[Any]:
        if np.dtype(dtype).kind == "f":
            return random.standard_normal((BY, *inner), np.float32).astype(dtype)
        return random.integers(0, 255, (BY, *inner)).astype(dtype)

    seen = shape.stacked
    return {
        "obs": values(seen.dtype, seen.shape),
        "next_obs": values(seen.dtype, seen.shape),
        "action": values("int32", ()),
        "reward": values("float32", ()),
    }


def first_of(block: Block) -> Block:
    """One transition of it."""
    return {name: column[:1] for name, column in block.items()}
