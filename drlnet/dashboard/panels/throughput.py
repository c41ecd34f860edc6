"""Throughput: what flows per second, now and over the last minutes."""

from __future__ import annotations

import math

from rich.text import Text

from drlnet.dashboard.grid import beside, fitted
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.units import compact, graph, size

TITLE = "throughput"
SIZES = (3, 6, 12)
_LABEL, _VALUE = 12, 10
_FLOWS = (
    ("env_steps_per_s", "env steps/s"),
    ("items_per_s", "items/s in"),
    ("draws_per_s", "draws/s"),
    ("learner_steps_per_s", "learner st/s"),
    ("received_bytes_per_s", "bytes in"),
    ("sent_bytes_per_s", "bytes out"),
)


def draw(scene: Scene, width: int, height: int) -> list[Text]:
    """Six flows: below each other, or, in less than six lines, in two columns."""
    if height < len(_FLOWS):
        half = (width - 2) // 2
        blocks = [_flow(scene, name, label, half, 1) for name, label in _FLOWS]
        return [
            beside(left, right, half)[0]
            for left, right in zip(blocks[::2], blocks[1::2], strict=True)
        ]
    rows = max(1, height // len(_FLOWS))
    return [line for name, label in _FLOWS for line in _flow(scene, name, label, width, rows)]


def _flow(scene: Scene, name: str, label: str, width: int, rows: int) -> list[Text]:
    value = getattr(scene.figures, name)
    if name.endswith("_bytes_per_s"):
        shown = "-" if math.isnan(value) else f"{size(value)}/s"
    else:
        shown = compact(value)
    drawn = graph(list(scene.trends.get(name, ())), width - _LABEL - _VALUE - 1, rows)
    lines = [Text(" " * (_LABEL + _VALUE + 1)) + Text(row, "cyan") for row in drawn[:-1]]
    head = fitted(Text(label), _LABEL) + fitted(Text(shown, "bold"), _VALUE, left=False)
    return [*lines, head + Text(" ") + Text(drawn[-1], "cyan")]
