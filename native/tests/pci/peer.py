"""The host at the other end of the emulated cable: a bridge from a local UDP port to the link.

It owns an address on the link, answers neighbours' questions and pings for it, and carries
datagrams between 127.0.0.1:<port> and the guest, so that an ordinary client talks to the server in
the guest. Each local client keeps its port number on the link, which is how replies find back.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

from frames import (
    HEADER_BYTES,
    IP_HEADER_BYTES,
    UDP_HEADER_BYTES,
    Address,
    Datagram,
    Echo,
    Host,
    Malformed,
    Packet,
    datagram_frame,
    echo_frame,
    parse_content,
    parse_ip,
)
from resolution import (
    Asked,
    Told,
    answer_frame,
    listened_macs,
    parse_arp,
    parse_discovery,
    question_frame,
)

LOCALHOST = "127.0.0.1"
MAC = bytes.fromhex("525400abcdef")
ASK_AGAIN_S = 0.1
# A link with no place left holds its sender up for so long, then loses the frame.
SEND_PATIENCE_S = 0.5
RECEIVE_BUFFER_BYTES = 4 << 20
MAX_DATAGRAM_BYTES = 65536


class NoAnswer(Exception):
    """The guest did not answer in time; says what was asked, and what came instead."""


def neighbouring_sockets(count: int) -> list[socket.socket]:
    """Sockets on ports of this machine, one behind the other."""
    while True:
        sockets: list[socket.socket] = []
        try:
            for number in range(count):
                local = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                sockets.append(local)
                local.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
                first = sockets[0].getsockname()[1] if number else 0
                local.bind((LOCALHOST, first + number))
        except (OSError, OverflowError):  # the next port is another program's: choose again
            for local in sockets:
                local.close()
        else:
            return sockets


class Bridge:
    """Runs in a thread of its own. counts: frames and datagrams by what became of them.

    Each shard of the guest's server has a port here, too, one behind the other.
    """

    def __init__(
        self,
        own_path: Path,
        nic_path: Path,
        ip: Address,
        guest_ip: Address,
        guest_port: int,
        mtu: int = 1500,
        shards: int = 1,
    ) -> None:
        self.self = Host(MAC, ip)
        self.counts: Counter[str] = Counter()
        self.malformed: list[str] = []
        self.longest_sent = self.longest_received = 0
        self._nic_path = str(nic_path)
        self._guest_ip = guest_ip
        self._guest_port = guest_port
        self.mtu = mtu
        self.header_bytes = IP_HEADER_BYTES[ip.version] + UDP_HEADER_BYTES
        self._listened = {MAC, *listened_macs(self.self)}
        self._guest: Host | None = None
        self._clients: set[int] = set()
        self._echoes: dict[int, bytes] = {}
        self._heard = threading.Condition()
        self._link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._link.bind(str(own_path))
        self._link.settimeout(SEND_PATIENCE_S)
        self._locals = neighbouring_sockets(shards)
        self.port: int = self._locals[0].getsockname()[1]
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="bridge")
        self._failure: BaseException | None = None

    def resolve(self, deadline_s: float) -> Host:
        """Asks for the guest's MAC address until it answers."""
        deadline = time.monotonic() + deadline_s
        with self._heard:
            self._guest = None
        question = question_frame(self.self, self._guest_ip)
        while True:
            self._send(question)
            with self._heard:
                if self._heard.wait_for(lambda: self._guest is not None, ASK_AGAIN_S):
                    assert self._guest is not None
                    return self._guest
            if time.monotonic() > deadline:
                raise NoAnswer(self._explain(f"who has {self._guest_ip}", deadline_s))

    def ping(self, number: int, payload: bytes, deadline_s: float) -> None:
        """One echo request; raises NoAnswer without a reply, or with another payload."""
        guest = self._guest
        assert guest is not None, "resolve() first"
        self._send(echo_frame(self.self, guest, Echo(False, number, payload)))
        with self._heard:
            if not self._heard.wait_for(lambda: number in self._echoes, deadline_s):
                raise NoAnswer(self._explain(f"ping of {len(payload)} bytes", deadline_s))
            if self._echoes.pop(number) != payload:
                raise NoAnswer("the ping's reply carries other bytes than its request")

    def _explain(self, what: str, waited_s: float) -> str:
        return f"no answer to {what} within {waited_s:.1f} s; the bridge saw {dict(self.counts)}"

    def _send(self, frame: bytes) -> None:
        try:
            self._link.sendto(frame, self._nic_path)
            self.counts["sent"] += 1
            self.longest_sent = max(self.longest_sent, len(frame))
        except TimeoutError:
            self.counts["link full"] += 1
        except (FileNotFoundError, ConnectionRefusedError):
            self.counts["no cable"] += 1  # qemu has ended, or not begun

    def _run(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._stopped, selectors.EVENT_READ, None)
                selector.register(self._link, selectors.EVENT_READ, self._from_link)
                for shard, local in enumerate(self._locals):
                    selector.register(local, selectors.EVENT_READ, partial(self._from_local, shard))
                while True:
                    for key, _ in selector.select():
                        if key.data is None:
                            return
                        key.data()
        except BaseException as error:
            self._failure = error  # leaving the block raises it

    def _from_local(self, shard: int) -> None:
        payload, (_, port) = self._locals[shard].recvfrom(MAX_DATAGRAM_BYTES)
        self._clients.add(port)
        if self.header_bytes + len(payload) > self.mtu:
            self.counts["too long for the link"] += 1  # a client that probes sizes
        elif self._guest is None:
            self.counts["guest not known"] += 1
        else:
            datagram = Datagram(port, self._guest_port + shard, payload)
            self._send(datagram_frame(self.self, self._guest, datagram))

    def _from_link(self) -> None:
        frame = self._link.recv(MAX_DATAGRAM_BYTES)
        self.counts["received"] += 1
        self.longest_received = max(self.longest_received, len(frame))
        try:
            if len(frame) > HEADER_BYTES + self.mtu:
                raise Malformed(f"{len(frame)} bytes: longer than the link takes")
            if frame[:6] in self._listened:
                self._take(frame)
        except Malformed as problem:
            self.malformed.append(f"{problem}: {frame[:64].hex()}")

    def _take(self, frame: bytes) -> None:
        packet = parse_ip(frame)
        said = parse_arp(frame) if packet is None else parse_discovery(packet)
        if said is not None:
            self._take_neighbour(said)
        elif packet is None or packet.target != self.self.ip:
            self.counts["not for us"] += 1
        else:
            self._take_packet(packet)

    def _take_packet(self, packet: Packet) -> None:
        content = parse_content(packet)
        if isinstance(content, Datagram):
            self._take_datagram(packet.source, content)
        elif content is None:
            self.counts["of another protocol"] += 1
        elif content.answers:
            with self._heard:
                self._echoes[content.number] = content.payload
                self._heard.notify_all()
        else:
            answer = Echo(True, content.number, content.payload)
            self._send(echo_frame(self.self, packet.source, answer))

    def _take_neighbour(self, said: Asked | Told) -> None:
        if isinstance(said, Asked):
            if said.target == self.self.ip:
                self.counts["neighbours' questions"] += 1
                self._send(answer_frame(self.self, said.sender))
        elif said.sender.ip == self._guest_ip:
            with self._heard:
                self._guest = said.sender
                self._heard.notify_all()

    def _take_datagram(self, source: Host, datagram: Datagram) -> None:
        shard = datagram.from_port - self._guest_port
        known = source.ip == self._guest_ip and 0 <= shard < len(self._locals)
        if known and datagram.to_port in self._clients:
            self._locals[shard].sendto(datagram.payload, (LOCALHOST, datagram.to_port))
        else:
            self.counts["datagram for no socket"] += 1

    def __enter__(self) -> Bridge:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.send(b"x")
        self._thread.join()
        for connection in (self._link, *self._locals, self._stop, self._stopped):
            connection.close()
        if self._failure is not None:
            raise self._failure
