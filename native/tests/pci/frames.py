"""Ethernet frames with ARP, ICMP echo and UDP over IPv4, written apart from the code they test."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_ARP = 0x0806
BROADCAST = b"\xff" * 6
HEADER_BYTES = 14
MIN_FRAME_BYTES = 60
IP_HEADER_BYTES = 20
UDP_HEADER_BYTES = 8
PROTOCOL_ICMP = 1
PROTOCOL_UDP = 17
ARP_REQUEST = 1
ARP_REPLY = 2
ECHO_REQUEST = 8
ECHO_REPLY = 0
DO_NOT_FRAGMENT = 0x4000

_ARP = struct.Struct("!HHBBH6s4s6s4s")
_IP = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")
_ECHO = struct.Struct("!BBHHH")


class Malformed(Exception):
    """A frame whose fields contradict each other, or with a wrong checksum; says which."""


@dataclass(frozen=True)
class Host:
    mac: bytes
    ip: IPv4Address


@dataclass(frozen=True)
class Arp:
    operation: int
    sender: Host
    target_ip: IPv4Address


@dataclass(frozen=True)
class Echo:
    kind: int
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
    target: IPv4Address
    content: Echo | Datagram


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071); 0 over data that includes a right one."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def ethernet(to: bytes, source: bytes, ethertype: int, body: bytes) -> bytes:
    """A frame, padded to Ethernet's smallest as hardware would."""
    return (to + source + struct.pack("!H", ethertype) + body).ljust(MIN_FRAME_BYTES, b"\0")


def arp_frame(operation: int, sender: Host, target_mac: bytes, target_ip: IPv4Address) -> bytes:
    """A question goes to everyone, an answer to who asked."""
    known = b"\0" * 6 if target_mac == BROADCAST else target_mac
    body = _ARP.pack(
        *(1, ETHERTYPE_IPV4, 6, 4, operation),
        *(sender.mac, sender.ip.packed, known, target_ip.packed),
    )
    return ethernet(target_mac, sender.mac, ETHERTYPE_ARP, body)


def _ip_frame(source: Host, target: Host, protocol: int, body: bytes) -> bytes:
    def header(sum_: int) -> bytes:
        return _IP.pack(
            *(0x45, 0, IP_HEADER_BYTES + len(body), 0, DO_NOT_FRAGMENT, 64, protocol, sum_),
            *(source.ip.packed, target.ip.packed),
        )

    packet = header(checksum(header(0))) + body
    return ethernet(target.mac, source.mac, ETHERTYPE_IPV4, packet)


def echo_frame(source: Host, target: Host, echo: Echo) -> bytes:
    def body(sum_: int) -> bytes:
        return _ECHO.pack(echo.kind, 0, sum_, 1, echo.number) + echo.payload

    return _ip_frame(source, target, PROTOCOL_ICMP, body(checksum(body(0))))


def _pseudo_header(source: IPv4Address, target: IPv4Address, length: int) -> bytes:
    return source.packed + target.packed + struct.pack("!HH", PROTOCOL_UDP, length)


def datagram_frame(source: Host, target: Host, datagram: Datagram) -> bytes:
    length = UDP_HEADER_BYTES + len(datagram.payload)

    def body(sum_: int) -> bytes:
        header = _UDP.pack(datagram.from_port, datagram.to_port, length, sum_)
        return header + datagram.payload

    # A sum of 0 is sent as its other form: 0 would mean that there is none.
    sum_ = checksum(_pseudo_header(source.ip, target.ip, length) + body(0)) or 0xFFFF
    return _ip_frame(source, target, PROTOCOL_UDP, body(sum_))


def parse(frame: bytes) -> Arp | Packet | None:
    """What a frame says; None for protocols that this link does not speak. Raises Malformed."""
    if len(frame) < HEADER_BYTES:
        raise Malformed(f"a frame of {len(frame)} bytes")
    ethertype = int.from_bytes(frame[12:14], "big")
    body = frame[HEADER_BYTES:]
    if ethertype == ETHERTYPE_ARP:
        return _parse_arp(body)
    if ethertype == ETHERTYPE_IPV4:
        return _parse_ip(frame[6:12], body)
    return None


def _parse_arp(body: bytes) -> Arp:
    if len(body) < _ARP.size:
        raise Malformed("a short ARP packet")
    *kinds, operation, mac, ip, _, target_ip = _ARP.unpack_from(body)
    if kinds != [1, ETHERTYPE_IPV4, 6, 4] or operation not in (ARP_REQUEST, ARP_REPLY):
        raise Malformed("an ARP packet for other hardware")
    return Arp(operation, Host(mac, IPv4Address(ip)), IPv4Address(target_ip))


def _parse_ip(mac: bytes, body: bytes) -> Packet | None:
    if len(body) < IP_HEADER_BYTES:
        raise Malformed("a short IP header")
    version, _, length, _, fragment, _, protocol, _, source, target = _IP.unpack_from(body)
    header_bytes = (version & 15) * 4
    if version >> 4 != 4 or not IP_HEADER_BYTES <= header_bytes <= length <= len(body):
        raise Malformed("lengths in the IP header")
    if checksum(body[:header_bytes]) != 0:
        raise Malformed("the IP checksum")
    if fragment & ~DO_NOT_FRAGMENT:
        raise Malformed("a fragment: the server never sends one")
    host, target_ip = Host(mac, IPv4Address(source)), IPv4Address(target)
    inner = body[header_bytes:length]
    if protocol == PROTOCOL_ICMP:
        return Packet(host, target_ip, _parse_echo(inner))
    if protocol == PROTOCOL_UDP:
        return Packet(host, target_ip, _parse_udp(host.ip, target_ip, inner))
    return None


def _parse_echo(body: bytes) -> Echo:
    if len(body) < _ECHO.size or checksum(body) != 0:
        raise Malformed("the ICMP checksum")
    kind, _, _, _, number = _ECHO.unpack_from(body)
    return Echo(kind, number, body[_ECHO.size :])


def _parse_udp(source: IPv4Address, target: IPv4Address, body: bytes) -> Datagram:
    if len(body) < UDP_HEADER_BYTES:
        raise Malformed("a short UDP header")
    from_port, to_port, length, sum_ = _UDP.unpack_from(body)
    if length != len(body):
        raise Malformed("the length in the UDP header")
    if sum_ != 0 and checksum(_pseudo_header(source, target, length) + body) != 0:
        raise Malformed("the UDP checksum")
    return Datagram(from_port, to_port, body[UDP_HEADER_BYTES:])
