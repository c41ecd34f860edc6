"""native/drlnet.lua: its names are PROTOCOL.md's, and tshark reads a real session with it."""

from __future__ import annotations

import re
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from served import serving
from test_protocol import DOCUMENT, FLAT, NATIVE, enumerators, source

from drlnet.client import Client, Column, Item, View
from drlnet.errors import DrlnetError

LUA = NATIVE / "drlnet.lua"
TEXT = LUA.read_text(encoding="utf-8")
needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="needs tshark: apt-get install tshark"
)


def names(table: str) -> list[str]:
    """The strings of a table of names, by their numbers from 0."""
    body = re.search(rf"local {table} = \{{(.*?)\}}", TEXT, re.DOTALL)
    assert body
    return re.findall(r'"(\w+)"', body[1])


def messages(table: str) -> dict[str, str]:
    body = re.search(rf"local {table} = \{{(.*?)\n\}}", TEXT, re.DOTALL)
    assert body
    found = dict(re.findall(r'(\w+) = "([^"]+)"', body[1]))
    return found | dict(re.findall(rf'{table}\.(\w+) = "([^"]+)"', TEXT))


def test_names_are_those_of_the_core() -> None:
    assert dict(enumerate(names("KINDS")))[1] == "hello"
    for table, path, kind in [
        ("KINDS", "wire/frame.h", "FrameKind"),
        ("LANES", "wire/frame.h", "Lane"),
        ("STATUSES", "base/error.h", "Status"),
        ("WAITS", "spec/wait.h", "Wait"),
    ]:
        found = {name: number for number, name in enumerate(names(table))}
        assert {name: found[name] for name in enumerators(path, kind)} == enumerators(path, kind)
    declared = re.findall(r"^DRLNET_OPERATION\((\w+),", source("wire/operations.def"), re.M)
    assert names("OPERATIONS") == declared


def test_fields_are_those_of_the_header() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", DOCUMENT, re.MULTILINE)
    ours = re.findall(r'\{(\d+), (\d+), "(\w+)"', TEXT)
    assert ours == [row for row in rows if row[2] != "reserved"]


def test_messages_are_those_of_the_document() -> None:
    rows = re.findall(r"^\| \d+ (\w+) \| \w+ \| ([^|]+) \| ([^|]+) \|$", DOCUMENT, re.MULTILINE)
    written = {name: (request, reply) for name, request, reply in rows}
    elsewhere = {"append", "sample"}  # below the table of messages
    for side, table in enumerate(("REQUESTS", "REPLIES")):
        for name, message in messages(table).items():
            request = side == 0 and name == "sample"
            found = written[name][side].replace("as resume", written["resume"][0])
            if name in elsewhere and not request:
                found = FLAT
            assert message in found, name
    for message in messages("OPENINGS").values():
        assert message in FLAT


