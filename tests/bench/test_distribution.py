"""The comparison of what is drawn with what PER draws."""

from __future__ import annotations

from drlnet.bench.distribution import distance, measure_distances


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


def test_every_setting_gives_a_record() -> None:
    records = measure_distances(
        lambda _: None, samplers=["amper-fr"], groups=[5], scales=[0.5], items=300, batches=5
    )
    assert [record.subject for record in records.records] == ["prioritized", "amper-fr"] * 2
    assert records.records[1].to_dict()["options"] == {"groups": 5, "scale": 0.5}
