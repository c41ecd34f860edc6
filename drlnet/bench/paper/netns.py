"""Actors, server and learner as three hosts: namespaces, joined by veth through the server's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from drlnet.bench.cores import Cores
from drlnet.bench.paper.groups import Places
from drlnet.bench.transport.netns import ip, require_namespaces
from drlnet.bench.transport.subjects import Subject
from drlnet.launch.process import DRLNET

_PORT = 7447


@dataclass(frozen=True)
class _Link:
    """From a host to the server's: the interfaces' names and addresses at both ends."""

    host: str  # namespace, and its interface
    ip: str
    server_interface: str
    server_ip: str


def _program(namespace: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", namespace, *DRLNET)


@contextmanager
def through_server(cores: Cores) -> Iterator[tuple[Places, list[Subject]]]:
    """Where the roles run then, and what they talk over; all of it gone however the block is left.

    The server's host forwards between the other two: in layout (a) the actors' way to the learner.
    Raises TransportError without the privilege, or without ip(8).
    """
    require_namespaces()
    tag = f"drl{os.getpid()}"
    server = f"{tag}s"
    actors = _Link(f"{tag}a", "10.7.1.2", f"{tag}x", "10.7.1.1")
    learner = _Link(f"{tag}l", "10.7.2.2", f"{tag}y", "10.7.2.1")
    with ExitStack() as stack:
        for namespace in (server, actors.host, learner.host):
            ip("netns", "add", namespace)
            stack.callback(ip, "netns", "delete", namespace)  # its interfaces go with it
            ip("-n", namespace, "link", "set", "lo", "up")
        for link in (actors, learner):
            _join(link, server)
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        ip("netns", "exec", server, "sh", "-c", forward)
        places = Places(
            cores,
            _program(server),
            _program(actors.host),
            _program(learner.host),
            f"udp://{learner.ip}:{_PORT}",
        )
        listen = f"udp://{learner.server_ip}:{_PORT}"
        yield places, [Subject("udp block", listen, "block"), Subject("udp busy", listen, "busy")]


def _join(link: _Link, server: str) -> None:
    ip(
        *("link", "add", link.host, "netns", link.host, "mtu", "9000"),
        *("type", "veth", "peer", "name", link.server_interface, "netns", server),
    )
    ends = ((link.host, link.host, link.ip), (server, link.server_interface, link.server_ip))
    for namespace, interface, address in ends:
        ip("-n", namespace, "address", "add", f"{address}/24", "dev", interface)
        ip("-n", namespace, "link", "set", interface, "mtu", "9000", "up")
    ip("-n", link.host, "route", "add", "default", "via", link.server_ip)
