"""Distributed deep Q-learning with prioritized experience replay in the network."""

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
    "Sampler",
    "StreamLease",
    "Table",
    "View",
    "Writer",
    "__version__",
    "importance_weights",
]
