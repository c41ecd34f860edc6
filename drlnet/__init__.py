"""Distributed deep reinforcement learning with the experience replay in the network.

The names below are imported when they are first asked for: the command line answers `--help`, and
heeds Ctrl-C, without waiting for numpy and the extension. Hence nothing at all is imported above
them, not even typing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drlnet.api import LoadedRun, Policy, load_run, train
    from drlnet.client import (
        Batch,
        Client,
        Column,
        Item,
        Limiter,
        Sampler,
        StreamLease,
        Table,
        View,
        Writer,
        importance_weights,
    )
    from drlnet.errors import DrlnetError
    from drlnet.metrics import RunResult
    from drlnet.native import HistogramReading

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Client",
    "Column",
    "DrlnetError",
    "HistogramReading",
    "Item",
    "Limiter",
    "LoadedRun",
    "Policy",
    "RunResult",
    "Sampler",
    "StreamLease",
    "Table",
    "View",
    "Writer",
    "__version__",
    "importance_weights",
    "load_run",
    "train",
]

_ELSEWHERE = {
    "DrlnetError": "drlnet.errors",
    "HistogramReading": "drlnet.native",
    "RunResult": "drlnet.metrics",
    **dict.fromkeys(("LoadedRun", "Policy", "load_run", "train"), "drlnet.api"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'drlnet' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_ELSEWHERE.get(name, "drlnet.client")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
