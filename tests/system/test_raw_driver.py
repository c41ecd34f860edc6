"""A server of shared-memory links beside drivers that say what no client of ours says."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from system import raw_driver
from system.command import DEADLINE_S, serving
from system.local_link import LinkedClient, linked, meeting_place
from system.raw_driver import (
    ARP_QUESTION,
    BASE,
    FROM_DRIVER,
    GET_FEATURES,
    HEADER_BYTES,
    LINK_BYTES,
    SERVER_IP,
    SIZE,
    TO_DRIVER,
    RawDriver,
    datagram,
)

__all__ = ["meeting_place"]

UNTOLD = 16  # of buffers that it reads, the device tells after this many


@contextmanager
def beside(folder: Path, place: Path) -> Iterator[tuple[LinkedClient, Callable[[], RawDriver]]]:
    """A server's client, which is served to the end, and what makes raw drivers beside it."""
    with serving(folder, "dpdk:local:raw") as (server, address), linked(address) as good:
        yield good, lambda: RawDriver(place / "raw")
        looked(good)
        with linked(address) as another:
            assert "ping_us" in another.ping()
        assert server.popen.poll() is None, server.text()


def looked(good: LinkedClient) -> None:
    """The server has looked at all of its rings: whenever it looks for a ping."""
    for _ in range(3):
        assert "ping_us" in good.ping()


