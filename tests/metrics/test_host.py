"""What a result says of its machine."""

from __future__ import annotations

from drlnet.metrics.host import cache_bytes, host_facts


def test_caches_grow_with_their_level() -> None:
    caches = cache_bytes()
    assert all(name.startswith("L") and size > 0 for name, size in caches.items())
    sizes = [caches[name] for name in sorted(caches)]
    assert sizes == sorted(sizes)


def test_facts_name_the_caches() -> None:
    facts = host_facts()
    for name, size in cache_bytes().items():
        assert facts[f"{name.lower()}_cache_bytes"] == size
