"""Ethernet frames with ping and UDP over IPv4 and IPv6, written apart from the code they test.

How hosts find each other's MAC addresses is in resolution.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

Address = IPv4Address | IPv6Address

ETHERTYPES = {4: 0x0800, 6: 0x86DD}
HEADER_BYTES = 14
MIN_FRAME_BYTES = 60
# By IP's version: its header, ICMP's protocol, and what a ping and its answer are called there.
IP_HEADER_BYTES = {4: 20, 6: 40}
PROTOCOLS_ICMP = {4: 1, 6: 58}
ECHO_REQUESTS = {4: 8, 6: 128}
ECHO_REPLIES = {4: 0, 6: 129}
UDP_HEADER_BYTES = ECHO_HEADER_BYTES = 8
PROTOCOL_UDP = 17
DO_NOT_FRAGMENT = 0x4000
HOP_LIMIT = 64

_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_IPV6 = struct.Struct("!IHBB16s16s")
_UDP = struct.Struct("!HHHH")
_ECHO = struct.Struct("!BBHHH")


class Malformed(Exception):
    """A frame whose fields contradict each other, or with a wrong checksum; says which."""


@dataclass(frozen=True)
class Host:
    mac: bytes
    ip: Address


@dataclass(frozen=True)
class Echo:
    """A ping, or with `answers` the reply to one."""

    answers: bool
    number: int
    payload: bytes


@dataclass(frozen=True)
class Datagram:
    from_port: int
    to_port: int
    payload: bytes


@dataclass(frozen=True)
class Packet:
    """What a frame carries: `source` and `target` are its IP addresses."""

    source: Host
    target: Address
    protocol: int
    hop_limit: int
    body: bytes


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071); 0 over data that includes a right one."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def pseudo_header(source: Address, target: Address, protocol: int, length: int) -> bytes:
    """What the checksums of UDP and ICMPv6 cover of the IP header (RFC 768, RFC 8200)."""
    fields = "!BBH" if source.version == 4 else "!IxxxB"
    values = (0, protocol, length) if source.version == 4 else (length, protocol)
    return source.packed + target.packed + struct.pack(fields, *values)


def ethernet(to: bytes, source: bytes, ethertype: int, body: bytes) -> bytes:
    """A frame, padded to Ethernet's smallest as hardware would."""
    return (to + source + struct.pack("!H", ethertype) + body).ljust(MIN_FRAME_BYTES, b"\0")


def ip_frame(
    source: Host, target: Host, protocol: int, body: bytes, hop_limit: int = HOP_LIMIT
) -> bytes:
    """`body` in a frame of the version of its addresses."""
    addresses = (source.ip.packed, target.ip.packed)
    if source.ip.version == 6:
        header = _IPV6.pack(6 << 28, len(body), protocol, hop_limit, *addresses)
    else:
        length = IP_HEADER_BYTES[4] + len(body)

        def with_sum(sum_: int) -> bytes:
            fragment = DO_NOT_FRAGMENT
            fields = (0x45, 0, length, 0, fragment, hop_limit, protocol, sum_)
            return _IPV4.pack(*fields, *addresses)

        header = with_sum(checksum(with_sum(0)))
    return ethernet(target.mac, source.mac, ETHERTYPES[source.ip.version], header + body)


def icmp_checksum(source: Address, target: Address, message: bytes) -> int:
    """Only ICMPv6's covers the addresses."""
    covered = b""
    if source.version == 6:
        covered = pseudo_header(source, target, PROTOCOLS_ICMP[6], len(message))
    return checksum(covered + message)


def echo_frame(source: Host, target: Host, echo: Echo) -> bytes:
    version = source.ip.version
    kind = (ECHO_REPLIES if echo.answers else ECHO_REQUESTS)[version]

    def message(sum_: int) -> bytes:
        return _ECHO.pack(kind, 0, sum_, 1, echo.number) + echo.payload

    whole = message(icmp_checksum(source.ip, target.ip, message(0)))
    return ip_frame(source, target, PROTOCOLS_ICMP[version], whole)


