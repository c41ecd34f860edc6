"""Two network namespaces joined by a veth pair: DPDK on an interface against the kernel on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from drlnet.bench.netns import ip, namespaces, program_in, veth
from drlnet.bench.transport.subjects import Poll, Subject
from drlnet.bench.transport.suite import Places
from drlnet.launch.signals import Stop

_PORT = 7447
_CLIENT_IP, _SERVER_IP = "10.7.0.1", "10.7.0.2"
BLOCK, BUSY = "udp on veth block", "udp on veth busy"


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


def places_of(client: Side, server: Side) -> Places:
    """Where server and client run."""

    @contextmanager
    def around(subject: Subject) -> Iterator[None]:
        assert subject.connect is not None
        with ExitStack() as stack:
            for side, address in ((client, subject.connect), (server, subject.listen)):
                stack.enter_context(_kernel_address(side, address.startswith("udp:")))
                # The neighbour of the turn before need not have the address now.
                ip("-n", side.namespace, "neighbour", "flush", "dev", side.interface)
            yield

    programs = program_in(server.namespace), program_in(client.namespace)
    return Places(*programs, around, insecure=True)


@contextmanager
def _kernel_address(side: Side, wanted: bool) -> Iterator[None]:
    """The kernel answers for the side's address while entered: DPDK needs one of its own."""
    if not wanted:
        yield
        return
    words = (f"{side.ip}/24", "dev", side.interface)
    ip("-n", side.namespace, "address", "add", *words)
    try:
        yield
    finally:
        ip("-n", side.namespace, "address", "delete", *words)


def veth_subjects(client: Side, server: Side) -> list[Subject]:
    """Kernel to kernel, kernel to DPDK and DPDK to DPDK over the same pair."""
    udp = f"udp://{_SERVER_IP}:{_PORT}"
    subjects = [Subject(BLOCK, udp, "block", udp), Subject(BUSY, udp, "busy", udp)]
    poll: Poll = "busy"
    for driver in ("af_packet", "af_xdp"):
        listen = f"dpdk:{driver}:{server.interface},ip={_SERVER_IP}/24,port={_PORT}"
        connect = f"dpdk:{driver}:{client.interface},ip={_CLIENT_IP}/24,to={_SERVER_IP}:{_PORT}"
        subjects += [
            Subject(f"udp to dpdk:{driver} busy", listen, poll, udp),
            Subject(f"dpdk:{driver} busy", listen, poll, connect),
        ]
    return subjects
