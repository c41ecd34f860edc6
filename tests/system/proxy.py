"""A bad network in a process of its own: relays datagrams, and drops, doubles and reorders them.

python proxy.py SERVER_PORT PLAN, PLAN being JSON of a Plan; prints its own port, and relays until
its standard input ends.
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

BUFFER_BYTES = 8 << 20
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Plan:
    """Probabilities per datagram, in each direction. A reordered one falls behind the next."""

    drop: float = 0.0
    double: float = 0.0
    reorder: float = 0.0
    seed: int = 1


class Line:
    """One direction of one client."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self._plan, self._random = plan, random.Random(seed)
        self._behind: bytes | None = None

    def pass_on(self, datagram: bytes) -> list[bytes]:
        """What comes out when that goes in."""
        drawn, plan = self._random.random, self._plan
        dropped, doubled, reordered = (
            drawn() < chance for chance in (plan.drop, plan.double, plan.reorder)
        )
        if dropped:
            return []
        out = [datagram, datagram] if doubled else [datagram]
        if reordered and self._behind is None:
            self._behind = out.pop()
        elif self._behind is not None:
            out.append(self._behind)
            self._behind = None
        return out


def udp_socket() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        made.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    made.bind((HOST, 0))
    made.setblocking(False)
    return made


class Relay:
    def __init__(self, server_port: int, plan: Plan) -> None:
        self.front, self._server = udp_socket(), (HOST, server_port)
        self._plan = plan
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.front, selectors.EVENT_READ, None)
        self._selector.register(sys.stdin, selectors.EVENT_READ, None)
        self._backs: dict[tuple[str, int], tuple[socket.socket, Line, Line]] = {}

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    return
                if key.fileobj is self.front:
                    self._from_clients()
                else:
                    self._from_server(*key.data)

    def _from_clients(self) -> None:
        for datagram, client in received(self.front):
            if client not in self._backs:
                seed = self._plan.seed * 1000 + 2 * len(self._backs)
                back = udp_socket(), Line(self._plan, seed), Line(self._plan, seed + 1)
                self._backs[client] = back
                self._selector.register(back[0], selectors.EVENT_READ, (client, *back))
            back, up, _ = self._backs[client]
            for out in up.pass_on(datagram):
                send(back, out, self._server)

    def _from_server(
        self, client: tuple[str, int], back: socket.socket, _: Line, down: Line
    ) -> None:
        for datagram, _server in received(back):
            for out in down.pass_on(datagram):
                send(self.front, out, client)


def received(of: socket.socket) -> Iterator[tuple[bytes, tuple[str, int]]]:
    """What waits there, some of it."""
    for _ in range(16):
        try:
            yield of.recvfrom(1 << 16)
        except BlockingIOError:
            return


def send(by: socket.socket, datagram: bytes, to: tuple[str, int]) -> None:
    with suppress(BlockingIOError):  # a full buffer drops as well
        by.sendto(datagram, to)


@contextmanager
def lossy(address: str, plan: Plan, folder: Path) -> Iterator[str]:
    """The address at which a server at `address` is reached through such a network."""
    port = address.rpartition(":")[2]
    command = [sys.executable, str(Path(__file__).resolve()), port, json.dumps(asdict(plan))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, text=True, **pipes) as relay:
        assert relay.stdout is not None
        yield f"udp://{HOST}:{relay.stdout.readline().strip()}"
        relay.communicate()  # ends its input


if __name__ == "__main__":
    relay = Relay(int(sys.argv[1]), Plan(**json.loads(sys.argv[2])))
    print(relay.front.getsockname()[1], flush=True)
    relay.run()
