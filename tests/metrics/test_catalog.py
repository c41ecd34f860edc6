"""The catalog: one pattern for every name."""

from __future__ import annotations

import pytest

from drlnet.metrics.catalog import CATALOG, find, matches
from drlnet.metrics.curves import is_main, tag_of


def test_patterns_are_unique() -> None:
    patterns = [metric.pattern for metric in CATALOG]
    assert len(set(patterns)) == len(patterns)


@pytest.mark.parametrize(
    ("name", "pattern", "labels"),
    [
        ("server.uptime_s", "server.uptime_s", {}),
        ("server.append.handling", "server.<op>.handling", {"op": "append"}),
        ("table.replay.fill", "table.<table>.fill", {"table": "replay"}),
        (
            "table.a.b.limiter_wait_s.min_size",
            "table.<table>.limiter_wait_s.<reason>",
            {"table": "a.b", "reason": "min_size"},
        ),
        ("peer.actor-0-12.silent_s", "peer.<client>.silent_s", {"client": "actor-0-12"}),
        (
            "client.x~2.stage.env_s",
            "client.<client>.stage.<stage>_s",
            {"client": "x~2", "stage": "env"},
        ),
        (
            "transport.dpdk:local.sample.latency",
            "transport.<transport>.<op>.latency",
            {"transport": "dpdk:local", "op": "sample"},
        ),
    ],
)
def test_a_name_finds_its_metric(name: str, pattern: str, labels: dict[str, str]) -> None:
    found = list(matches(name))
    assert [(metric.pattern, values) for metric, values in found] == [(pattern, labels)]
    assert find(name) == found[0]


def test_the_names_of_a_thousand_actors_are_looked_up_once() -> None:
    names = [f"client.actor-{actor}.{one}" for actor in range(1000) for one in ("cpu_s", "pid",
             "env_steps", "episodes", "return_mean")]  # fmt: skip
    for look_up in (find, is_main, tag_of):
        for name in names:
            look_up(name)
        before = look_up.cache_info().hits
        for name in names:
            look_up(name)
        assert look_up.cache_info().hits == before + len(names)


def test_what_a_client_made_up_is_not_in_it() -> None:
    assert find("client.notebook.my_figure") is None
    assert find("server.dance.handling") is None
