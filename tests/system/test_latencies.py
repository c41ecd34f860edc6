"""A client's latency histogram against the raw latencies of the very same calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from system.command import server

from drlnet import Client, native

CALLS = 3000
PAYLOAD_BYTES = 200_000  # so long that what the loop takes beside a call is next to nothing
ATTEMPTS = 10


def pinged(address: str) -> tuple[npt.NDArray[np.float64], native.HistogramReading]:
    """The same calls' latencies, raw and in order [CALLS], and in the client's histogram."""
    client = Client(address, name="pinger", poll="block")
    raw_ns = np.zeros(CALLS, np.uint64)
    for call in range(CALLS):
        raw_ns[call] = round(client.ping(PAYLOAD_BYTES) * 1e3)
    latency = client.own_stats()["ping.latency"]
    client.report({})
    reported = client.stats()["client.pinger.ping.latency"]
    assert isinstance(latency, native.HistogramReading)
    assert isinstance(reported, native.HistogramReading)
    assert latency.count == CALLS
    for q in (0.5, 0.9, 0.99, 0.999):
        assert reported.percentile_us(q) == latency.percentile_us(q)
    return np.sort(raw_ns) / 1e3, latency


def test_percentiles_agree_with_the_raw_latencies_of_the_same_calls(tmp_path: Path) -> None:
    with server(tmp_path, "--poll", "block") as address:
        # A machine that halts the loop between an answer and its clock adds to what is beside.
        for _ in range(ATTEMPTS):
            raw_us, latency = pinged(address)
            beside_us = float(raw_us.mean()) - latency.mean_us  # means are exact: the loop's own
            assert beside_us >= 0
            if beside_us <= 0.01 * latency.mean_us:
                break
        else:
            raise AssertionError(f"{beside_us} us beside {latency.mean_us}")
    for q in (0.5, 0.9, 0.99, 0.999):
        rank = int(q * CALLS)
        # A call may be interrupted after its answer has come: the raw latency, which ends later,
        # has that in its tail, and others move by a rank.
        low = raw_us[rank - 2] * 0.99 - beside_us
        high = raw_us[min(rank + 2, CALLS - 1)] * 1.01
        assert low <= latency.percentile_us(q) <= high, (q, latency.percentile_us(q), raw_us[rank])