def until(good: LinkedClient, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, "the ring is not served"
        looked(good)


def read_all(good: LinkedClient, raw: RawDriver) -> None:
    """Buffers posted, until the device tells that it has read them."""
    first = raw.next[FROM_DRIVER]
    assert first % UNTOLD == 0
    for _ in range(UNTOLD):
        raw.post(FROM_DRIVER, b"no frame of ours")
    until(good, lambda: raw.used(FROM_DRIVER, first))


def polled(done: Callable[[], bool]) -> float:
    """Waits for what is not announced, and returns how long that took, in seconds."""
    begin = time.monotonic()
    while not done():
        assert time.monotonic() < begin + DEADLINE_S, "the server does nothing"
        time.sleep(0.0005)
    return time.monotonic() - begin


def answered(good: LinkedClient, raw: RawDriver) -> bytes:
    """That the ring is served; the server's MAC address."""
    index = raw.post(TO_DRIVER)
    raw.post(FROM_DRIVER, ARP_QUESTION)
    until(good, lambda: raw.used(TO_DRIVER, index))
    at = raw.buffer(TO_DRIVER, index) + HEADER_BYTES
    assert raw.memory[at + 20 : at + 22] == b"\0\2", "a reply"
    assert raw.memory[at + 28 : at + 32] == SERVER_IP
    return raw.memory[at + 6 : at + 12]


FRAME_BYTES = 1232
PART = bytes(FRAME_BYTES - 64)  # of a message of two
WELCOME, RESPONSE = 2, 7


def session_frame(
    kind: int, connection: int, request: int, offset: int, message: int, payload: bytes
) -> bytes:
    """A frame of lane 0 that belongs to a ping of `message` bytes (PROTOCOL.md)."""
    head = struct.pack("<HBBIQ16xBBHHH", 0x4C44, 2, kind, connection, 1, 0, 0, 0, FRAME_BYTES, 0)
    return head + struct.pack("<QIIII", request, message, offset, len(payload), 8192) + payload


def received(raw: RawDriver, kind: int) -> list[int]:
    """Buffers that hold a frame of that kind, of those posted so far."""
    posted = [index for index in range(raw.next[TO_DRIVER]) if raw.used(TO_DRIVER, index)]
    place = HEADER_BYTES + LINK_BYTES + 3
    return [index for index in posted if raw.memory[raw.buffer(TO_DRIVER, index) + place] == kind]


def ask_twice(good: LinkedClient, raw: RawDriver) -> bytes:
    """Has a long ping answered; what asks for the same two frames again."""
    mac = answered(good, raw)
    for _ in range(6):  # for acks, too
        raw.post(TO_DRIVER)
    raw.post(FROM_DRIVER, datagram(mac, session_frame(1, 0, 0, 0, 0, bytes(112))))
    until(good, lambda: bool(received(raw, WELCOME)))
    at = raw.buffer(TO_DRIVER, received(raw, WELCOME)[0]) + HEADER_BYTES + LINK_BYTES
    connection = struct.unpack_from("<I", raw.memory, at + 4)[0]
    parts = [
        datagram(mac, session_frame(4, connection, 1, offset, 2 * len(PART), PART))
        for offset in (0, len(PART))
    ]
    for part in parts:
        raw.post(FROM_DRIVER, part)
    until(good, lambda: len(received(raw, RESPONSE)) == 2)
    return parts[0]


WRONG: list[dict[str, int]] = [
    {"address": 0},
    {"address": BASE - 1},
    {"address": BASE + SIZE - 8},
    {"address": 2**64 - 8},
    {"length": 2**32 - 1},
    {"length": SIZE},
    {"length": HEADER_BYTES},
    {"flags": raw_driver.NEXT},
    {"flags": raw_driver.INDIRECT},
    {"flags": raw_driver.WRITABLE},  # or not, where it should be
]


def test_a_ring_that_says_wrong_things_is_left_alone(tmp_path: Path, meeting_place: Path) -> None:
    with beside(tmp_path, meeting_place) as (good, connect):
        for wrong in WRONG:
            with connect() as raw:
                read_all(good, raw)
                bad = raw.post(FROM_DRIVER, b"no frame of ours", **wrong)
                for _ in range(UNTOLD):
                    raw.post(FROM_DRIVER, b"no frame of ours")
                looked(good)
                assert not raw.used(FROM_DRIVER, bad), wrong
            with connect() as raw:
                answered(good, raw)
                bad = raw.post(TO_DRIVER, **wrong)
                raw.post(TO_DRIVER)
                raw.post(FROM_DRIVER, ARP_QUESTION)
                looked(good)
                assert not raw.used(TO_DRIVER, bad), wrong


def test_a_long_reply_is_written_into_good_buffers_only(
    tmp_path: Path, meeting_place: Path
) -> None:
    with beside(tmp_path, meeting_place) as (good, connect):
        for wrong in (*WRONG, {"length": FRAME_BYTES}):
            for before in (0, 1):
                with connect() as raw:
                    again = ask_twice(good, raw)
                    while not raw.used(TO_DRIVER, raw.next[TO_DRIVER] - 1):
                        raw.post(FROM_DRIVER, again)
                        looked(good)
                    fitting = [raw.post(TO_DRIVER) for _ in range(before)]
                    bad = raw.post(TO_DRIVER, **wrong)
                    raw.post(TO_DRIVER)
                    raw.post(FROM_DRIVER, again)
                    looked(good)
                    assert all(raw.used(TO_DRIVER, index) for index in fitting), wrong
                    assert not raw.used(TO_DRIVER, bad), wrong


def test_rings_that_leave_their_memory_are_closed(tmp_path: Path, meeting_place: Path) -> None:
    def number(ring_number: int) -> bytes:
        return struct.pack("<II", FROM_DRIVER, ring_number)

    changes: list[Callable[[RawDriver, int], None]] = [
        lambda raw, flags: raw.share(4096, flags),
        lambda raw, flags: raw.tell(raw_driver.SET_VRING_NUM, number(32768), flags=flags),
        lambda raw, flags: raw.tell(raw_driver.SET_VRING_NUM, number(2**31), flags=flags),
        lambda raw, flags: raw.tell(raw_driver.SET_VRING_BASE, number(0x7FFF), flags=flags),
    ]
    with beside(tmp_path, meeting_place) as (good, connect):
        for flags in (0, raw_driver.NEED_REPLY):
            for change in changes:
                with connect() as raw:
                    read_all(good, raw)
                    change(raw, flags)
                    raw.ask(GET_FEATURES)  # answered, or hung up, when that is done
                    for _ in range(UNTOLD):
                        raw.post(FROM_DRIVER, b"no frame of ours")
                    looked(good)
                    assert not raw.used(FROM_DRIVER, UNTOLD)


def test_rings_go_on_after_any_message_where_they_were(tmp_path: Path, meeting_place: Path) -> None:
    with beside(tmp_path, meeting_place) as (good, connect), connect() as raw:
        read_all(good, raw)
        first = raw.post(FROM_DRIVER, b"no frame of ours")
        raw.post(FROM_DRIVER, b"no frame of ours")
        looked(good)
        assert not raw.used(FROM_DRIVER, first)
        raw.ask(GET_FEATURES)  # what was read is told of then
        assert raw.used(FROM_DRIVER, first)
        answered(good, raw)
        position = raw.ask(raw_driver.GET_VRING_BASE, struct.pack("<II", FROM_DRIVER, 0))
        assert struct.unpack("<II", position)[1] == raw_driver.TURN | raw.next[FROM_DRIVER]


def test_the_doorbells_memory_can_neither_shrink_nor_grow(
    tmp_path: Path, meeting_place: Path
) -> None:
    with beside(tmp_path, meeting_place) as (_, connect), connect() as raw:
        for size in (0, 2 * len(raw.doorbell)):
            with pytest.raises(PermissionError):
                os.ftruncate(raw.doorbell_fd, size)


def test_what_lies_in_rings_that_open_wakes_the_server(tmp_path: Path, meeting_place: Path) -> None:
    with serving(tmp_path, "dpdk:local:raw"), RawDriver(meeting_place / "raw") as raw:

        def took_s() -> float:
            raw.enable(False)
            index = raw.post(TO_DRIVER)
            raw.post(FROM_DRIVER, ARP_QUESTION)
            # It has just fallen asleep then: by itself it looks again a second later.
            raw.doorbell[0] = 2
            polled(lambda: raw.doorbell[0] == 1)
            raw.enable(True)
            return polled(lambda: raw.used(TO_DRIVER, index))

        # Several: on a busy machine one or the other is late for other reasons.
        assert any(took_s() < 0.5 for _ in range(8))
