"""What is asked of the server in the guest, by an ordinary client through the bridge."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from frames import ECHO_HEADER_BYTES, HEADER_BYTES, IP_HEADER_BYTES
from guest import NIC_MAC, Guest
from peer import LOCALHOST, Bridge, NoAnswer

from drlnet import Client
from drlnet.client import Column, Item, Table, View, Writer

ANSWER_S = 10.0  # an emulated machine that shares its cores is slow, a lost frame never comes
NO_ANSWER_S = 1.0
LONGEST_ANSWERED_BYTES = 1500  # an IP packet whose ping is answered, on jumbo links too
OBS_FLOATS = 64
STREAMS = 2
STEPS = 100
BATCH = 256  # some 70 kB: many frames
PARAMS_BYTES = 300_000


class Wrong(Exception):
    """The server answered, but not what it should."""


def expect(condition: bool, what: str) -> None:
    if not condition:
        raise Wrong(what)


def check_link(bridge: Bridge, first_number: int = 1) -> None:
    """Finding the server and pinging it, without any client."""
    guest = bridge.resolve(ANSWER_S)
    expect(guest.mac == bytes.fromhex(NIC_MAC.replace(":", "")), f"it is at {guest.mac.hex()}")
    longest = LONGEST_ANSWERED_BYTES - IP_HEADER_BYTES[guest.ip.version] - ECHO_HEADER_BYTES
    for number, size in enumerate((0, 1, 56, 1400, longest), first_number):
        bridge.ping(number, bytes(index % 251 for index in range(size)), ANSWER_S)


def open_table(client: Client) -> Table:
    return client.table(
        "replay",
        columns={"obs": Column("float32", (OBS_FLOATS,)), "reward": Column("float32")},
        item=Item({"obs": View("obs"), "reward": View("reward")}),
        capacity=10_000,
    )


def append(writer: Writer, steps: range) -> None:
    """Rows whose every value is their stream's number and their step's, and an item on each."""
    for step in steps:
        values = np.arange(STREAMS, dtype=np.float32) * 1000 + step
        anchors = writer.append(
            {"obs": np.repeat(values[:, None], OBS_FLOATS, axis=1), "reward": values},
            first=np.full(STREAMS, step == 0),
            last=np.zeros(STREAMS, bool),
        )
        writer.add_items(np.arange(STREAMS), anchors)
    writer.flush()


def check_sample(table: Table) -> None:
    """Draws a batch, looks at every byte of it, and gives its items priorities."""
    batch = table.sample(BATCH, timeout=ANSWER_S)
    obs, reward = batch.views["obs"], batch.views["reward"]
    expect(bool((obs == reward[:, None]).all()), "a sample mixes up rows")
    expect(bool((reward % 1000 < 2 * STEPS).all()), "a sample holds rows that were never appended")
    applied, stale = table.update_priorities(batch.keys, np.full(BATCH, 2.0))
    expect((applied, stale) == (BATCH, 0), f"{applied} priorities applied, {stale} stale")


def check_params(client: Client) -> None:
    params = np.random.default_rng(7).bytes(PARAMS_BYTES)
    version = client.publish(params)
    expect(client.fetch() == (version, params), "fetched params are not those published")


def check_frame_size(bridge: Bridge) -> None:
    """Both sides found out what the link takes, and fill their frames, in whole 8-byte words."""
    limit = HEADER_BYTES + bridge.mtu
    for side, longest in (("client", bridge.longest_sent), ("server", bridge.longest_received)):
        expect(limit - 8 < longest <= limit, f"the {side}'s longest frame has {longest} bytes")


def check_cut_cable(guest: Guest, bridge: Bridge, client: Client, writer: Writer) -> None:
    """Appends while the cable is out: the same session brings them once it is in again."""
    guest.set_link(False)
    try:
        bridge.ping(100, b"", NO_ANSWER_S)
    except NoAnswer:
        pass
    else:
        raise Wrong("the server answers with its cable out")
    failures: list[BaseException] = []

    def append_meanwhile() -> None:
        try:
            append(writer, range(STEPS, 2 * STEPS))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=append_meanwhile, name="append")
    thread.start()
    thread.join(NO_ANSWER_S)
    waited = thread.is_alive()
    guest.set_link(True)
    # Not a fixed wait for the link: each question has the time that an answer may take.
    check_link(bridge, 101)
    thread.join()  # the writer has a deadline of its own
    if failures:
        raise failures[0]
    expect(waited, "an append was confirmed with the cable out")
    client.ping(64)


def check_server(guest: Guest, bridge: Bridge, report: Callable[[str], None]) -> None:
    """Everything, in order; `report` is told what begins. Raises at the first thing wrong."""
    report("resolution, ping")
    check_link(bridge)
    report("session")
    with Client(f"udp://{LOCALHOST}:{bridge.port}", timeout=ANSWER_S) as client:
        for size in (0, 64, 1024, 8192):
            client.ping(size)
        report("append")
        table = open_table(client)
        with table.writer(STREAMS, timeout=2 * ANSWER_S) as writer:
            append(writer, range(STEPS))
            report("sample, update")
            check_sample(table)
            report("publish, fetch")
            check_params(client)
            report("cable out and in")
            check_cut_cable(guest, bridge, client, writer)
            report("sample, update again")
            batch_count = table.sample(1, timeout=ANSWER_S).item_count
            expect(batch_count == 2 * STEPS * STREAMS, f"{batch_count} items after the cut")
            check_sample(table)
            check_params(client)
    check_frame_size(bridge)
    expect(not bridge.malformed, "frames that no host may send: " + "; ".join(bridge.malformed))
