"""Readings for Prometheus: the catalog's metrics under its conventions, scraped over HTTP.

Names: https://prometheus.io/docs/practices/naming/ -- drlnet_ first, base units (seconds, bytes)
and _total last; what stands in angle brackets in the catalog becomes a label.
"""

from __future__ import annotations

import errno
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from drlnet.config.endpoint import Endpoint
from drlnet.errors import TransportError
from drlnet.metrics.catalog import Metric, find
from drlnet.native import HistogramReading

Read = Callable[[], Mapping[str, Any]]

_LABELS = {"op": "operation"}  # the others are as in the catalog
_UNITS = {"s": ("s", "seconds", 1.0), "us": ("us", "seconds", 1e-6), "bytes": ("bytes", "bytes", 1)}
# Upper bounds of the buckets, in microseconds: of single operations, and of ages.
_OPERATION_US = [scale * 10**power for power in range(7) for scale in (1, 2.5, 5)] + [1e7]
_AGE_US = [scale * 10**power for power in range(3, 10) for scale in (1, 2.5, 5)]


def family_name(metric: Metric) -> str:
    """table.<table>.limiter_wait_s.<reason> becomes drlnet_table_limiter_wait_seconds.

    The library adds _total, _bucket and the like by the kind.
    """
    words = [word for word in re.split(r"[._]|<\w+>", metric.pattern) if word]
    if words[-2:] == ["per", "s"]:
        words[-1] = "second"
    elif metric.unit == "share":
        words = [word for word in words if word != "share"] + ["ratio"]
    elif metric.unit in _UNITS:
        short, unit, _ = _UNITS[metric.unit]
        words = [word for word in words if word != short] + [unit]
    return "_".join(["drlnet", *words])


def labels_of(metric: Metric) -> list[str]:
    """The names of a family's labels."""
    return [_LABELS.get(label, label) for label in metric.labels]


class ReadingCollector(Collector):
    """Makes a reading into families each time that it is scraped.

    What is not in the catalog, or is of another kind there (a client may report what it likes), is
    left out. Threading: that of `read`.
    """

    def __init__(self, read: Read) -> None:
        self._read = read

    def collect(self) -> Iterable[Family]:
        """The families that have a value, in the order of the reading."""
        families: dict[str, Family] = {}
        for name, value in self._read().items():
            found = find(name)
            if found is None or not _fits(value, found[0].kind):
                continue
            metric, labels = found
            if metric.pattern not in families:
                families[metric.pattern] = _family(metric)
            _add(families[metric.pattern], metric, list(labels.values()), value)
        return [family for family in families.values() if family.samples]


class Exporter:
    """Answers Prometheus at an endpoint until it is closed. Use it as a context manager.

    Raises TransportError for an endpoint that cannot be listened on. `read` is called from threads
    of its own, several at once.
    """

    def __init__(self, endpoint: Endpoint, read: Read) -> None:
        registry = CollectorRegistry()
        registry.register(ReadingCollector(read))
        self._server: WSGIServer
        self._thread: threading.Thread
        try:
            self._server, self._thread = start_http_server(endpoint.port, endpoint.host, registry)
        except OSError as error:
            raise _cannot_listen(endpoint, error) from error
        self.url = f"http://{Endpoint(endpoint.host, self._server.server_port)}/metrics"

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _cannot_listen(endpoint: Endpoint, error: OSError) -> TransportError:
    remedy = "name an address of this machine"
    if error.errno == errno.EADDRINUSE:
        remedy = "stop what listens there, or choose another port; 0 picks a free one"
    elif error.errno == errno.EACCES:
        remedy = "choose a port above 1023"
    return TransportError(f"cannot serve metrics at {endpoint}: {error.strerror or error}", remedy)


def _fits(value: Any, kind: str) -> bool:
    return hasattr(value, "buckets") == (kind == "histogram") and isinstance(value, str) == (
        kind == "text"
    )


def _family(metric: Metric) -> Family:
    name, labels = family_name(metric), labels_of(metric)
    words = f"{metric.meaning} ({metric.pattern}, by the {metric.where})"
    if metric.kind == "counter":
        return CounterMetricFamily(name, words, labels=labels)
    if metric.kind == "histogram":
        return HistogramMetricFamily(name, words, labels=labels)
    if metric.kind == "text":
        return InfoMetricFamily(name, words, labels=labels)
    return GaugeMetricFamily(name, words, labels=labels)


def _add(family: Family, metric: Metric, labels: list[str], value: Any) -> None:
    scale = _UNITS.get(metric.unit, ("", "", 1.0))[2]
    if isinstance(family, HistogramMetricFamily):
        buckets = cumulative(value, _AGE_US if metric.pattern.endswith("_age") else _OPERATION_US)
        family.add_metric(labels, buckets, value.mean_us * value.count * scale)
    elif isinstance(family, InfoMetricFamily):
        if value:
            family.add_metric(labels, {metric.pattern.rpartition(".")[2]: value})
    elif isinstance(family, (CounterMetricFamily, GaugeMetricFamily)):
        family.add_metric(labels, float(value) * scale)


def cumulative(histogram: HistogramReading, bounds_us: list[float]) -> list[tuple[str, float]]:
    """(bound in seconds, how many lie at or below it), the last "+Inf".

    The middle of a bucket of ours decides on which side of a bound its values count: it is within
    0.8% of any of them.
    """
    result: list[tuple[str, float]] = []
    buckets, seen = iter([*histogram.buckets, (float("inf"), 0)]), 0
    middle_us, count = next(buckets)
    for bound in bounds_us:
        while middle_us <= bound:
            seen += count
            middle_us, count = next(buckets)
        result.append((f"{bound * 1e-6:.10g}", seen))
    return [*result, ("+Inf", histogram.count)]
