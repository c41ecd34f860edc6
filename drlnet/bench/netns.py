"""Network namespaces as hosts of their own on this machine, joined by veth pairs: two for bench
transport, three for bench paper. DPDK on an interface is compared with the kernel on it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from drlnet.bench.machine import Cores
from drlnet.bench.paper import suite as paper
from drlnet.bench.paper.roles import Group
from drlnet.bench.processes import left_behind, own
from drlnet.bench.transport import suite as transport
from drlnet.bench.transport.suite import Subject
from drlnet.config.transports import AF_XDP_MTU
from drlnet.errors import TransportError
from drlnet.launch.process import DRLNET
from drlnet.launch.signals import Stop

_TAG = "drl"  # of namespaces and interfaces
_NAMED = Path("/run/netns")  # where ip(8) has namespaces by name
_PORT = 7447
MTU = 9000  # of pairs, where nothing else is asked for
# The pair of bench transport.
_CLIENT_IP, _SERVER_IP = "10.7.0.1", "10.7.0.2"
BLOCK, BUSY = "udp on veth block", "udp on veth busy"
# The hosts of bench paper. The last byte of addresses: the kernel's; those DPDK answers for itself.
_DRIVER = "dpdk:af_packet"
_KERNEL, _SERVER_KERNEL, _DPDK, _SERVER_DPDK, _FIRST_ACTOR = 2, 1, 12, 11, 21


def program_in(namespace: str) -> tuple[str, ...]:
    """`drlnet` inside. ip(8) replaces itself by it, so that it stays our child."""
    return ("ip", "netns", "exec", namespace, *DRLNET)


def veth(mtu: int, *ends: tuple[str, str]) -> None:
    """Joins two namespaces by a pair of interfaces; an end is (namespace, interface's name)."""
    (first, name), (second, peer) = ends
    ip(
        *("link", "add", name, "netns", first, "mtu", str(mtu)),
        *("type", "veth", "peer", "name", peer, "netns", second),
    )
    for namespace, interface in ends:
        ip("-n", namespace, "link", "set", interface, "mtu", str(mtu), "up")


def ip(*words: str) -> None:
    """ip(8) with these words. Raises TransportError with what it says.

    In a session of its own: Ctrl-C is this process's alone, and cuts nothing short half made.
    """
    ended = subprocess.run(
        ["ip", *words], capture_output=True, text=True, check=False, start_new_session=True
    )
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines()
        raise TransportError(
            f"ip {' '.join(words)}: {lines[-1] if lines else f'exit code {ended.returncode}'}",
            "the kernel must allow network namespaces and veth interfaces",
        )


@contextmanager
def namespaces(letters: str, stop: Stop | None = None) -> Iterator[list[str]]:
    """A namespace for each letter, its loopback up; gone, with its interfaces, after the block.

    stop: its second signal, which ends the process at once, takes them away, too. Those of a
    process that was killed go at the next start. Raises TransportError without the privilege, or
    without ip(8).
    """
    if os.geteuid() != 0:
        raise TransportError(
            "--netns makes network namespaces, which takes root", "run it as root: sudo drlnet ..."
        )
    if shutil.which("ip") is None:
        raise TransportError("--netns needs the ip command", "apt-get install iproute2")
    for left in left_behind(_NAMED, _TAG):
        _delete(left.name)
    names = [f"{own(_TAG)}{letter}" for letter in letters]
    with ExitStack() as stack:
        if stop is not None:
            stop.before_abort = stack.close
        for name in names:
            stack.callback(_delete, name)
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        yield names


def _delete(namespace: str) -> None:
    """It may be gone already: another benchmark that starts takes away what is left behind, too."""
    try:
        ip("netns", "delete", namespace)
    except TransportError:
        if (_NAMED / namespace).exists():
            raise


@dataclass(frozen=True)
class Side:
    """One namespace: its name, its end of the pair, its address."""

    namespace: str
    interface: str
    ip: str


@contextmanager
def joined(mtu: int, stop: Stop | None = None) -> Iterator[tuple[Side, Side]]:
    """(client's side, server's side) of a link with that MTU; gone after the block.

    stop, errors: as namespaces().
    """
    with namespaces("cs", stop) as (client, server):
        veth(mtu, (client, client), (server, server))
        yield Side(client, client, _CLIENT_IP), Side(server, server, _SERVER_IP)


@contextmanager
def over_veth(
    mtu: int, stop: Stop | None = None, *, apart: bool = False
) -> Iterator[tuple[transport.Places, list[Subject]]]:
    """Where server and client run on such a link, and what they talk over: kernel to kernel, kernel
    to DPDK and DPDK to DPDK.

    apart: the kernel hands itself each datagram by itself, as a NIC would.
    stop, errors: as namespaces().
    """
    with joined(mtu, stop) as (client, server):
        for side in (client, server) if apart else ():
            ip("-n", side.namespace, "link", "set", side.interface, "gso_max_segs", "1")

        @contextmanager
        def around(subject: Subject) -> Iterator[None]:
            if "af_xdp" in subject.listen and mtu > AF_XDP_MTU:
                raise TransportError(
                    f"AF_XDP takes an MTU of {AF_XDP_MTU} at most, and this pair has {mtu}",
                    f"measure it, and all others at that MTU, with --mtu {AF_XDP_MTU}",
                )
            assert subject.connect is not None
            with ExitStack() as stack:
                if subject.loss:
                    stack.enter_context(_losing(subject.loss, client, server))
                for side, address in ((client, subject.connect), (server, subject.listen)):
                    if address.startswith("udp:"):  # DPDK answers for the address itself
                        words = f"{side.ip}/24", "dev", side.interface
                        ip("-n", side.namespace, "address", "add", *words)
                        stack.callback(ip, "-n", side.namespace, "address", "delete", *words)
                    # The neighbour of the turn before need not have the address now.
                    ip("-n", side.namespace, "neighbour", "flush", "dev", side.interface)
                yield

        programs = program_in(server.namespace), program_in(client.namespace)
        yield transport.Places(*programs, around), _veth_subjects(client, server)


@contextmanager
def _losing(share: float, *sides: Side) -> Iterator[None]:
    """Loses that share of the datagrams that arrive at these sides."""
    parts = 1_000_000
    with ExitStack() as stack:
        for side in sides:
            _nft(side, "add table netdev lossy")
            stack.callback(_nft, side, "delete table netdev lossy")
            hook = f"type filter hook ingress device {side.interface} priority 0"
            _nft(side, f"add chain netdev lossy come {{ {hook} ; }}")
            lost = f"numgen random mod {parts} < {round(parts * share)} drop"
            _nft(side, f"add rule netdev lossy come meta l4proto udp {lost}")
        yield


def _nft(side: Side, words: str) -> None:
    """nft(8) there. Raises TransportError."""
    if shutil.which("nft") is None:
        raise TransportError("--loss takes the nft command", "apt-get install nftables")
    ip("netns", "exec", side.namespace, "nft", words)


def _veth_subjects(client: Side, server: Side) -> list[Subject]:
    udp = f"udp://{_SERVER_IP}:{_PORT}"
    subjects = [Subject(BLOCK, udp, "block", udp), Subject(BUSY, udp, "busy", udp)]
    for driver in ("af_packet", "af_xdp"):
        listen = f"dpdk:{driver}:{server.interface},ip={_SERVER_IP}/24,port={_PORT}"
        connect = f"dpdk:{driver}:{client.interface},ip={_CLIENT_IP}/24,to={_SERVER_IP}:{_PORT}"
        subjects += [
            Subject(f"udp to dpdk:{driver} busy", listen, "busy", udp),
            Subject(f"dpdk:{driver} busy", listen, "busy", connect),
        ]
    return subjects


@dataclass(frozen=True)
class _Link:
    """From a host to the server's host: a network of its own, an interface at each end."""

    host: str  # namespace, and its interface; the server's has a 0 behind it
    network: str  # "10.7.1"

    def join(self, server: str, mtu: int) -> None:
        """Makes it between the two namespaces, which exist."""
        ends = ((self.host, self.host), (server, f"{self.host}0"))
        veth(mtu, *ends)
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
class _Hosts(paper.Places):
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
    cores: Cores, stop: Stop | None = None, mtu: int = MTU
) -> Iterator[tuple[paper.Places, list[Subject]]]:
    """Where the roles run then, and what they talk over; all of it gone after the block.

    mtu: of the links. The server's host forwards between the other two: in layout (a) the actors'
    way to the learner.
    stop, errors: as namespaces().
    """
    with namespaces("sal", stop) as (server, of_actors, of_learner):
        actors, learner = _Link(of_actors, "10.7.1"), _Link(of_learner, "10.7.2")
        for link in (actors, learner):
            link.join(server, mtu)
        forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
        ip("netns", "exec", server, "sh", "-c", forward)
        programs = (program_in(name) for name in (server, of_actors, of_learner))
        hosts = _Hosts(cores, *programs, actors=actors, of_learner=learner)
        kernel = [Subject(transport.BLOCK, "", "block"), Subject(transport.BUSY, "", "busy")]
        yield hosts, [*kernel, Subject(f"{_DRIVER} busy", "", "busy")]
