"""By how much a transport's medians are lower than kernel UDP's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from drlnet.bench.ratios import OfRounds, over
from drlnet.bench.records import Record, key_of

# Furukawa and Matsutani, arXiv 2110.13506: DPDK against kernel sockets, access latency to a
# shared-memory replay server.
PAPER_RANGE = (0.327, 0.589)
BLOCK, BUSY = "udp block", "udp busy"


@dataclass(frozen=True)
class Reduction:
    """Shares of a baseline's p50 of the same round: 0.6 is 60% lower, a negative one is higher.

    than_block, than_busy: than kernel UDP's, blocking and polled, median over the rounds; and of
    the rounds the least and the most. wake_up_share: of the reduction against blocking sockets, the
    part that kernel UDP gains as well by polling; above 1 where it gains more. None where a
    baseline, or a reduction to take a share of, is missing.
    """

    subject: str
    op: str
    workload: str
    than_block: float | None
    than_busy: float | None
    wake_up_share: float | None
    than_block_of_rounds: tuple[float, float] | None
    than_busy_of_rounds: tuple[float, float] | None


def reductions(
    records: Sequence[Record], *, block: str = BLOCK, busy: str = BUSY
) -> list[Reduction]:
    """Of every record that is not one of the two baselines."""
    p50 = {key_of(record): record.p50_by_round() for record in records}
    found = []
    for record in records:
        if record.subject in {block, busy}:
            continue
        cell = (record.op, record.workload)
        ours = record.p50_by_round()
        blocking, polled = p50.get((block, *cell), {}), p50.get((busy, *cell), {})
        than_block, than_busy = lower_than(ours, blocking), lower_than(ours, polled)
        found.append(
            Reduction(
                record.subject,
                *cell,
                _median(than_block),
                _median(than_busy),
                wake_up_share(ours, blocking, polled),
                _spread(than_block),
                _spread(than_busy),
            )
        )
    return found


def lower_than(ours: Mapping[int, float], baseline: Mapping[int, float]) -> OfRounds | None:
    """The shares by which ours is lower than the baseline of the same round."""
    ratio = over(ours, baseline)
    return None if ratio is None else ratio.lower()


def wake_up_share(
    ours: Mapping[int, float], blocking: Mapping[int, float], polled: Mapping[int, float]
) -> float | None:
    """Of blocking - ours, the part that is blocking - polled: the rounds' median.

    None where ours is not lower in most of them.
    """
    rounds = [number for number in ours if number in blocking and number in polled]
    lower = [number for number in rounds if ours[number] < blocking[number]]
    if 2 * len(lower) <= len(rounds):
        return None
    return median((blocking[n] - polled[n]) / (blocking[n] - ours[n]) for n in lower)


def _median(share: OfRounds | None) -> float | None:
    return None if share is None else share.median


def _spread(share: OfRounds | None) -> tuple[float, float] | None:
    return None if share is None else (share.low, share.high)
