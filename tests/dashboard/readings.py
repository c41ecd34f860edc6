"""Readings of a server, made up: every name of a training, at a second of one's choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

OPERATIONS = ("append", "sample", "update_priorities", "fetch", "publish", "report", "stats")


@dataclass(frozen=True)
class FakeHistogram:
    """Durations by how often they occurred; exact."""

    counts: Counter[float] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    @property
    def mean_us(self) -> float:
        return sum(us * n for us, n in self.counts.items()) / max(1, self.count)

    @property
    def max_us(self) -> float:
        return max(self.counts, default=0.0)

    @property
    def buckets(self) -> Sequence[tuple[float, int]]:
        return sorted(self.counts.items())

    def percentile_us(self, q: float) -> float:
        rank = min(int(q * self.count), self.count - 1)
        for us, n in self.buckets:
            rank -= n
            if rank < 0:
                return us
        return 0.0

    def since(self, earlier: FakeHistogram) -> FakeHistogram:
        return FakeHistogram(self.counts - earlier.counts)

    def merged(self, other: FakeHistogram) -> FakeHistogram:
        return FakeHistogram(self.counts + other.counts)


def spread(median_us: float, count: int) -> FakeHistogram:
    """So many durations around a median."""
    shares = ((0.7, 0.3), (1.0, 0.4), (1.6, 0.2), (4.0, 0.08), (12.0, 0.02))
    return FakeHistogram(
        Counter({median_us * factor: round(count * share) for factor, share in shares})
    )


def server(t: float) -> dict[str, Any]:
    """The server's own names after t seconds."""
    found: dict[str, Any] = {
        "server.uptime_s": t,
        "server.version": "0.1.0",
        "server.cpu_s": 0.42 * t,
        "server.busy_s": 0.45 * t,
        "server.resident_bytes": 123_000_000,
        "server.memory_bytes": 45_000_000,
        "server.clients": 4,
        "server.params_version": int(15 * t),
        "server.params_bytes": 69_000,
        "server.waiting_requests": 1,
        "server.drops.magic": 0,
        "server.drops.late": int(t),
        "host.cores": 16,
    }
    for index, operation in enumerate(OPERATIONS):
        count = int(t * (4000, 300, 300, 25, 15, 4, 2)[index])
        found[f"server.{operation}.handling"] = spread(3.0 * (1 + index), count)
        found[f"server.{operation}.queueing"] = spread(1.5, count)
        found[f"server.{operation}.latency"] = spread(25.0 * (1 + index), count)
    found |= {
        "transport.udp.clients": 3,
        "transport.udp.frames_received": int(9000 * t),
        "transport.udp.frames_sent": int(12_000 * t),
        "transport.udp.bytes_received": int(1.2e6 * t),
        "transport.udp.bytes_sent": int(34e6 * t),
        "transport.dpdk:local.clients": 1,
        "transport.dpdk:local.frames_received": int(300 * t),
        "transport.dpdk:local.frames_sent": int(300 * t),
        "transport.dpdk:local.bytes_received": int(3e4 * t),
        "transport.dpdk:local.bytes_sent": int(4e4 * t),
    }
    return found


def table(t: float) -> dict[str, Any]:
    """One table's names after t seconds."""
    values = {
        "capacity": 50_000,
        "rows": 50_000,
        "fill": 1.0,
        "live_items": 49_123,
        "env_steps": int(30_000 * t),
        "items_created": int(29_000 * t),
        "items_drawn": int(38_400 * t),
        "samples_per_insert": 1.3,
        "priority_mass": 12_345.6,
        "applied_updates": int(38_000 * t),
        "stale_updates": int(40 * t),
        "effective_items": 15_432.1,
        "sampled_age": spread(800_000.0, int(300 * t)),
        "sampled_versions_behind": 12.3,
        "limiter_waits.min_size": 1,
        "limiter_waits.samples_limit": 0,
        "limiter_waits.inserts_limit": 0,
        "limiter_wait_s.min_size": 1.5,
        "limiter_wait_s.samples_limit": 0.0,
        "limiter_wait_s.inserts_limit": 0.0,
    }
    return {f"table.replay.{name}": value for name, value in values.items()}


def client(name: str, t: float, role: str, stages: dict[str, float]) -> dict[str, Any]:
    """What a client reported after t seconds, and what the server knows of it."""
    peer: dict[str, Any] = {
        "transport": "udp",
        "endpoint": "udp://127.0.0.1:50000",
        "frames_received": int(3000 * t),
        "frames_sent": int(4000 * t),
        "silent_s": 0.1,
        "waiting_for": "",
        "waiting_s": 0.0,
        "limiter_wait_s.min_size": 0.0,
        "limiter_wait_s.samples_limit": 0.0,
        "limiter_wait_s.inserts_limit": 0.0,
        "duplicates": 0,
    }
    own: dict[str, Any] = {
        "role": role,
        "pid": 12345,
        "cpu_s": 0.9 * t,
        "resident_bytes": 456_000_000,
        "retransmissions": 0,
        "repulls": 0,
        "duplicate_frames": 0,
        "frames_sent": int(3000 * t),
        "frames_received": int(4000 * t),
        "bytes_sent": int(4e5 * t),
        "bytes_received": int(1.1e7 * t),
        "smoothed_round_trip_us": 31.4,
        "credit_bytes": 262_144,
        "window_bytes": 65_536,
        "window_waits": 0,
        "window_wait_s": 0.0,
        **{f"stage.{stage}_s": share * t for stage, share in stages.items()},
    }
    if role == "learner":
        own |= {
            "learner_steps": int(300 * t),
            "learner_steps_per_s": 300.0,
            "env_steps": int(30_000 * t),
            "eval_return": 480.0,
            "params_version": int(15 * t),
            "batch_size": 128,
        }
    else:
        own |= {
            "env_steps": int(15_000 * t),
            "env_steps_per_s": 15_000.0,
            "episodes": int(100 * t),
            "return_mean": 187.3,
            "params_version": int(15 * t) - 1,
            "policy_lag": 1.2,
        }
    return {
        **{f"peer.{name}.{key}": value for key, value in peer.items()},
        **{f"client.{name}.{key}": value for key, value in own.items()},
    }


LEARNER = {
    "sample": 0.05,
    "learn": 0.8,
    "update": 0.03,
    "publish": 0.04,
    "evaluate": 0.06,
    "other": 0.02,
}
ACTOR = {"env": 0.55, "policy": 0.35, "append": 0.04, "fetch": 0.01, "other": 0.05}


def training(t: float, **changes: Any) -> dict[str, Any]:
    """A reading of a healthy training after t seconds: a learner, two actors and a watcher.

    changes: values by name, with "__" for "."; a number is what the counter grows by per second.
    """
    found = {
        **server(t),
        **table(t),
        **client("learner", t, "learner", LEARNER),
        **client("actor-0-4711", t, "actor", ACTOR),
        **client("actor-1-4712", t, "actor", ACTOR),
        "peer.stats.transport": "udp",
        "peer.stats.silent_s": 0.0,
    }
    return found | changes
