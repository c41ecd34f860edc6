"""Sockets and interfaces of the kernel: what a server can have of them."""

from __future__ import annotations

import fcntl
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from drlnet.config import ServerConfig
from drlnet.config.transports import AF_XDP_MTU
from drlnet.doctor.finding import Finding, failed, passed, warned
from drlnet.doctor.host import (
    CAP_BPF,
    CAP_NET_ADMIN,
    CAP_SYS_ADMIN,
    Host,
    user,
)
from drlnet.doctor.probe import TrialFailed

# As in native/src/transport/udp_socket.h: what is asked of the kernel for each direction.
BUFFER_BYTES = 4 << 20
_MOST_SHOWN = 4
# Numbers of the kernel's headers that Python's socket module lacks.
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104
_AF_XDP = 44
_SIOCGIFFLAGS, _SIOCGIFMTU, _SIOCGIFHWADDR = 0x8913, 0x8921, 0x8927
_IFF_UP, _ARPHRD_ETHER = 1, 1


def server(host: Host) -> Finding:
    """A server and a client over this machine's UDP, in a process of their own."""
    try:
        answer = host.probes.answer("udp")
    except TrialFailed as error:
        return failed(error.cause, error.remedy)
    return passed(f"answers over UDP; samplers: {', '.join(answer['samplers'])}")


def default_port(host: Host) -> Finding:
    """Whether `drlnet serve` could listen where it does by default."""
    place = urlsplit(ServerConfig().listen[0])
    assert place.hostname is not None and place.port is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind((place.hostname, place.port))
        except OSError as error:
            return warned(
                f"{place.netloc}/udp cannot be had: {error.strerror}{_holder(host, place.port)}",
                "`drlnet run` picks a free one; by hand: drlnet serve --listen "
                f"udp://{place.hostname}:0",
            )
    return passed(f"{place.netloc}/udp is free")


def _holder(host: Host, port: int) -> str:
    """The process that has the port, in brackets; empty where this user may not know."""
    for line in (host.text("proc/net/udp") or "").splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) != port:
            continue
        wanted = f"socket:[{fields[9]}]"
        for process in host.entries("proc"):
            if process.name.isdecimal() and _holds(process, wanted):
                name = host.text(f"proc/{process.name}/comm") or "?"
                return f" (process {process.name}, {name})"
    return ""


def _holds(process: Path, wanted: str) -> bool:
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:  # another user's, or it has ended meanwhile
        return False
    for descriptor in descriptors:
        # One that is closed meanwhile: of this very process, the one that read the folder.
        with suppress(OSError):
            if str(descriptor.readlink()) == wanted:
                return True
    return False


