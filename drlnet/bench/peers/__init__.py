"""Prioritized sampling and replay as others do it, one library a file, to be measured beside ours.

Each is used as its own documentation advises. Samplers keep n priorities, draw k of them in
proportion to p ** alpha with importance weights, update k; memories hold the same transitions as
well. A new one is one class and one line here.
"""

from __future__ import annotations

import importlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.processes import PeerUnavailable
from drlnet.bench.replay.memory import Block, Door, Memory
from drlnet.config.names import chosen

# name: module of this package, class in it
SAMPLERS = {
    "numpy": ("numpy", "NumpyCumsum"),
    "numpy-tree": ("numpy", "NumpyTree"),
    "cpprb": ("cpprb", "CpprbSampler"),
    "torchrl": ("torchrl", "TorchrlSampler"),
    "tianshou": ("tianshou", "TianshouSampler"),
}
MEMORIES = {
    "cpprb": ("cpprb", "Cpprb"),
    "torchrl": ("torchrl", "Torchrl"),
    "tianshou": ("tianshou", "Tianshou"),
    "redis": ("redis", "Redis"),
    "reverb": ("reverb", "Reverb"),
    "numpy": ("numpy", "Numpy"),
}

ALPHA = 0.6  # priority exponent
BETA = 0.4  # importance exponent
FLOOR = 1e-6  # the least priority that counts

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


def mass(priorities: Floats) -> NDArray[np.float64]:
    """What an item is drawn in proportion to, for peers that leave it to their user."""
    return np.maximum(priorities, FLOOR).astype(np.float64) ** ALPHA


class Peer(ABC):
    """n priorities, all set when it is made."""

    includes: ClassVar[str]  # for a caption: what its draw and its update do

    @abstractmethod
    def __init__(self, priorities: Floats) -> None: ...

    @abstractmethod
    def draw(self, batch: int) -> tuple[Any, ...]:
        """Indices [batch], importance weights [batch], rows if any, in the peer's own types."""

    def given(self, indices: Indices, priorities: Floats) -> tuple[Any, Any]:
        """What update() takes, in the peer's own types. Not timed."""
        return indices, priorities

    @abstractmethod
    def update(self, indices: Any, priorities: Any) -> None:
        """New priorities [k] for indices [k]."""


class Remote(Memory):
    """A memory in a server's process: its learner inserts as its clients do, through the door."""

    def __init__(self, door: Door) -> None:
        self._door, self._own = door, door()

    def insert(self, block: Block) -> None:
        self._own.insert(block)

    def wait_for_inserts(self) -> None:
        self._own.wait_for_inserts()

    def door(self) -> Door:
        return self._door

    def close(self) -> None:
        self._own.close()


def named(peers: Mapping[str, object], names: Sequence[str] | None) -> list[str]:
    """Those names, each once; None: all. Raises ConfigError for one that is none."""
    return chosen("peer", names, list(peers))


def imported(peers: Mapping[str, tuple[str, str]], name: str) -> Any:
    """The class of that peer: of priorities [n], or of a Shape. Raises PeerUnavailable.

    The warnings of foreign code are not ours to print.
    """
    module, kind = peers[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(importlib.import_module(f"{__name__}.{module}"), kind)
    except ModuleNotFoundError as error:
        raise PeerUnavailable(
            f"no module {error.name} (pip install 'drlnet[peers]' brings the peers)"
        ) from error
    except Exception as error:
        words = (str(error).strip() or "no further words").splitlines()[0]
        raise PeerUnavailable(f"{type(error).__name__}: {words}") from error
