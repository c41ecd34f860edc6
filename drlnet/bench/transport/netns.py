"""Two network namespaces joined by a veth pair: DPDK on an interface against the kernel on it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from drlnet.bench.cores import Cores, pin_process
from drlnet.bench.leftovers import left_behind, own
from drlnet.bench.rounds import Effort
from drlnet.bench.transport.cells import Measured
from drlnet.bench.transport.rounds import READY_DEADLINE_S
from drlnet.bench.transport.subjects import Poll, Subject
from drlnet.errors import TransportError
from drlnet.launch.process import DRLNET
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Said, Supervisor

_PORT = 7447
_CLIENT_IP, _SERVER_IP = "10.7.0.1", "10.7.0.2"
_TAG = "drl"  # of namespaces and interfaces
_NAMED = Path("/run/netns")  # where ip(8) has namespaces by name
_QUIET_S = 60.0  # between two cells of the measuring process
BLOCK, BUSY = "udp on veth block", "udp on veth busy"


@dataclass(frozen=True)
class Side:
    """One namespace: its name, its end of the pair, its address."""

    namespace: str
    interface: str
    ip: str

    @property
    def program(self) -> tuple[str, ...]:
        """`drlnet` inside. ip(8) replaces itself by it, so that it stays our child."""
        return ("ip", "netns", "exec", self.namespace, *DRLNET)


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


def require_namespaces() -> None:
    """Raises TransportError without the privilege to make namespaces, or without ip(8)."""
    if os.geteuid() != 0:
        raise TransportError(
            "--netns makes network namespaces, which takes root", "run it as root: sudo drlnet ..."
        )
    if shutil.which("ip") is None:
        raise TransportError("--netns needs the ip command", "apt-get install iproute2")


@contextmanager
def namespaces(letters: str, stop: Stop | None = None) -> Iterator[list[str]]:
    """A namespace for each letter, its loopback up; gone, with its interfaces, after the block.

    stop: its second signal, which ends the process at once, takes them away, too. Those of a
    process that was killed go at the next start. Raises TransportError without the privilege, or
    without ip(8).
    """
    require_namespaces()
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


@contextmanager
def joined(mtu: int, stop: Stop | None = None) -> Iterator[tuple[Side, Side]]:
    """(client's side, server's side) of a link with that MTU; gone after the block.

    stop, errors: as namespaces().
    """
    with namespaces("cs", stop) as names:
        client, server = (
            Side(name, name, address)
            for name, address in zip(names, (_CLIENT_IP, _SERVER_IP), strict=True)
        )
        ip(
            *("link", "add", client.interface, "netns", client.namespace, "mtu", str(mtu)),
            *("type", "veth", "peer", "name", server.interface, "netns", server.namespace),
        )
        for side in (client, server):
            ip("-n", side.namespace, "link", "set", side.interface, "mtu", str(mtu), "up")
        yield client, server


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
    udp_listen, udp_connect = f"udp://{_SERVER_IP}:{_PORT}", f"udp://{_SERVER_IP}:{_PORT}"
    subjects = [
        Subject(BLOCK, udp_listen, "block", udp_connect),
        Subject(BUSY, udp_listen, "busy", udp_connect),
    ]
    poll: Poll = "busy"
    for driver in ("af_packet", "af_xdp"):
        listen = f"dpdk:{driver}:{server.interface},ip={_SERVER_IP}/24,port={_PORT}"
        connect = f"dpdk:{driver}:{client.interface},ip={_CLIENT_IP}/24,to={_SERVER_IP}:{_PORT}"
        subjects += [
            Subject(f"udp to dpdk:{driver} busy", listen, poll, udp_connect),
            Subject(f"dpdk:{driver} busy", listen, poll, connect),
        ]
    return subjects


@contextmanager
def served(stop: Stop, subject: Subject, cores: Cores, sides: tuple[Side, Side]) -> Iterator[bool]:
    """A fresh server in its namespace while entered; both ends are as the subject needs them.

    False when it was stopped before it was ready.
    """
    client, server = sides
    assert subject.connect is not None
    with ExitStack() as stack:
        for side, address in ((client, subject.connect), (server, subject.listen)):
            stack.enter_context(_kernel_address(side, address.startswith("udp:")))
            # Who had the address in the turn before need not have it now.
            ip("-n", side.namespace, "neighbour", "flush", "dev", side.interface)
        serving = stack.enter_context(Supervisor(stop, program=server.program))
        listen = ("--insecure", "--poll", subject.poll, "--listen", subject.listen)
        process = serving.start("server", ["serve", "--json", *listen])
        ready = bool(serving.wait_for_line(process, "ready", READY_DEADLINE_S))
        if ready:
            pin_process(process.pid, cores.server)
        yield ready


def measure_joined(
    stop: Stop, subject: Subject, effort: Effort, cores: Cores, sides: tuple[Side, Side]
) -> list[Measured]:
    """One turn of a subject: server and client are processes in the two namespaces."""
    with served(stop, subject, cores, sides) as ready:
        if not ready:
            return []
        with Supervisor(stop, program=sides[0].program) as measuring:
            return _measured_by_child(stop, measuring, subject, effort, cores)


def _measured_by_child(
    stop: Stop, group: Supervisor, subject: Subject, effort: Effort, cores: Cores
) -> list[Measured]:
    core = () if cores.client is None else ("--core", str(cores.client))
    size = ("--calls", str(effort.calls), "--budget-s", str(effort.budget_s))
    group.start(
        "client",
        [
            *("bench", "transport-client", str(subject.connect), "--poll", subject.poll),
            *(*size, "--warm-up", str(effort.warm_up), *core),
        ],
    )
    measured: list[Measured] = []
    while not stop.is_set():
        events = group.wait(_QUIET_S)
        for event in events:
            if isinstance(event, Said) and event.values.get("event") == "measured":
                measured.append(Measured.from_json(event.values))
            elif isinstance(event, Ended):
                if event.returncode != 0:
                    raise event.process.failure()
                return measured
        if not events and not stop.is_set():
            raise TransportError(
                f"{subject.name}: the measuring client said nothing for {_QUIET_S:g} s",
                "measure less, or look at what else the machine does",
            )
    return measured
