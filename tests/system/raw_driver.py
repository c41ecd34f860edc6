"""A vhost-user driver without DPDK, to say to a device what no good driver says."""

from __future__ import annotations

import array
import mmap
import os
import socket
import struct
from pathlib import Path

GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE = 8, 9, 10, 11
SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ENABLE = 12, 13, 18
VERSION, NEED_REPLY = 1, 8
# virtio 1, packed rings, buffers in order; vhost-user's own messages.
FEATURES = 1 << 32 | 1 << 34 | 1 << 35 | 1 << 30

TO_DRIVER, FROM_DRIVER = 0, 1
NEXT, WRITABLE, INDIRECT, AVAILABLE, USED = 1, 2, 4, 1 << 7, 1 << 15
TURN = 1 << 15  # of a position

DESCRIPTORS, BUFFER_BYTES, HEADER_BYTES = 64, 2048, 12
BASE = 0x1000_0000  # the driver's address of its memory
RING_BYTES = 4096
SIZE = 2 * RING_BYTES + 2 * DESCRIPTORS * BUFFER_BYTES
EVENTS_AT = DESCRIPTORS * 16  # in the ring's part
SERVER_IP = bytes([169, 254, 77, 1])
ARP_QUESTION = (
    bytes.fromhex("ffffffffffff 020000000009 0806 0001080006040001 020000000009")
    + bytes([169, 254, 77, 9])
    + bytes(6)
    + SERVER_IP
)
UDP_PORT, LINK_BYTES = 7447, 42


def datagram(to_mac: bytes, payload: bytes) -> bytes:
    """A UDP datagram to the server, in a frame. The sum of UDP is left out."""
    client = bytes([169, 254, 77, 9])
    length = 8 + len(payload)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, 0, 0, 64, 17, 0) + client + SERVER_IP
    total = sum(struct.unpack(">10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack(">H", ~total & 0xFFFF) + ip[12:]
    ethernet = to_mac + bytes.fromhex("020000000009 0800")
    return ethernet + ip + struct.pack(">HHHH", UDP_PORT, UDP_PORT, length, 0) + payload


class RawDriver:
    """A client of a meeting place's server that has no session, only rings."""

    def __init__(self, meeting: Path) -> None:
        self.invitation = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.invitation.connect(str(meeting))
        invitation, descriptors, _, _ = socket.recv_fds(self.invitation, 4096, 3)
        # The server's word comes first: 1 while it waits for a frame to be told of.
        self.doorbell_fd = descriptors[0]
        self.doorbell = mmap.mmap(self.doorbell_fd, 0)
        for each in descriptors[1:]:
            os.close(each)
        path = invitation[invitation.index(bytes(meeting)) :].split(b"\0")[0]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(path)
        self.fd = os.memfd_create("rings")
        os.ftruncate(self.fd, SIZE)
        self.memory = mmap.mmap(self.fd, SIZE)
        self.events = [os.eventfd(0) for _ in range(4)]
        self.next = [0, 0]
        self.tell(SET_OWNER)
        self.tell(SET_FEATURES, struct.pack("<Q", FEATURES))
        self.share(SIZE)
        for ring in (TO_DRIVER, FROM_DRIVER):
            at = BASE + ring * RING_BYTES
            self.tell(SET_VRING_NUM, struct.pack("<II", ring, DESCRIPTORS))
            self.tell(SET_VRING_BASE, struct.pack("<II", ring, TURN))
            addresses = (at, at + EVENTS_AT, at + EVENTS_AT + 4, 0)
            self.tell(SET_VRING_ADDR, struct.pack("<II4Q", ring, 0, *addresses))
            for request, event in ((SET_VRING_CALL, 2 * ring), (SET_VRING_KICK, 2 * ring + 1)):
                self.tell(request, struct.pack("<Q", ring), self.events[event])
        self.enable(True)

    def __enter__(self) -> RawDriver:
        return self

    def __exit__(self, *raised: object) -> None:
        self.socket.close()
        self.invitation.close()
        self.memory.close()
        self.doorbell.close()
        for each in (self.fd, self.doorbell_fd, *self.events):
            os.close(each)

    def share(self, size: int, flags: int = 0) -> None:
        """Names the first `size` bytes of the memory to the device, and no others."""
        table = struct.pack("<II4Q", 1, 0, BASE, size, BASE, 0)
        self.tell(SET_MEM_TABLE, table, self.fd, flags=flags)

    def enable(self, on: bool) -> None:
        """Has the device serve both rings, or leave them alone."""
        for ring in (TO_DRIVER, FROM_DRIVER):
            self.tell(SET_VRING_ENABLE, struct.pack("<II", ring, on))
        # Answered when all before it has been done.
        self.ask(GET_FEATURES)

    def tell(self, request: int, payload: bytes = b"", *fds: int, flags: int = 0) -> None:
        """Sends a message of vhost-user."""
        message = struct.pack("<III", request, VERSION | flags, len(payload)) + payload
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([message], rights)

    def ask(self, request: int, payload: bytes = b"", flags: int = 0) -> bytes:
        """Sends one that is answered; empty: the device has hung up."""
        try:
            self.tell(request, payload, flags=flags)
            return self.answer()
        except ConnectionError:
            return b""

    def answer(self) -> bytes:
        """The payload of the device's next answer."""
        head = self.socket.recv(12, socket.MSG_WAITALL)
        return self.socket.recv(struct.unpack("<III", head)[2]) if head else b""

    def post(
        self,
        ring: int,
        frame: bytes = b"",
        *,
        address: int | None = None,
        length: int | None = None,
        flags: int = 0,
    ) -> int:
        """Makes a buffer available, a good one but for what is named; its number."""
        index = self.next[ring] % DESCRIPTORS
        turn = self.next[ring] // DESCRIPTORS % 2 == 0
        self.next[ring] += 1
        at = self.buffer(ring, index)
        self.memory[at + HEADER_BYTES : at + HEADER_BYTES + len(frame)] = frame
        if length is None:
            length = HEADER_BYTES + len(frame) if ring == FROM_DRIVER else BUFFER_BYTES
        flags ^= (WRITABLE if ring == TO_DRIVER else 0) | (AVAILABLE if turn else USED)
        place = ring * RING_BYTES + index * 16
        self.memory[place : place + 14] = struct.pack(
            "<QIH", BASE + at if address is None else address, length, index
        )
        self.memory[place + 14 : place + 16] = struct.pack("<H", flags)  # last: it is seen now
        return index

    def buffer(self, ring: int, index: int) -> int:
        """Where in the memory a buffer lies."""
        return 2 * RING_BYTES + (ring * DESCRIPTORS + index) * BUFFER_BYTES

    def used(self, ring: int, index: int) -> bool:
        """Whether the device has marked that descriptor used in the first round."""
        place = ring * RING_BYTES + index * 16 + 14
        flags = struct.unpack("<H", self.memory[place : place + 2])[0]
        return bool(flags & AVAILABLE and flags & USED)
