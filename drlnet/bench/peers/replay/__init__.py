"""Replay memories as others build them, one adapter a file, to be measured beside ours.

Each is used as its own documentation advises; all hold the same transitions, draw them by
priority ** alpha with importance weights, and take new priorities. A new one is one file and one
line here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drlnet.bench.peers import imported
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


def find(name: str) -> Callable[[Shape], Memory]:
    """Makes that peer, empty. Raises PeerUnavailable."""
    kind: type[Memory] = imported(__name__, PEERS, name)
    assert issubclass(kind, Memory)
    return kind