class Pcap:
    """A file of datagrams, as IPv4."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 17, 101))
        self.datagrams: list[bytes] = []

    def write(self, data: bytes, source: int, to: int) -> None:
        self.datagrams.append(data)
        udp = struct.pack(">HHHH", source, to, 8 + len(data), 0) + data
        local = socket.inet_aton("127.0.0.1")
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, local, local)
        seconds, us = divmod(time.time_ns() // 1000, 1_000_000)
        size = len(ip) + len(udp)
        self._file.write(struct.pack("<IIII", seconds, us, size, size) + ip + udp)

    def close(self) -> None:
        self._file.close()


class Link:
    """Between client and server; what passes it is captured."""

    def __init__(self, pcap: Pcap, server: str) -> None:
        self._pcap = pcap
        self._ours, self._theirs = (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)
        )
        self._ours.bind(("127.0.0.1", 0))
        place = urlsplit(server)
        self._theirs.connect((place.hostname, place.port))
        self.address = f"udp://127.0.0.1:{self._ours.getsockname()[1]}"

    def carry(self, stop: threading.Event) -> None:
        client = ("", 0)
        while not stop.is_set():
            for end in select.select([self._ours, self._theirs], [], [], 0.05)[0]:
                if end is self._ours:
                    data, client = end.recvfrom(1 << 16)
                    self._theirs.send(data)
                    self._pcap.write(data, client[1], 7447)
                else:
                    data = end.recv(1 << 16)
                    self._ours.sendto(data, client)
                    self._pcap.write(data, 7447, client[1])

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


@contextmanager
def captured(pcap: Pcap) -> Iterator[str]:
    """The address of a server whose datagrams are captured."""
    stop = threading.Event()
    with serving() as address:
        link = Link(pcap, address)
        carrying = threading.Thread(target=link.carry, args=(stop,))
        carrying.start()
        try:
            yield link.address
        finally:
            stop.set()
            carrying.join()
            link.close()
            pcap.close()


def use(client: Client) -> None:
    """Every kind of message but those of a restart."""
    table = client.table(
        "replay", columns={"obs": Column("uint8", (84, 84))}, item=Item({"obs": View("obs")}),
        capacity=1000,
    )  # fmt: skip
    with table.writer(1) as writer:
        rows, yes = {"obs": np.ones((1, 84, 84), np.uint8)}, np.ones(1, np.bool_)
        for step in range(30):
            steps = writer.append(rows, yes & (step == 0), ~yes)
            writer.add_items(np.zeros(1, np.int64), steps)
    batch = table.sample(64)  # 450 KB: several frames, and pulls
    table.update_priorities(batch.keys, np.ones(64, np.float32))
    table.read_items(batch.keys[:3])
    table.new_priorities()
    client.publish(b"params" * 100)
    client.fetch(0)
    client.ping()
    client.stats()
    client.tables()
    with pytest.raises(DrlnetError):
        client.table(
            "replay", columns={"obs": Column("float32")}, item=Item({"obs": View("obs")}),
            capacity=1000,
        )  # fmt: skip


def read(capture: Path, *fields: str) -> list[dict[str, list[str]]]:
    """What tshark makes of each datagram: the values of these fields."""
    asked = (word for field in fields for word in ("-e", field))
    ended = subprocess.run(
        ["tshark", "-r", str(capture), "-n", "-X", f"lua_script:{LUA}", "-T", "fields",
         "-E", "occurrence=a", "-E", "aggregator=|", *asked],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "Lua" not in ended.stderr, ended.stderr
    return [
        {
            field: value.split("|") if value else []
            for field, value in zip(fields, line.split("\t"), strict=True)
        }
        for line in ended.stdout.splitlines()
    ]


@needs_tshark
def test_tshark_reads_a_session(tmp_path: Path) -> None:
    file = tmp_path / "session.pcap"
    pcap = Pcap(file)
    with captured(pcap) as address, Client(address, name="who-is-it") as client:
        use(client)
    shown = read(
        file, "drlnet.kind", "drlnet.operation", "drlnet.name", "drlnet.table", "drlnet.batch",
        "drlnet.item_count", "drlnet.count", "drlnet.body_version", "drlnet.cause", "drlnet.status",
        "drlnet.response_time", "drlnet.rows_stored", "_ws.malformed", "_ws.expert.message",
        "_ws.col.Info", "drlnet.checksum", "drlnet.request",
    )  # fmt: skip
    assert len(shown) == len(pcap.datagrams)
    borne = [int.from_bytes(datagram[16:20], "little") for datagram in pcap.datagrams]
    assert [int(row["drlnet.checksum"][0]) for row in shown] == borne
    assert len({*borne}) > len(borne) // 2
    kinds, requests = names("KINDS"), names("OPERATIONS")
    seen: Counter[str] = Counter()
    for row in shown:
        assert row["drlnet.kind"], row
        assert not row["_ws.malformed"] and not row["_ws.expert.message"], row
        for kind, operation in zip(row["drlnet.kind"], row["drlnet.operation"], strict=True):
            seen[kinds[int(kind)]] += 1
            if kinds[int(kind)] == "request":
                seen[requests[int(operation)]] += 1
    assert {"hello", "welcome", "request", "response", "pull", "bye"} <= seen.keys()
    assert {
        *("ping", "open_table", "lease", "append", "sample", "update_priorities", "publish"),
        *("fetch", "stats", "read_items", "new_priorities", "list_tables"),
    } <= seen.keys()
    assert any(row["drlnet.name"] == ["who-is-it"] for row in shown)
    assert any(row["drlnet.batch"] == ["64"] for row in shown)
    assert any(row["drlnet.item_count"] == ["30"] for row in shown)
    assert ["1"] in [row["drlnet.body_version"] for row in shown]
    assert any(row["drlnet.rows_stored"] and int(row["drlnet.rows_stored"][0]) for row in shown)
    refused = [row for row in shown if row["drlnet.cause"]]
    assert {int(row["drlnet.status"][0]) for row in refused} == {
        names("STATUSES").index("table_mismatch")
    }
    # One request was refused: twice, where the client asked again.
    assert len({row["drlnet.request"][0] for row in refused}) == 1
    assert "table_mismatch" in refused[0]["_ws.col.Info"][0]
    times = [float(time) for row in shown for time in row["drlnet.response_time"]]
    assert all(0 <= time < 60 for time in times)
    assert len(times) >= 12 and max(times) > 1e-6


@needs_tshark
def test_frames_that_the_kernel_joined_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "session.pcap"
    session = Pcap(tmp_path / "whole.pcap")
    with captured(session) as address, Client(address, name="a") as client:
        for _ in range(3):
            client.ping()
    pings = [data for data in session.datagrams if data[3] == 4 and data[33] == 0]
    pcap = Pcap(file)
    for data in (b"".join(pings), b"DL no frame", b"other" * 40):
        pcap.write(data, 7447, 40000)
    pcap.close()
    joined, short, other = read(file, "drlnet.kind", "drlnet.request")
    assert joined["drlnet.kind"] == ["4"] * len(pings)
    assert len({*joined["drlnet.request"]}) == 3
    assert not short["drlnet.kind"] and not other["drlnet.kind"]
