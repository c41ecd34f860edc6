"""The client of a replay server: usable alone, without our actors and learner."""

from drlnet.client.batch import NO_KEY, Batch, importance_weights
from drlnet.client.client import Client
from drlnet.client.mirror import Mirror
from drlnet.client.specs import Column, Item, Limiter, Sampler, View
from drlnet.client.table import PriorityChanges, Table
from drlnet.client.writer import StreamLease, Writer

__all__ = [
    "NO_KEY",
    "Batch",
    "Client",
    "Column",
    "Item",
    "Limiter",
    "Mirror",
    "PriorityChanges",
    "Sampler",
    "StreamLease",
    "Table",
    "View",
    "Writer",
    "importance_weights",
]
