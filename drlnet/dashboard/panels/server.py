"""The server's process, and what comes over each transport."""

from __future__ import annotations

import math
from collections.abc import Callable

from rich.text import Text

from drlnet.dashboard.bottleneck import BUSY
from drlnet.dashboard.grid import Column, fitting, table
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.units import compact, count, duration, percent, short, size
from drlnet.dashboard.window import Window

TITLE = "server"
_WIDE = 90


def draw(scene: Scene, width: int, height: int) -> list[Text]:
    """Two lines of the process, and a row per transport."""
    figures, window = scene.figures, scene.figures.window
    first = Text("busy ")
    first.append(
        f"{percent(figures.server_busy):>4}", "yellow" if figures.server_busy >= BUSY else ""
    )
    first.append(f"  cpu {short(figures.server_cpu, 2):>5}")
    if not math.isnan(figures.cores):
        used = short(figures.cores_used)
        first.append(f" ({used:>4} of {count(figures.cores)} cores with clients)")
    first.append(f"  memory {size(window.latest('server.resident_bytes')):>7}")
    if width >= _WIDE:
        first.append(f", {size(window.latest('server.memory_bytes')):>7} of it tables")
    second = Text(f"queue {duration(figures.queueing_us):>7}  work")
    second.append(f" {duration(figures.handling_us):>7}")
    second.append(f"  held {count(window.latest('server.waiting_requests')):>3}")
    second.append(f"  dropped {compact(figures.drops_per_s):>5}/s")
    second.append(f"  params v{count(window.latest('server.params_version')).replace(',', '')}")
    second.append(f" {size(window.latest('server.params_bytes'))}")
    rows = table(fitting(_columns(window), width), figures.transports) if figures.transports else []
    return [first, second, *rows][:height]


def _columns(window: Window) -> list[Column[str]]:
    def rate(heading: str, key: str, unit: Callable[[float], str], rank: int) -> Column[str]:
        return Column(
            heading, 11, lambda kind: f"{unit(window.rate(f'transport.{kind}.{key}'))}/s", rank
        )

    return [
        Column("transport", 18, lambda kind: kind, left=True),
        Column("clients", 7, lambda kind: count(window.latest(f"transport.{kind}.clients"))),
        rate("frames in", "frames_received", compact, 2),
        rate("frames out", "frames_sent", compact, 2),
        rate("bytes in", "bytes_received", size, 1),
        rate("bytes out", "bytes_sent", size, 1),
    ]


def sizes(scene: Scene) -> range:
    """Two lines, and a table of the transports."""
    return range(3 + min(3, len(scene.figures.transports)), 4 + len(scene.figures.transports))
