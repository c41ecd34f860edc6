"""Several shards on one interface, DPDK's, with clients in another network namespace."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from system.command import SMALL, command
from system.joined import (
    DRIVERS,
    serve,
    serving,
    sides,
    skip_where_there_are_none,
    stats,
    within,
)
from system.using import use

from drlnet.bench.netns import Side

pytestmark = pytest.mark.exhaustive

__all__ = ["sides"]

skip_where_there_are_none()


@pytest.mark.parametrize("client", ["kernel", "dpdk"])
@pytest.mark.parametrize(
    ("driver", "settings"), [("af_packet", ""), ("af_packet", ",queues=1"), ("af_xdp", "")]
)
def test_two_shards_of_one_interface(
    tmp_path: Path, sides: tuple[Side, Side], driver: str, settings: str, client: str
) -> None:
    there, here = sides
    address = f"udp://{here.ip}:7447"
    if client == "dpdk":
        address = f"dpdk:{driver}:{there.interface},ip=10.7.0.3,to={here.ip}"
    listen = f"dpdk:{driver}:{here.interface},ip={here.ip}{settings}"
    with serving(tmp_path, here, listen, shards=2):
        figures = use(address, within(there))
        assert figures["table.t.items_created"] == 15
        assert figures["table.t.rows"] == 15
        told = stats(tmp_path, there, address)
        assert told["table.t.items_drawn"] == 60
        assert told["table.t.applied_updates"] == 60
        # A veth has one queue for af_xdp, too: whichever shard looks finds frames of both.
        if settings or driver == "af_xdp":
            assert told["transport.dpdk.frames_handed_over"] > 0


@pytest.mark.parametrize("driver", DRIVERS)
def test_training_over_two_shards_of_one_interface(
    tmp_path: Path, sides: tuple[Side, Side], driver: str
) -> None:
    there, here = sides
    listen = f"dpdk:{driver}:{here.interface},ip={here.ip}"
    server = ("CartPole-v1", "--server", f"udp://{here.ip}:7447", "--json", *SMALL)
    with serving(tmp_path, here, listen, shards=2), ExitStack() as actors:
        for _ in range(2):
            actors.enter_context(command(tmp_path, "actor", *server, within=within(there)))
        steps = ("--set", "run.max_learner_steps=200")
        with command(tmp_path, "learn", *server, *steps, within=within(there)) as learning:
            assert learning.end() == 0, learning.text()
            assert learning.last_json()["learner_steps"] == 200
        told = stats(tmp_path, there, f"udp://{here.ip}:7447")
        assert told["table.replay.capacity"] == 5000
        assert told["table.replay.items_drawn"] >= 200 * 32


def test_a_shard_needs_a_port_of_its_own(tmp_path: Path, sides: tuple[Side, Side]) -> None:
    _, here = sides
    listen = f"dpdk:af_packet:{here.interface},ip={here.ip},port=65535"
    refused = serve(tmp_path, here, listen, shards=2)
    assert refused.end() == 4, refused.text()
    assert "no port above it" in refused.text()
