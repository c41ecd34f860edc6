"""A scene as exactly as many lines as the terminal has, none longer than it is wide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from drlnet.dashboard.grid import beside
from drlnet.dashboard.panels import (
    clients,
    head,
    latency,
    replay,
    server,
    stages,
    throughput,
)
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.units import compact, percent, size

_TWO_COLUMNS = 160  # from this width on
_LEAST_WIDTH, _LEAST_HEIGHT = 60, 14  # below, a few words are all that fits
_GAP = 2

Draw = Callable[[Scene, int, int], list[Text]]


@dataclass(frozen=True)
class Panel:
    """Something with a title. sizes: the numbers of lines that it makes use of, ascending."""

    title: Callable[[Scene], str]
    draw: Draw
    sizes: Callable[[Scene], Sequence[int]]

    def lines(self, scene: Scene, width: int, height: int) -> list[Text]:
        """Exactly `height` lines, the first its title."""
        title = Text().append("─ ", "dim")
        title.append(self.title(scene), "bold").append(" " + "─" * width, "dim")
        drawn = [title, *self.draw(scene, width, height - 1)[: height - 1]]
        for line in drawn:
            line.truncate(width)
        return drawn + [Text()] * (height - len(drawn))


Row = tuple[Panel, ...]


def _panel(title: str, draw: Draw, sizes: Callable[[Scene], Sequence[int]]) -> Panel:
    return Panel(lambda _: title, draw, sizes)


_THROUGHPUT = _panel(throughput.TITLE, throughput.draw, lambda _: throughput.SIZES)
_STAGES = _panel(stages.TITLE, stages.draw, lambda _: stages.SIZES)
_LATENCY = _panel(latency.TITLE, latency.draw, latency.sizes)
_REPLAY = _panel(replay.TITLE, replay.draw, replay.sizes)
_SERVER = _panel(server.TITLE, server.draw, server.sizes)
_CLIENTS = Panel(clients.title, clients.draw, clients.sizes)
_HISTOGRAM = Panel(
    latency.histogram_title, latency.draw_histogram, lambda _: latency.HISTOGRAM_SIZES
)
_HELP = _panel("help", lambda *_: head.help_lines(), lambda _: range(6, 40))

# From the most to the least important: the first are on the first page.
_ONE_COLUMN: tuple[Row, ...] = (
    (_THROUGHPUT,), (_STAGES,), (_LATENCY,), (_CLIENTS,), (_REPLAY,), (_SERVER,),
)  # fmt: skip
_SIDE_BY_SIDE: tuple[Row, ...] = (
    (_THROUGHPUT, _LATENCY), (_STAGES, _REPLAY), (_CLIENTS,), (_HISTOGRAM, _SERVER),
)  # fmt: skip


def compose(scene: Scene, width: int, height: int) -> list[Text]:
    """The scene in a terminal of that size."""
    if width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return _few_words(scene, width, height)
    top = [head.header(scene, width), *head.finding(scene, width)]
    room = height - len(top) - 1
    wanted = _wanted(scene, width)
    pages = _pages(scene, wanted, room)
    body = [
        line
        for row, lines in _heights(scene, pages[scene.page % len(pages)], room)
        for line in _row(scene, row, width, lines)
    ]
    body += [Text()] * (room - len(body))
    return [*top, *body[:room], head.footer(scene, width, len(pages))]


def everything(scene: Scene, width: int) -> list[Text]:
    """All panels in full, below each other: for a page that scrolls."""
    lines = [head.header(scene, width), *(line for line in head.finding(scene, width) if line)]
    for (panel,) in _ONE_COLUMN:
        # Where nothing moves, a taller graph shows no more.
        height = panel.sizes(scene)[0 if panel is _THROUGHPUT else -1]
        lines += panel.lines(scene, width, height + 1)
    return lines


def _wanted(scene: Scene, width: int) -> tuple[Row, ...]:
    if scene.help:
        return ((_HELP,),)
    if width >= _TWO_COLUMNS:
        return _SIDE_BY_SIDE
    return ((_HISTOGRAM,),) if scene.operation else _ONE_COLUMN


def _sizes(scene: Scene, row: Row) -> list[int]:
    """The numbers of lines that a row of panels makes use of, their titles included."""
    sizes = [panel.sizes(scene) for panel in row]
    least = max(size[0] for size in sizes)
    return sorted({1 + max(least, lines) for size in sizes for lines in size})


def _pages(scene: Scene, rows: Iterable[Row], room: int) -> list[list[Row]]:
    """Rows of panels by the page on which they have the lines that they need."""
    pages: list[list[Row]] = [[]]
    left = room
    for row in rows:
        least = _sizes(scene, row)[0]
        if pages[-1] and least > left:
            pages.append([])
            left = room
        pages[-1].append(row)
        left -= least
    # The clients that had no room before have it here.
    if len(pages) > 1 and (_CLIENTS,) not in pages[-1] and _sizes(scene, (_CLIENTS,))[0] <= left:
        pages[-1].append((_CLIENTS,))
    return pages


def _heights(scene: Scene, rows: list[Row], room: int) -> list[tuple[Row, int]]:
    """What a page's lines are spent on: what every row needs first, then wishes in turn."""
    sizes = [_sizes(scene, row) for row in rows]
    heights = [size.pop(0) for size in sizes]
    # Those that show more things first, then those that show the same in more detail.
    order = sorted(range(len(rows)), key=lambda i: -len(sizes[i]))
    grown = True
    while grown:
        grown = False
        for i in order:
            if sizes[i] and sizes[i][0] - heights[i] <= room - sum(heights):
                heights[i] = sizes[i].pop(0)
                grown = True
    return list(zip(rows, heights, strict=True))


def _row(scene: Scene, row: Row, width: int, height: int) -> list[Text]:
    if len(row) == 1:
        return row[0].lines(scene, width, height)
    left, right = row
    half = (width - _GAP) // 2
    return beside(
        left.lines(scene, half, height), right.lines(scene, width - half - _GAP, height), half, _GAP
    )


def _few_words(scene: Scene, width: int, height: int) -> list[Text]:
    """What fits into a corner: the bottleneck, and the main figures below each other."""
    figures = scene.figures
    said = f"no answer: {scene.lost}" if scene.lost else scene.finding.line
    lines = [Text("drlnet stats", "bold"), *head.wrapped(Text(said), width, max(1, height - 2))]
    for label, shown in (
        ("env steps/s", compact(figures.env_steps_per_s)),
        ("draws/s", compact(figures.draws_per_s)),
        ("learner st/s", compact(figures.learner_steps_per_s)),
        ("learner waits", percent(figures.learner_waits)),
        ("server busy", percent(figures.server_busy)),
        ("in/s", size(figures.received_bytes_per_s)),
        ("out/s", size(figures.sent_bytes_per_s)),
        ("q quits", ""),
    ):
        lines.append(Text(f"{label:<{max(0, min(width, 24) - 8)}} {shown:>7}".rstrip()))
    for line in lines:
        line.truncate(width)
    return (lines + [Text()] * height)[:height]
