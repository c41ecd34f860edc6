"""Prioritized sampling and replay as others do it, one library a file, to be measured beside ours.

Each is used as its own documentation advises. Samplers keep n priorities, draw k of them in
proportion to p ** alpha with importance weights, update k; memories hold the same transitions as
well. A new one is one class and one line here.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drlnet.bench.processes import PeerUnavailable
from drlnet.config.names import chosen

if TYPE_CHECKING:
    from drlnet.bench.peers.base import Floats, Peer
    from drlnet.bench.replay.memory import Memory
    from drlnet.bench.shapes import Shape

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


def named(peers: Mapping[str, object], names: Sequence[str] | None) -> list[str]:
    """Those names, each once; None: all. Raises ConfigError for one that is none."""
    return chosen("peer", names, list(peers))


def find_sampler(name: str) -> Callable[[Floats], Peer]:
    """Makes that peer with a leaf for each of the priorities [n]. Raises PeerUnavailable."""
    kind: type[Peer] = imported(SAMPLERS, name)
    return kind


def find_memory(name: str) -> Callable[[Shape], Memory]:
    """Makes that peer, empty. Raises PeerUnavailable."""
    kind: type[Memory] = imported(MEMORIES, name)
    return kind


def imported(peers: Mapping[str, tuple[str, str]], name: str) -> Any:
    """The class of that peer. Raises PeerUnavailable.

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
