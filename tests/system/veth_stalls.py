"""Counts calls that stall over a veth pair, in sessions of each driver by turns, under one load.

`sudo python tests/system/veth_stalls.py --sessions 30` on a machine that does nothing else. What
the kernel's own sockets suffer, too, is the machine's doing.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

from drlnet.bench.engine import Effort
from drlnet.bench.machine import Cores
from drlnet.bench.netns import over_veth
from drlnet.bench.processes import Worker, served
from drlnet.bench.transport.measuring import Cell, Client
from drlnet.launch.signals import Stop

SUBJECTS = ("udp on veth busy", "dpdk:af_packet busy", "dpdk:af_xdp busy")
CELLS: tuple[Cell, ...] = (("sample", "64 B"), ("sample", "1 KiB"), ("sample", "7 KB frame"))
EFFORT = Effort(calls=20_000, budget_s=0.5)


@dataclass
class Stalls:
    """Of one subject, over its sessions."""

    sessions: int = 0
    with_stalls: int = 0
    samples: int = 0
    longest_ms: float = 0.0
    stalls_ms: list[float] = field(default_factory=list)

    def add(self, samples_ms: list[float], over_ms: float) -> None:
        stalls_ms = [ms for ms in samples_ms if ms > over_ms]
        self.sessions += 1
        self.with_stalls += bool(stalls_ms)
        self.samples += len(samples_ms)
        self.longest_ms = max(self.longest_ms, *samples_ms)
        self.stalls_ms += stalls_ms


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=30, help="of each driver")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--over-ms", type=float, default=5.0)
    asked = parser.parse_args()
    found = {name: Stalls() for name in SUBJECTS}
    cores = Cores.usable()
    with Stop() as stop, over_veth(asked.mtu) as (places, measured):
        subjects = [one for one in measured if one.name in SUBJECTS]
        for subject in subjects * asked.sessions:
            with (
                places.around(subject),
                served(
                    stop, [subject.listen], subject.poll, core=cores.server,
                    program=places.server, insecure=True,
                ),
                Worker(stop, Client, program=places.client, core=cores.client) as client,
            ):  # fmt: skip
                client.call("open", subject.connect, subject.poll)
                us = [us for cell in CELLS for us in client.measure(*cell, EFFORT)]
            found[subject.name].add([one / 1e3 for one in us], asked.over_ms)
            if stop.is_set():
                break
    for name, stalls in found.items():
        print(
            f"{name}: {stalls.with_stalls} of {stalls.sessions} sessions with a sample over "
            f"{asked.over_ms:g} ms, {len(stalls.stalls_ms)} of {stalls.samples} samples, the "
            f"longest {stalls.longest_ms:.2f} ms"
        )


if __name__ == "__main__":
    main()
