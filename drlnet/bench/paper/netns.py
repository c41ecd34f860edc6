"""Actors, server and learner as three hosts: namespaces, joined by veth through the server's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from drlnet.bench.machine import Cores
from drlnet.bench.netns import ip, namespaces, program_in, veth
from drlnet.bench.paper.groups import Group, Places
from drlnet.bench.transport.subjects import Subject
from drlnet.launch.signals import Stop

_PORT = 7447
_DRIVER = "dpdk:af_packet"
# The last byte of addresses: the kernel's; those that DPDK answers for itself.
_KERNEL, _SERVER_KERNEL, _DPDK, _SERVER_DPDK, _FIRST_ACTOR = 2, 1, 12, 11, 21


@dataclass(frozen=True)
class _Link:
    """From a host to the server's host: a network of its own, an interface at each end."""

    host: str  # namespace, and its interface
    server_interface: str
    network: str  # "10.7.1"

    def ip(self, number: int) -> str:
        return f"{self.network}.{number}"

    def join(self, server: str) -> None:
        """Makes it between the two namespaces, which exist."""
        veth(9000, (self.host, self.host), (server, self.server_interface))
        ends = (
            (self.host, self.host, self.ip(_KERNEL)),
            (server, self.server_interface, self.ip(_SERVER_KERNEL)),
        )
        for namespace, interface, address in ends:
            ip("-n", namespace, "address", "add", f"{address}/24", "dev", interface)
        ip("-n", self.host, "route", "add", "default", "via", self.ip(_SERVER_KERNEL))


@dataclass(frozen=True, kw_only=True)
class _Hosts(Places):
    actors: _Link
    learner_link: _Link

    def listens(self, group: Group) -> list[str]:
        if group.transport.name.startswith("udp"):
            number = _KERNEL if group.place == "learner" else _SERVER_KERNEL
            return [f"udp://{self.learner_link.ip(number)}:{_PORT}"]
        if group.place == "learner":
            return [self._dpdk(self.learner_link, _DPDK, f"port={_PORT}", far=True)]
        return [
            f"{_DRIVER}:{link.server_interface},ip={link.ip(_SERVER_DPDK)}/24,port={_PORT}"
            for link in (self.actors, self.learner_link)
        ]

    def reached(self, group: Group, ready: str, actor: int | None) -> str:
        if group.transport.name.startswith("udp"):
            return ready
        link = self.learner_link if actor is None else self.actors
        number = _FIRST_ACTOR + (actor or 0)
        if group.place == "learner":
            to = f"to={self.learner_link.ip(_DPDK)}:{_PORT}"
            return self._dpdk(link, number, to, far=True)
        return self._dpdk(link, number, f"to={link.ip(_SERVER_DPDK)}:{_PORT}")

    @staticmethod
    def _dpdk(link: _Link, number: int, more: str, *, far: bool = False) -> str:
        """On the host's interface. far: beyond the server's host, which forwards."""
        gateway = f",gateway={link.ip(_SERVER_KERNEL)}" if far else ""
        return f"{_DRIVER}:{link.host},ip={link.ip(number)}/24{gateway},{more}"


@contextmanager
def through_server(
    cores: Cores, stop: Stop | None = None
) -> Iterator[tuple[Places, list[Subject]]]:
    """Where the roles run then, and what they talk over; all of it gone after the block.

    The server's host forwards between the other two: in layout (a) the actors' way to the learner.
    stop, errors: as namespaces().
    """
    with namespaces("sal", stop) as (server, of_actors, of_learner):
        actors = _Link(of_actors, f"{of_actors}0", "10.7.1")
        learner = _Link(of_learner, f"{of_learner}0", "10.7.2")
        for link in (actors, learner):
            link.join(server)
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        ip("netns", "exec", server, "sh", "-c", forward)
        hosts = _Hosts(
            cores, program_in(server), program_in(of_actors), program_in(of_learner),
            actors=actors, learner_link=learner,
        )  # fmt: skip
        yield (
            hosts,
            [
                Subject("udp block", "", "block"),
                Subject("udp busy", "", "busy"),
                Subject(f"{_DRIVER} busy", "", "busy"),
            ],
        )
