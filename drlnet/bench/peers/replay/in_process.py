"""Memories of the learner's own process: what other processes insert comes through a socket.

The learner takes what has come before it draws, as programs without a replay server do.
"""

from __future__ import annotations

import os
import socket
from abc import abstractmethod
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from drlnet.bench.replay.memory import Block, Door, Drawn, Memory
from drlnet.bench.shapes import Shape


class InProcess(Memory):
    """Its subclasses know no other process."""

    def __init__(self, shape: Shape) -> None:
        self._place = f"\0drlnet-replay-{os.getpid()}"  # of Linux' abstract names: no file is left
        self._doorbell: socket.socket | None = None
        self._senders: list[Connection[Any, Any]] = []

    @abstractmethod
    def draw(self, batch: int) -> Drawn:
        """As Memory.sample."""

    def sample(self, batch: int) -> Drawn:
        self._take()
        return self.draw(batch)

    def door(self) -> Door:
        if self._doorbell is None:
            self._doorbell = socket.socket(socket.AF_UNIX)
            self._doorbell.bind(self._place)
            self._doorbell.listen()
        return partial(_Sender, self._place)

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
        for _ in range(count):
            came, _ = self._doorbell.accept()
            self._senders.append(Connection(came.detach()))

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


class _Sender:
    """The other end."""

    def __init__(self, place: str) -> None:
        with socket.socket(socket.AF_UNIX) as connected:
            connected.connect(place)
            self._connection: Connection[Any, Any] = Connection(connected.detach())

    def insert(self, block: Block) -> None:
        self._connection.send(block)

    def settle(self) -> None:
        """The learner takes what is left when it lets go."""

    def close(self) -> None:
        self._connection.close()