def socket_buffers(host: Host) -> Finding:
    """What the kernel grants of the buffers that the udp transport asks for."""
    granted = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        for forced, option in (
            (_SO_RCVBUFFORCE, socket.SO_RCVBUF),
            (_SO_SNDBUFFORCE, socket.SO_SNDBUF),
        ):
            try:  # as the transport does: past the limit where the process may
                tried.setsockopt(socket.SOL_SOCKET, forced, BUFFER_BYTES)
            except PermissionError:
                tried.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
            # The kernel doubles what it grants, for its own bookkeeping.
            granted.append(tried.getsockopt(socket.SOL_SOCKET, option) // 2)
    found = "granted {:,} B to receive, {:,} to send".format(*granted)
    if min(granted) >= BUFFER_BYTES:
        return passed(found)
    limits = " ".join(
        f"net.core.{name}={BUFFER_BYTES}"
        for name, size in zip(("rmem_max", "wmem_max"), granted, strict=True)
        if size < BUFFER_BYTES  # another one may be larger: it stays
    )
    return warned(
        f"{found}, of {BUFFER_BYTES:,}: bursts may be dropped", f"sysctl {limits}, as root"
    )


def udp_offloads(host: Host) -> Finding:
    """Several frames in one system call: GSO to send, GRO to receive."""
    refused = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        for name, option, value in (("GSO", _UDP_SEGMENT, 0), ("GRO", _UDP_GRO, 1)):
            try:
                tried.setsockopt(_SOL_UDP, option, value)
            except OSError:  # which is what is asked here
                refused.append(name)
    if refused:
        return warned(
            f"this kernel has no UDP {' or '.join(refused)}",
            "Linux 5.0 or later has both",
        )
    return passed("GSO and GRO")


@dataclass(frozen=True)
class _Interface:
    name: str
    driver: str
    mtu: int
    default_route: bool

    def text(self) -> str:
        drivers = ["af_packet"]
        if not self.default_route and self.mtu <= AF_XDP_MTU:
            drivers.append("af_xdp")
        route = ", default route" if self.default_route else ""
        return f"{self.name} ({self.driver}, MTU {self.mtu}{route}): {', '.join(drivers)}"


def interfaces(host: Host) -> Finding:
    """The kernel's Ethernet interfaces that are up, and which of DPDK's drivers take them."""
    usable = _usable_interfaces(host)
    if not usable:
        return warned(
            "no Ethernet interface is up: none for dpdk:af_packet or dpdk:af_xdp",
            "ip link set IFACE up, as root; addresses on this machine alone need none",
        )
    shown = "; ".join(each.text() for each in usable[:_MOST_SHOWN])
    more = len(usable) - _MOST_SHOWN
    return passed(shown + (f"; {more} more" if more > 0 else ""))


def _usable_interfaces(host: Host) -> list[_Interface]:
    routed = _default_routes(host)
    usable = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:

        def ask(request: int, name: str, form: str) -> int:
            answer = fcntl.ioctl(kernel, request, struct.pack("16s24x", name.encode()))
            return int(struct.unpack_from(form, answer, 16)[0])

        for _, name in socket.if_nameindex():
            try:
                ethernet = ask(_SIOCGIFHWADDR, name, "H") == _ARPHRD_ETHER
                up = ask(_SIOCGIFFLAGS, name, "H") & _IFF_UP
                mtu = ask(_SIOCGIFMTU, name, "i")
            except OSError:  # it has gone meanwhile
                continue
            if ethernet and up:
                usable.append(_Interface(name, _driver(host, name), mtu, name in routed))
    return usable


def _driver(host: Host, name: str) -> str:
    link = host.root / "sys/class/net" / name / "device/driver"
    return link.resolve().name if link.exists() else "virtual"


def _default_routes(host: Host) -> set[str]:
    """Interfaces that carry one, which af_xdp would cut off."""
    found = set()
    for line in (host.text("proc/net/route") or "").splitlines()[1:]:
        fields = line.split()
        if fields[1] == "00000000":
            found.add(fields[0])
    for line in (host.text("proc/net/ipv6_route") or "").splitlines():
        # destination prefix source prefix next-hop metric references use flags interface
        fields = line.split()
        rejected = int(fields[8], 16) & 0x200
        if not rejected and fields[1] == "00" and not fields[0].strip("0"):
            found.add(fields[9])
    return found


def privileges(host: Host) -> Finding:
    """Which of the transports this process may use: their sockets are opened."""
    lacking: dict[str, str] = {}
    for name, family in (("dpdk:af_packet", socket.AF_PACKET), ("dpdk:af_xdp", _AF_XDP)):
        try:
            socket.socket(family, socket.SOCK_RAW, 0).close()
        except PermissionError:
            lacking[name] = "privilege"
        except OSError as error:
            lacking[name] = error.strerror or str(error)
    attaches = host.has_capabilities(CAP_NET_ADMIN) and (
        host.has_capabilities(CAP_BPF) or host.has_capabilities(CAP_SYS_ADMIN)
    )
    if not attaches:  # an XDP program, to the interface
        lacking.setdefault("dpdk:af_xdp", "privilege")
    if not lacking:
        return passed(f"{user()}: dpdk:af_packet and dpdk:af_xdp, too")
    without = sorted(set(lacking.values()))
    if without != ["privilege"]:
        return warned(
            f"not for {', '.join(lacking)}: {', '.join(without)}",
            "a kernel with those sockets (CONFIG_PACKET, CONFIG_XDP_SOCKETS), and root",
        )
    return warned(
        f"{user()}: not for {', '.join(lacking)}; udp and dpdk:local need none",
        "run as root what uses those addresses",
    )
