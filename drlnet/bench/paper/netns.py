"""Actors, server and learner as three hosts: namespaces, joined by veth through the server's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from drlnet.bench.machine import Cores
from drlnet.bench.netns import ip, namespaces, program_in, veth
from drlnet.bench.paper.suite import Group, Places
from drlnet.bench.transport.subjects import Subject
from drlnet.launch.signals import Stop

_PORT = 7447
_DRIVER = "dpdk:af_packet"
# The last byte of addresses: the kernel's; those that DPDK answers for itself.
_KERNEL, _SERVER_KERNEL, _DPDK, _SERVER_DPDK, _FIRST_ACTOR = 2, 1, 12, 11, 21
_SUBJECTS = [
    Subject("udp block", "", "block"),
    Subject("udp busy", "", "busy"),
    Subject(f"{_DRIVER} busy", "", "busy"),
]


@dataclass(frozen=True)
class _Link:
    """From a host to the server's host: a network of its own, an interface at each end."""

    host: str  # namespace, and its interface; the server's has a 0 behind it
    network: str  # "10.7.1"

    def join(self, server: str) -> None:
        """Makes it between the two namespaces, which exist."""
        ends = ((self.host, self.host), (server, f"{self.host}0"))
        veth(9000, *ends)
        for (namespace, interface), number in zip(ends, (_KERNEL, _SERVER_KERNEL), strict=True):
            address = f"{self.network}.{number}/24"
            ip("-n", namespace, "address", "add", address, "dev", interface)
        gateway = f"{self.network}.{_SERVER_KERNEL}"
        ip("-n", self.host, "route", "add", "default", "via", gateway)

    def dpdk(self, number: int, more: str, *, far: bool = False) -> str:
        """On the host's interface. far: beyond the server's host, which forwards."""
        gateway = f",gateway={self.network}.{_SERVER_KERNEL}" if far else ""
        return f"{_DRIVER}:{self.host},ip={self.network}.{number}/24{gateway},{more}"


@dataclass(frozen=True, kw_only=True)
class _Hosts(Places):
    actors: _Link
    of_learner: _Link

    def listens(self, group: Group) -> list[str]:
        inside = group.place == "learner"
        if group.transport.name.startswith("udp"):
            number = _KERNEL if inside else _SERVER_KERNEL
            return [f"udp://{self.of_learner.network}.{number}:{_PORT}"]
        if inside:
            return [self.of_learner.dpdk(_DPDK, f"port={_PORT}", far=True)]
        return [
            f"{_DRIVER}:{link.host}0,ip={link.network}.{_SERVER_DPDK}/24,port={_PORT}"
            for link in (self.actors, self.of_learner)
        ]

    def reached(self, group: Group, ready: str, actor: int | None) -> str:
        if group.transport.name.startswith("udp"):
            return ready
        link = self.of_learner if actor is None else self.actors
        inside = group.place == "learner"
        to = f"{self.of_learner.network}.{_DPDK}" if inside else f"{link.network}.{_SERVER_DPDK}"
        return link.dpdk(_FIRST_ACTOR + (actor or 0), f"to={to}:{_PORT}", far=inside)


@contextmanager
def through_server(
    cores: Cores, stop: Stop | None = None
) -> Iterator[tuple[Places, list[Subject]]]:
    """Where the roles run then, and what they talk over; all of it gone after the block.

    The server's host forwards between the other two: in layout (a) the actors' way to the learner.
    stop, errors: as namespaces().
    """
    with namespaces("sal", stop) as (server, of_actors, of_learner):
        actors, learner = _Link(of_actors, "10.7.1"), _Link(of_learner, "10.7.2")
        for link in (actors, learner):
            link.join(server)
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        ip("netns", "exec", server, "sh", "-c", forward)
        programs = (program_in(name) for name in (server, of_actors, of_learner))
        yield _Hosts(cores, *programs, actors=actors, of_learner=learner), list(_SUBJECTS)
