"""Replay memories as others build them, one adapter a file, to be measured beside ours.

Each is used as its own documentation advises; all hold the same transitions, draw them by
priority ** alpha with importance weights, and take new priorities. A new one is one file and one
line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from drlnet.bench.peers import peer_failures
from drlnet.bench.replay.memory import Memory
from drlnet.bench.shapes import Shape
from drlnet.config.names import chosen

# name: module of this package, class in it
PEERS = {
    "cpprb": ("cpprb", "Cpprb"),
    "torchrl": ("torchrl", "Torchrl"),
    "tianshou": ("tianshou", "Tianshou"),
    "redis": ("redis", "Redis"),
    "reverb": ("reverb", "Reverb"),
    "ray": ("ray", "Ray"),
    "numpy": ("numpy", "Numpy"),
}


def named(names: Sequence[str] | None) -> list[str]:
    """Those names, each once; None: all. Raises ConfigError for one that is none."""
    return chosen("peer", names, list(PEERS))


def load(name: str, shape: Shape) -> Memory:
    """That peer, empty. Raises PeerUnavailable."""
    module, made = PEERS[name]
    with peer_failures():
        memory = getattr(importlib.import_module(f"{__name__}.{module}"), made)(shape)
    assert isinstance(memory, Memory)
    return memory