def datagram_frame(source: Host, target: Host, datagram: Datagram) -> bytes:
    length = UDP_HEADER_BYTES + len(datagram.payload)

    def whole(sum_: int) -> bytes:
        header = _UDP.pack(datagram.from_port, datagram.to_port, length, sum_)
        return header + datagram.payload

    # A sum of 0 is sent as its other form: 0 would mean that there is none.
    covered = pseudo_header(source.ip, target.ip, PROTOCOL_UDP, length)
    sum_ = checksum(covered + whole(0)) or 0xFFFF
    return ip_frame(source, target, PROTOCOL_UDP, whole(sum_))


def parse_ip(frame: bytes) -> Packet | None:
    """The IP packet in a frame; None where it holds another protocol. Raises Malformed."""
    if len(frame) < HEADER_BYTES:
        raise Malformed(f"a frame of {len(frame)} bytes")
    mac, body = frame[6:12], frame[HEADER_BYTES:]
    ethertype = int.from_bytes(frame[12:14], "big")
    if ethertype == ETHERTYPES[4]:
        return _parse_ipv4(mac, body)
    if ethertype == ETHERTYPES[6]:
        return _parse_ipv6(mac, body)
    return None


def _parse_ipv4(mac: bytes, body: bytes) -> Packet:
    if len(body) < _IPV4.size:
        raise Malformed("a short IP header")
    version, _, length, _, fragment, hops, protocol, _, source, target = _IPV4.unpack_from(body)
    header_bytes = (version & 15) * 4
    if version >> 4 != 4 or not _IPV4.size <= header_bytes <= length <= len(body):
        raise Malformed("lengths in the IP header")
    if checksum(body[:header_bytes]) != 0:
        raise Malformed("the IP checksum")
    if fragment & ~DO_NOT_FRAGMENT:
        raise Malformed("a fragment: the server never sends one")
    host = Host(mac, ip_address(source))
    return Packet(host, ip_address(target), protocol, hops, body[header_bytes:length])


def _parse_ipv6(mac: bytes, body: bytes) -> Packet:
    if len(body) < _IPV6.size:
        raise Malformed("a short IPv6 header")
    first, length, protocol, hops, source, target = _IPV6.unpack_from(body)
    if first >> 28 != 6 or _IPV6.size + length > len(body):
        raise Malformed("lengths in the IPv6 header")
    host, inner = Host(mac, ip_address(source)), body[_IPV6.size : _IPV6.size + length]
    return Packet(host, ip_address(target), protocol, hops, inner)


def parse_content(packet: Packet) -> Echo | Datagram | None:
    """What a packet carries; None for protocols that this link does not speak. Raises Malformed."""
    version, body = packet.source.ip.version, packet.body
    if packet.protocol == PROTOCOL_UDP:
        return _parse_udp(packet)
    if packet.protocol != PROTOCOLS_ICMP[version]:
        return None
    if len(body) < _ECHO.size or icmp_checksum(packet.source.ip, packet.target, body) != 0:
        raise Malformed("the ICMP checksum")
    kind, _, _, _, number = _ECHO.unpack_from(body)
    if kind not in (ECHO_REQUESTS[version], ECHO_REPLIES[version]):
        return None
    return Echo(kind == ECHO_REPLIES[version], number, body[_ECHO.size :])


def _parse_udp(packet: Packet) -> Datagram:
    body = packet.body
    if len(body) < _UDP.size:
        raise Malformed("a short UDP header")
    from_port, to_port, length, sum_ = _UDP.unpack_from(body)
    if length != len(body):
        raise Malformed("the length in the UDP header")
    covered = pseudo_header(packet.source.ip, packet.target, PROTOCOL_UDP, length)
    # IPv4 may leave the sum out, IPv6 may not (RFC 8200, section 8.1).
    if (sum_ != 0 or packet.target.version == 6) and checksum(covered + body) != 0:
        raise Malformed("the UDP checksum")
    return Datagram(from_port, to_port, body[_UDP.size :])
