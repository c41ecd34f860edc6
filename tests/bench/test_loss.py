"""The benchmark of transports over lost datagrams."""

from __future__ import annotations

import io
import os
import shutil
from xml.etree import ElementTree

import pytest

from drlnet.bench.engine import Course, Effort
from drlnet.bench.netns import BUSY, over_veth
from drlnet.bench.records import Record
from drlnet.bench.transport.loss import losses_in, lossy_too, plot, shares, show
from drlnet.bench.transport.measuring import CELLS
from drlnet.bench.transport.suite import OPS, Subject, measure_transports, sealed_too
from drlnet.errors import ConfigError
from drlnet.launch.signals import Stop
from drlnet.plots import Figure

TINY = Effort(calls=100, budget_s=0.1, warm_up=5)
UDP = Subject("udp busy", "udp://10.7.0.2:7447", "busy", "udp://10.7.0.2:7447")
DPDK = Subject("dpdk busy", "dpdk:af_packet:e", "busy", "dpdk:af_packet:f")


def test_losses_are_shares() -> None:
    assert losses_in(["0.1", "0.001"]) == [0.001, 0.1]
    for words in ([""], ["0"], ["1%"], ["0.01", "0.6"], ["nan"]):
        with pytest.raises(ConfigError, match="is not a list of shares"):
            losses_in(words)


def test_rates_are_compared_within_a_round() -> None:
    subjects = lossy_too([UDP, DPDK], [0.1])
    assert [(one.name, one.loss) for one in subjects] == [
        ("udp busy", 0.0),
        ("udp busy, 0.1 lost", 0.1),
    ]
    records = [
        Record.of("transport", one.name, "64 B", "ping", {1: [us], 2: [3 * us]})
        for one, us in zip(subjects, (10.0, 40.0), strict=True)
    ]
    (kept,) = shares(records, subjects)
    assert (kept.subject, kept.baseline) == ("udp busy, 0.1 lost", "udp busy")
    assert (kept.ratio, kept.low, kept.high) == pytest.approx((0.25, 0.25, 0.25))
    file = io.StringIO()
    show(records, [kept], file=file)
    assert "25%" in file.getvalue()
    assert max(len(line) for line in file.getvalue().splitlines()) <= 80
    ElementTree.fromstring(plot([kept], subjects).svg())


def test_each_loss_has_its_rate_sealed_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    losses, drawn = [0.1, 0.102, 0.125], list[list[float]]()
    monkeypatch.setattr(
        Figure, "lines", lambda _, name, lines, **axes: drawn.extend(y.y for y in lines.values())
    )
    for subjects in (
        lossy_too(sealed_too([UDP]), losses),
        sealed_too(lossy_too([UDP], losses)),
    ):
        records = [
            Record.of("transport", one.name, "64 B", "ping", {1: [10.0 * (1 + one.loss)]})
            for one in subjects
        ]
        lossy = [one for one in subjects if one.loss]
        kept = shares(records, subjects)
        assert len({one.name for one in subjects}) == 8
        assert [one.subject for one in kept] == [one.name for one in lossy]
        assert [one.baseline.endswith("sealed") for one in kept] == [one.sealed for one in lossy]
        assert [1 / one.ratio - 1 for one in kept] == pytest.approx([one.loss for one in lossy])
        drawn.clear()
        plot(kept, subjects)
        assert drawn == [pytest.approx([1 / 1.1, 1 / 1.102, 1 / 1.125])] * 2


def test_lost_datagrams_are_sent_again() -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nft") is None:
        pytest.skip("losing datagrams takes root, ip and nft: apt-get install iproute2 nftables")
    with Stop() as stop, over_veth(9000, stop, apart=True) as (places, subjects):
        polled = [one for one in lossy_too(subjects, [0.2]) if one.name.startswith(BUSY)]
        results = measure_transports(
            Course(stop, 1, TINY), polled, places=places, beside=False
        )  # fmt: skip
    records = results.records("transport", OPS)
    kept = {(one.op, one.workload): one.ratio for one in shares(records, polled)}
    assert set(kept) == set(CELLS)
    # Of these a third meets a loss, and is late by a timer.
    assert kept["ping", "64 B"] < 0.5
