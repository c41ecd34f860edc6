"""The comparison of what is drawn with what PER draws."""

from __future__ import annotations

from drlnet.bench.distribution import distance, measure_distances
from drlnet.launch.signals import Stop


def test_per_is_at_no_distance_from_itself() -> None:
    found = distance("prioritized", {}, "exponential", 500, 300)
    assert found.kl_nats < 1e-3
    assert found.largest_ratio < 1.1
    assert found.weight_error < 0.1


def test_uniform_is_far_from_per_and_its_weights_are_right() -> None:
    found = distance("uniform", {}, "log-normal", 500, 300)
    assert found.kl_nats > 0.1
    assert found.most_frequency > 2
    assert found.weight_error < 0.1


def test_bins_without_items_are_not_compared() -> None:
    found = distance("prioritized", {}, "log-normal", 64, 300)
    assert 0.8 < found.least_frequency <= 1 <= found.most_frequency < 1.2
    assert found.weight_error < 0.2


def test_every_setting_gives_a_record_until_it_is_stopped() -> None:
    settings = {"samplers": ["amper-fr"], "groups": [5], "scales": [0.5]}
    with Stop() as stop:
        records = measure_distances(stop, lambda _: None, **settings, items=300, batches=5)
        stop.set()
        cut = measure_distances(stop, lambda _: None, **settings, items=300, batches=5)
    assert [record.subject for record in records.records] == ["prioritized", "amper-fr"] * 2
    assert records.records[1].to_dict()["options"] == {"groups": 5, "scale": 0.5}
    assert not records.more["interrupted"]
    assert (cut.records, cut.more) == ([], {"interrupted": True})
