"""Sockets and interfaces, with conditions made bad on this machine where it can be done."""

from __future__ import annotations

import ctypes
import os
import re
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from doctor.machine import machine, this_machine

from drlnet.bench.netns import joined
from drlnet.config import ServerConfig
from drlnet.config.transports import AF_XDP_MTU
from drlnet.doctor import Finding, Host, network
from drlnet.errors import TransportError

NATIVE = Path(__file__).resolve().parents[2] / "native"


def test_a_server_that_answers_and_one_that_does_not() -> None:
    assert network.server(this_machine(udp={"samplers": ["uniform"]})).verdict == "pass"
    finding = network.server(this_machine())
    assert (finding.verdict, finding.found, finding.remedy) == (
        "fail",
        "udp is not there",
        "install udp",
    )


def test_a_port_that_is_taken_and_by_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    # Numbers below the socket's are free: the folder of descriptors takes one, and lists itself.
    free = os.pipe()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        for number in free:
            os.close(number)
        # An address of its own: no other process takes the port once it is free.
        taken.bind(("127.0.0.77", 0))
        port = taken.getsockname()[1]
        config = ServerConfig(listen=(f"udp://127.0.0.77:{port}",))
        monkeypatch.setattr(network, "ServerConfig", lambda: config)
        finding = network.default_port(this_machine())
        assert finding.verdict == "warn"
        assert f"127.0.0.77:{port}/udp cannot be had: Address already in use" in finding.found
        assert f"(process {os.getpid()}, " in finding.found
        assert "--listen udp://127.0.0.77:0" in finding.remedy
    assert network.default_port(this_machine()).verdict == "pass"


def test_the_default_port_is_that_of_the_native_core() -> None:
    header = (NATIVE / "src/transport/udp_address.h").read_text()
    found = re.search(r"kDefaultPort = (\d+)", header)
    assert found is not None
    assert ServerConfig().listen == (f"udp://127.0.0.1:{found.group(1)}",)


def test_buffers_are_those_that_the_transport_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    header = (NATIVE / "src/transport/udp_socket.h").read_text()
    found = re.search(r"int buffer_bytes = (\d+) << (\d+);", header)
    assert found is not None
    assert int(found.group(1)) << int(found.group(2)) == network.BUFFER_BYTES
    # More than any kernel grants.
    monkeypatch.setattr(network, "BUFFER_BYTES", 2**31 - 1)
    finding = network.socket_buffers(this_machine())
    assert finding.verdict == "warn"
    assert "net.core.rmem_max=" in finding.remedy
    assert "net.core.wmem_max=" in finding.remedy
    monkeypatch.setattr(network, "BUFFER_BYTES", 4096)
    assert network.socket_buffers(this_machine()).verdict == "pass"


def test_a_limit_that_is_large_enough_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Socket(socket.socket):
        def getsockopt(self, level: int, option: int) -> int:  # type: ignore[override]
            return 2 * (network.BUFFER_BYTES if option == socket.SO_RCVBUF else 4096)

    monkeypatch.setattr(network.socket, "socket", Socket)
    finding = network.socket_buffers(this_machine())
    assert finding.remedy == f"sysctl net.core.wmem_max={network.BUFFER_BYTES}, as root"


def test_a_kernel_without_offloads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert network.udp_offloads(this_machine()).verdict == "pass"
    monkeypatch.setattr(network, "_UDP_GRO", 9999)  # an option that this kernel lacks, too
    finding = network.udp_offloads(this_machine())
    assert finding.verdict == "warn"
    assert "no UDP GRO" in finding.found


def look_in_namespace(look: Callable[[Host], Finding], mtu: int) -> tuple[str, Finding]:
    """What a check finds in a network namespace that holds one end of a veth pair, and its name."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        with ExitStack() as stack:
            client, _ = stack.enter_context(joined(mtu))
            own = stack.enter_context(Path("/proc/thread-self/ns/net").open())
            other = stack.enter_context((Path("/run/netns") / client.namespace).open())
            assert libc.setns(other.fileno(), 0) == 0
            try:
                return client.interface, look(this_machine())
            finally:
                assert libc.setns(own.fileno(), 0) == 0
    except TransportError as error:
        pytest.skip(str(error))


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces take root")
@pytest.mark.parametrize(("mtu", "drivers"), [(1500, "af_packet, af_xdp"), (9000, "af_packet")])
def test_interfaces_and_what_takes_them(mtu: int, drivers: str) -> None:
    name, finding = look_in_namespace(network.interfaces, mtu)
    assert finding.verdict == "pass"
    assert finding.found == f"{name} (virtual, MTU {mtu}): {drivers}"


def test_no_interface_that_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network.socket, "if_nameindex", lambda: [(1, "lo")])
    finding = network.interfaces(this_machine())
    assert finding.verdict == "warn"
    assert "ip link set" in finding.remedy


def test_an_interface_with_the_default_route_is_not_for_xdp(tmp_path: Path) -> None:
    v4 = "Iface\tDestination\tGateway\neth7\t00000000\t0100000A\neth8\t0000A8C0\t00000000\n"
    zero, one = "0" * 32, "0" * 31 + "1"
    v6 = (
        f"{zero} 00 {zero} 00 {one} 00000400 00000001 00000000 00000003 eth9\n"
        f"{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200 lo\n"
    )
    host = machine(tmp_path, {"proc/net/route": v4, "proc/net/ipv6_route": v6})
    assert network._default_routes(host) == {"eth7", "eth9"}


def test_privileges_follow_the_sockets_that_open(monkeypatch: pytest.MonkeyPatch) -> None:
    host = this_machine()
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
        allowed = True
    except PermissionError:
        allowed = False
    finding = network.privileges(host)
    assert ("dpdk:af_packet" in finding.found and finding.verdict == "warn") != allowed
    monkeypatch.setattr(network, "_AF_XDP", 9999)  # a family that this kernel lacks
    finding = network.privileges(host)
    assert finding.verdict == "warn"
    assert "dpdk:af_xdp" in finding.found


def test_the_right_to_attach_a_program(tmp_path: Path) -> None:
    sockets_alone = 1 << 13  # CAP_NET_RAW
    host = machine(tmp_path, {"proc/self/status": f"Name:\tx\nCapEff:\t{sockets_alone:016x}\n"})
    finding = network.privileges(host)
    assert finding.verdict == "warn"
    assert "dpdk:af_xdp" in finding.found
    assert "root" in finding.remedy


def test_the_largest_frame_of_xdp_is_that_of_the_native_core() -> None:
    text = (NATIVE / "dpdk/nic_link.cc").read_text()
    assert f"an MTU of at most {AF_XDP_MTU}" in text
