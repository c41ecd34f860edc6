"""The dashboard as a picture, from readings that were kept."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group

from drlnet.dashboard.history import History
from drlnet.dashboard.layout import compose
from drlnet.dashboard.reading import Reading
from drlnet.dashboard.scene import Scene

TIME_KEY = "server.uptime_s"


def picture(
    readings: Reading | Sequence[Reading],
    path: Path,
    width: int = 120,
    height: int = 40,
    *,
    address: str = "udp://127.0.0.1:7447",
    page: int = 0,
) -> None:
    """Writes what `drlnet stats` shows after these readings, in a terminal of that size, as SVG.

    readings: of one server, oldest first; their times are the server's uptime. Of a single one
    there are no rates: give two at least. Raises OSError when the file cannot be written.
    """
    series = [readings] if isinstance(readings, Mapping) else readings
    history = History()
    figures = [history.push(reading, float(reading.get(TIME_KEY, 0.0))) for reading in series][-1]
    scene = Scene(address, figures, history.finding, history.trends, page=page)
    console = Console(
        file=io.StringIO(), width=width, height=height, record=True, force_terminal=True
    )
    console.print(Group(*compose(scene, width, height)))
    path.parent.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(path), title="drlnet stats")
