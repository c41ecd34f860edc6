"""By how much a transport's medians are lower than kernel UDP's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drlnet.bench.records import Record, key_of

# Furukawa and Matsutani, arXiv 2110.13506: DPDK against kernel sockets, access latency to a
# shared-memory replay server.
PAPER_RANGE = (0.327, 0.589)
BLOCK, BUSY = "udp block", "udp busy"


@dataclass(frozen=True)
class Reduction:
    """Shares of a baseline's p50: 0.6 is 60% lower, a negative one is higher.

    than_block, than_busy: than kernel UDP's, blocking and polled. wake_up_share: of the reduction
    against blocking sockets, the part that kernel UDP gains as well by polling; above 1 where it
    gains more. None where a baseline, or a reduction to take a share of, is missing.
    """

    subject: str
    op: str
    workload: str
    than_block: float | None
    than_busy: float | None
    wake_up_share: float | None


def reductions(
    records: Sequence[Record], *, block: str = BLOCK, busy: str = BUSY
) -> list[Reduction]:
    """Of every record that is not one of the two baselines."""
    p50 = {key_of(record): record.p50_us for record in records}
    found = []
    for record in records:
        if record.subject in {block, busy}:
            continue
        cell = (record.op, record.workload)
        blocking, polled = p50.get((block, *cell)), p50.get((busy, *cell))
        found.append(
            Reduction(
                record.subject,
                *cell,
                lower_than(record.p50_us, blocking),
                lower_than(record.p50_us, polled),
                wake_up_share(record.p50_us, blocking, polled),
            )
        )
    return found


def lower_than(value: float, baseline: float | None) -> float | None:
    """The share by which the value is lower than the baseline."""
    return None if baseline is None else 1.0 - value / baseline


def wake_up_share(value: float, blocking: float | None, polled: float | None) -> float | None:
    """Of blocking - value, the part that is blocking - polled."""
    if blocking is None or polled is None or value >= blocking:
        return None
    return (blocking - polled) / (blocking - value)
