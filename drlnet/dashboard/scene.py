"""What is to be drawn: figures, and what the watcher has chosen to see of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drlnet.dashboard.bottleneck import Finding
from drlnet.dashboard.figures import Figures


@dataclass
class Scene:
    """One picture of one server. Drawing it changes nothing of it."""

    address: str
    figures: Figures
    finding: Finding
    trends: Mapping[str, Sequence[float]] = field(default_factory=dict)
    lost: str = ""  # why the server does not answer, while it does not
    paused: bool = False
    page: int = 0  # of those that the terminal has room for
    operation: str = ""  # whose latencies are shown as a histogram; "": those of the panel
    sort: str = "name"  # what the clients are sorted by
    help: bool = False
    keys: bool = True  # whether there is a keyboard to name the keys of
