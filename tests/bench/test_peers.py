"""Every peer that can be had draws by priority, as it says; one that cannot says why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drlnet.bench import peers
from drlnet.bench.peers import ALPHA, BETA, Floats, Peer
from drlnet.bench.processes import PeerUnavailable
from drlnet.errors import ConfigError

LEAVES, BATCH, BATCHES = 50, 512, 40


def made(name: str, priorities: Floats) -> Peer:
    try:
        return peers.imported(peers.SAMPLERS, name)(priorities)
    except PeerUnavailable as error:
        pytest.skip(f"{name}: {error}")


def check_draws(peer: Peer, priorities: Floats) -> None:
    """Frequencies within 5 standard errors of p^alpha / sum, weights in proportion to its -beta."""
    expected = priorities.astype(np.float64) ** ALPHA
    expected /= expected.sum()
    counts = np.zeros(LEAVES)
    for _ in range(BATCHES):
        indices, weights = (np.asarray(values) for values in peer.draw(BATCH)[:2])
        assert indices.shape == weights.shape == (BATCH,)
        np.testing.assert_allclose(
            weights / weights[0], (expected[indices] / expected[indices[0]]) ** -BETA, rtol=1e-3
        )
        counts += np.bincount(indices.astype(np.int64), minlength=LEAVES)
    draws = BATCH * BATCHES
    error = np.sqrt(draws * expected * (1 - expected))
    assert np.all(np.abs(counts - draws * expected) < 5 * error)


@pytest.mark.parametrize("name", peers.SAMPLERS)
def test_a_peer_draws_by_priority_before_and_after_updates(name: str) -> None:
    random = np.random.default_rng(3)
    priorities = random.uniform(0.1, 4, LEAVES).astype(np.float32)
    peer = made(name, priorities.copy())
    check_draws(peer, priorities)
    changed = np.arange(0, LEAVES, 3)
    priorities[changed] = random.uniform(0.1, 4, len(changed)).astype(np.float32)
    peer.update(*peer.given(changed, priorities[changed]))
    check_draws(peer, priorities)


def test_numpy_is_always_there() -> None:
    for name in ("numpy", "numpy-tree"):
        assert peers.imported(peers.SAMPLERS, name)(np.ones(1, np.float32)).includes


def test_a_peer_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(peers.SAMPLERS, "absent", ("absent", "Absent"))
    with pytest.raises(PeerUnavailable, match=r"pip install 'drlnet\[peers\]'"):
        peers.imported(peers.SAMPLERS, "absent")


def test_a_peer_that_is_broken_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("raise OSError('undefined symbol: nobody\\nand more')")
    monkeypatch.setattr(peers, "__path__", [*peers.__path__, str(tmp_path)])
    with pytest.raises(PeerUnavailable) as caught:
        peers.imported({"broken": ("broken", "Broken")}, "broken")
    assert str(caught.value) == "OSError: undefined symbol: nobody"


def test_an_unknown_peer_is_refused_with_a_near_name() -> None:
    with pytest.raises(ConfigError) as caught:
        peers.named(peers.SAMPLERS, ["numpy", "cpprp"])
    assert caught.value.cause == "no peer is called 'cpprp'"
    assert "cpprb" in caught.value.remedy
    assert peers.named(peers.SAMPLERS, None) == list(peers.SAMPLERS)
    assert peers.named(peers.SAMPLERS, []) == []
