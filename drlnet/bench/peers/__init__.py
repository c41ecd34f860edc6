"""Prioritized sampling as others do it, one adapter a file, to be measured beside ours.

Each is used as its own documentation advises; all do the same work: keep n priorities, draw k of
them in proportion to p ** alpha with importance weights, update k. A new one is one file and one
line here.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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

__all__ = ["ALPHA", "FLOOR", "PEERS", "Peer", "PeerUnavailable", "find", "imported", "named"]


class PeerUnavailable(Exception):
    """A peer that is not installed, broken, or failed: `str()` is one line that says why."""


def named(names: Sequence[str] | None) -> list[str]:
    """Those names, each once; None: all. Raises ConfigError for one that is none."""
    return chosen("peer", names, list(PEERS))


def imported(package: str, peers: Mapping[str, tuple[str, str]], name: str) -> Any:
    """The class of that peer, by its package's table. Raises PeerUnavailable.

    The warnings of foreign code are not ours to print.
    """
    module, kind = peers[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(importlib.import_module(f"{package}.{module}"), kind)
    except ModuleNotFoundError as error:
        raise PeerUnavailable(
            f"no module {error.name} (pip install 'drlnet[peers]' brings the peers)"
        ) from error
    except Exception as error:
        words = (str(error).strip() or "no further words").splitlines()[0]
        raise PeerUnavailable(f"{type(error).__name__}: {words}") from error


def find(name: str) -> Callable[[Floats], Peer]:
    """Makes that peer with a leaf for each of the priorities [n]. Raises PeerUnavailable."""
    kind: type[Peer] = imported(__name__, PEERS, name)
    assert issubclass(kind, Peer)
    return kind
