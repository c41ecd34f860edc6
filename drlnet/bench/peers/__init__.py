"""Prioritized sampling as others do it, one adapter a file, to be measured beside ours.

Each is used as its own documentation advises; all do the same work: keep n priorities, draw k of
them in proportion to p ** alpha with importance weights, update k. A new one is one file and one
line here.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from drlnet.bench.peers.peer import ALPHA, FLOOR, Floats, Peer
from drlnet.config.names import chosen

# name: module of this package, class in it
PEERS = {
    "numpy": ("numpy_cumsum", "NumpyCumsum"),
    "numpy-tree": ("numpy_tree", "NumpyTree"),
    "cpprb": ("cpprb", "Cpprb"),
    "torchrl": ("torchrl", "Torchrl"),
    "tianshou": ("tianshou", "Tianshou"),
    "torch-cuda": ("torch_cumsum", "CudaCumsum"),
    "torchrl-cuda": ("torchrl", "CudaTorchrl"),
}

__all__ = ["ALPHA", "FLOOR", "PEERS", "Peer", "PeerUnavailable", "load", "named", "peer_failures"]


class PeerUnavailable(Exception):
    """A peer that is not installed, broken, or failed: `str()` is one line that says why."""


def named(names: Sequence[str] | None) -> list[str]:
    """Those names, each once; None: all. Raises ConfigError for one that is none."""
    return chosen("peer", names, list(PEERS))


@contextmanager
def peer_failures() -> Iterator[None]:
    """Whatever foreign code raises, as PeerUnavailable; its warnings are not ours to print."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except PeerUnavailable:
        raise
    except ModuleNotFoundError as error:
        raise PeerUnavailable(
            f"no module {error.name} (pip install 'drlnet[peers]' brings the peers)"
        ) from error
    except Exception as error:
        words = (str(error).strip() or "no further words").splitlines()[0]
        raise PeerUnavailable(f"{type(error).__name__}: {words}") from error


def load(name: str, priorities: Floats) -> Peer:
    """That peer with a leaf for each of the priorities [n]. Raises PeerUnavailable."""
    module, made = PEERS[name]
    with peer_failures():
        kind = getattr(importlib.import_module(f"{__name__}.{module}"), made)
        peer = kind(priorities)
    assert isinstance(peer, Peer)
    return peer
