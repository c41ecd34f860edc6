"""What Prometheus reads: conventional names, true numbers, nothing twice."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from metrics.readings import busy_server
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from drlnet.config.endpoint import Endpoint
from drlnet.errors import ConfigError, TransportError
from drlnet.metrics.catalog import CATALOG
from drlnet.metrics.prometheus import Exporter, ReadingCollector, cumulative, family_name

Reading = Mapping[str, Any]


@pytest.fixture(scope="module")
def scraped() -> Iterator[tuple[str, Reading]]:
    """A scrape's text, and the reading that it was made of."""
    with busy_server() as (server, _):
        reading = server.stats()
    with Exporter(Endpoint("127.0.0.1", 0), lambda: reading) as exporter:
        with urllib.request.urlopen(exporter.url, timeout=10) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain")
            text = answer.read().decode()
        asking = urllib.request.Request(
            exporter.url, headers={"Accept": "application/openmetrics-text"}
        )
        with urllib.request.urlopen(asking, timeout=10) as answer:
            assert list(parse_openmetrics(answer.read().decode()))
        yield text, reading


def families(scraped: tuple[str, Reading]) -> dict[str, Family]:
    return {family.name: family for family in parse(scraped[0])}


def test_names_are_unique_and_conventional() -> None:
    names = [family_name(metric) for metric in CATALOG]
    assert len(set(names)) == len(names)
    for metric, name in zip(CATALOG, names, strict=True):
        assert name.startswith("drlnet_")
        assert not name.endswith(("_s", "_us", "_total", "_ns"))
        if metric.unit in ("s", "us"):
            assert name.endswith("_seconds"), name
        if metric.unit == "bytes":
            assert name.endswith("_bytes"), name


def test_no_series_comes_twice_and_each_family_is_explained(scraped: tuple[str, Reading]) -> None:
    lines = scraped[0].splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(set(series)) == len(series)
    kinds = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    helps = [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert kinds == helps
    assert len(set(kinds)) == len(kinds)
    for line in series:
        name = line.partition("{")[0]
        assert any(name == kind or name.startswith(f"{kind}_") for kind in kinds), name


def test_figures_are_those_of_the_reading(scraped: tuple[str, Reading]) -> None:
    found, reading = families(scraped), scraped[1]
    (drawn,) = found["drlnet_table_items_drawn"].samples
    assert (drawn.name, drawn.labels, drawn.value) == (
        "drlnet_table_items_drawn_total", {"table": "replay"}, reading["table.replay.items_drawn"],
    )  # fmt: skip
    (fill,) = found["drlnet_table_fill_ratio"].samples
    assert 0 < fill.value <= 1
    (stage,) = found["drlnet_client_stage_seconds"].samples
    assert (stage.labels, stage.value) == ({"client": "learner", "stage": "learn"}, 1.5)
    (role,) = found["drlnet_client_role_info"].samples
    assert role.labels == {"client": "learner", "role": "learner"}
    assert "my own" not in scraped[0]


def test_histograms_are_cumulative_and_complete(scraped: tuple[str, Reading]) -> None:
    found, reading = families(scraped), scraped[1]
    of_append = [
        sample
        for sample in found["drlnet_server_handling_seconds"].samples
        if sample.labels["operation"] == "append"
    ]
    buckets = [sample for sample in of_append if sample.name.endswith("_bucket")]
    bounds = [float(sample.labels["le"]) for sample in buckets]
    counts = [sample.value for sample in buckets]
    assert bounds == sorted(bounds)
    assert bounds[0] == 1e-6
    assert bounds[-1] == float("inf")
    assert counts == sorted(counts)
    exact = reading["server.append.handling"]
    (total,) = (sample.value for sample in of_append if sample.name.endswith("_count"))
    (seconds,) = (sample.value for sample in of_append if sample.name.endswith("_sum"))
    assert counts[-1] == total == exact.count
    assert seconds == pytest.approx(exact.mean_us * exact.count / 1e6)


def test_units_become_base_units() -> None:
    reading: Reading = {
        "client.a.smoothed_round_trip_us": 40,
        "peer.a.waiting_for": "",
        "client.a.pid": "?",  # a client may report what it likes
        "client.a.sample.latency": 3.0,
        "client.a.loss": Histogram(),
    }
    (family,) = ReadingCollector(lambda: reading).collect()
    assert family.name == "drlnet_client_smoothed_round_trip_seconds"
    assert family.samples[0].value == pytest.approx(40e-6)


class Histogram:
    """One with three values."""

    count = 3
    buckets = ((1.0, 1), (7.0, 1), (5000.0, 1))


def test_a_bound_counts_what_lies_at_or_below_it() -> None:
    found = cumulative(Histogram(), [0.5, 1.0, 10.0, 100.0])  # type: ignore[arg-type]
    assert found == [("5e-07", 0), ("1e-06", 1), ("1e-05", 2), ("0.0001", 2), ("+Inf", 3)]


@pytest.mark.parametrize("words", ["9464", "127.0.0.1", ":9464", "a:b", "::1:80", "h:99999"])
def test_no_address(words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Endpoint.parse(words)
    assert raised.value.remedy


def test_addresses() -> None:
    assert Endpoint.parse("[::1]:0") == Endpoint("::1", 0)
    assert str(Endpoint("::1", 1)) == "[::1]:1"
    loopback = ["127.0.0.1:1", "localhost:1", "[::1]:1"]
    assert all(Endpoint.parse(words).is_loopback for words in loopback)
    assert not any(
        Endpoint.parse(words).is_loopback for words in ["0.0.0.0:1", "10.0.0.1:1", "a:1"]
    )


def test_a_port_in_use_and_an_address_of_another_machine() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TransportError, match=f"127.0.0.1:{port}") as raised:
            Exporter(Endpoint("127.0.0.1", port), dict)
        assert "another port" in raised.value.remedy
    with pytest.raises(TransportError, match="cannot serve metrics"):
        Exporter(Endpoint("192.0.2.1", 0), dict)
