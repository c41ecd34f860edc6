"""Counts calls that stall over a veth pair, in sessions of each driver by turns, under one load.

`sudo python tests/system/veth_stalls.py --sessions 30` on a machine that does nothing else. What
the kernel's own sockets suffer, too, is the machine's doing. A frame that was lost shows as a
repetition of the client's: without one, a stall is a thread that did not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

from drlnet import native
from drlnet.bench.cores import Cores, pinned
from drlnet.bench.rounds import Effort, orders
from drlnet.bench.transport.cells import Cell
from drlnet.bench.transport.client import measure_calls
from drlnet.bench.transport.netns import Side, joined, served, veth_subjects
from drlnet.bench.transport.subjects import Subject
from drlnet.launch.signals import Stop

SUBJECTS = ("udp on veth busy", "dpdk:af_packet busy", "dpdk:af_xdp busy")
CELLS: tuple[Cell, ...] = (("sample", "64 B"), ("sample", "1 KiB"), ("sample", "7 KB frame"))
EFFORT = Effort(calls=20_000, budget_s=0.5)
TIMEOUT_S = 300.0


@dataclass
class Stalls:
    """Of one subject, over its sessions."""

    sessions: int = 0
    with_stalls: int = 0
    samples: int = 0
    longest_ms: float = 0.0
    stalls_ms: list[float] = field(default_factory=list)
    repeated: int = 0  # frames sent again, and ranges of replies asked for again

    def add(self, samples: int, longest_ms: float, stalls_ms: list[float], repeated: int) -> None:
        self.sessions += 1
        self.with_stalls += bool(stalls_ms)
        self.samples += samples
        self.longest_ms = max(self.longest_ms, longest_ms)
        self.stalls_ms += stalls_ms
        self.repeated += repeated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=30, help="of each driver")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--over-ms", type=float, default=5.0)
    parser.add_argument("--client", help=argparse.SUPPRESS)  # measures that address, in a namespace
    asked = parser.parse_args()
    if asked.client is not None:
        print(json.dumps(_session(asked.client, asked.over_ms)))
        return
    found = {name: Stalls() for name in SUBJECTS}
    cores = Cores.usable()
    with Stop() as stop, joined(asked.mtu) as sides:
        subjects = [one for one in veth_subjects(*sides) if one.name in SUBJECTS]
        for order in orders(subjects, asked.sessions):
            for subject in order:
                with served(stop, subject, cores, sides) as ready:
                    if ready:
                        found[subject.name].add(*_in_client(sides[0], subject, asked.over_ms))
            if stop.is_set():
                break
    for name, stalls in found.items():
        print(
            f"{name}: {stalls.with_stalls} of {stalls.sessions} sessions with a sample over "
            f"{asked.over_ms:g} ms, {len(stalls.stalls_ms)} of {stalls.samples} samples, the "
            f"longest {stalls.longest_ms:.2f} ms; {stalls.repeated} repetitions"
        )


def _in_client(
    client: Side, subject: Subject, over_ms: float
) -> tuple[int, float, list[float], int]:
    """What _session() finds, in a process of its own at the client's end of the pair."""
    words = ("--over-ms", str(over_ms), "--client", str(subject.connect))
    ended = subprocess.run(
        ["ip", "netns", "exec", client.namespace, sys.executable, __file__, *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=TIMEOUT_S,
    )
    samples, longest_ms, stalls_ms, repeated = json.loads(ended.stdout)
    return samples, longest_ms, stalls_ms, repeated


def _session(address: str, over_ms: float) -> tuple[int, float, list[float], int]:
    """One session's samples, the longest, those over a limit, and what the client repeated."""
    with pinned(Cores.usable().client):
        client = native.Client(address, "stalls", TIMEOUT_S, "busy")
        ms = [us / 1e3 for one in measure_calls(client, EFFORT, CELLS) for us in one.latencies_us]
        own = client.own_stats()
    repeated = sum(int(str(own.get(name, 0))) for name in ("retransmissions", "repulls"))
    return len(ms), max(ms), [one for one in ms if one > over_ms], repeated


if __name__ == "__main__":
    main()
