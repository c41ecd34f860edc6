"""The lines that every page has: what is watched, the bottleneck, the keys; and the help."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from drlnet.dashboard.grid import fitted
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.units import clock, count

# What the longest lines of the rules take; tests hold them to it.
FINDING_WIDTH, REMEDY_WIDTH = 150, 78
_LEVELS = {"warning": "bold yellow", "fine": "green", "idle": "bold"}
_INDENT = 2
_PLAIN = Console(width=80, file=None)

KEYS = (
    ("q", "quit"),
    ("p", "pause"),
    ("s", "sort"),
    ("l", "latencies"),
    ("Tab", "next"),
    ("h", "help"),
)
_HELP = (
    ("q", "quit; the server does not notice"),
    ("p, space", "hold the picture, and go on"),
    ("s", "sort the clients by another column"),
    ("l", "histogram of the latencies of the next operation"),
    ("Esc", "leave the histogram, or the help"),
    ("Tab, n", "next page: panels that have no room here"),
    ("h, ?", "this help, and back"),
    ("", ""),
    ("shares", "are of the last window, rates per second of it"),
    ("waits", "a learner waits for a batch, an actor to append"),
    ("lag", "versions between the newest params and the actor's"),
    ("resent", "frames per second that were sent or asked for again"),
    ("wait50", "median time that a request queues at the server; work50: its work"),
    ("effective", "items that would carry the priorities if all had the same"),
    ("limiter", "share of the time in which it holds a request, and how many a second"),
)


def header(scene: Scene, width: int) -> Text:
    """One line: the address, how long the server is up, its clients and version."""
    window = scene.figures.window
    line = Text().append("drlnet ", "bold")
    line.append(scene.address)
    line.append(f"  up {clock(window.latest('server.uptime_s'))}")
    line.append(f"  clients {count(window.latest('server.clients'))}")
    run = window.text("run.name")
    if run:
        line.append(f"  {run}", "bold").append(f" {window.text('run.algo')}")
    for role in ("actor", "learner", "server"):
        restarts = window.latest(f"client.run.{role}_restarts")
        if restarts > 0:
            line.append(f"  {role} restarts {count(restarts)}", "yellow")
    lost = window.latest("server.shards_lost")
    if lost > 0:
        line.append(f"  shards lost {count(lost)}", "yellow")
    if window.latest("server.insecure") > 0:
        line.append("  no keys: anyone may use it", "yellow")
    version = window.text("server.version")
    if version:
        line.append(f"  {version}")
    status = "paused" if scene.paused else f"last {window.seconds:.1f} s"
    if scene.lost:
        status = "no answer"
    room = width - len(status) - 1
    style = "reverse" if scene.paused or scene.lost else "dim"
    return fitted(line, max(0, room)) + Text(" ") + Text(status, style)


def finding_rows(width: int) -> int:
    """Lines that are kept for the bottleneck and for what to do: the same for every finding."""
    room = width - _INDENT
    return -(-FINDING_WIDTH // room) + -(-REMEDY_WIDTH // room)


def finding(scene: Scene, width: int) -> list[Text]:
    """The bottleneck and what to do about it; or why there is nothing to say."""
    rows = finding_rows(width)
    if scene.lost:
        line = Text(f"{scene.address} does not answer: {scene.lost}", "bold red")
        remedy = "asking again; the figures below are the last ones"
    else:
        line = Text(scene.finding.line, _LEVELS[scene.finding.level])
        remedy = f"try: {scene.finding.remedy}" if scene.finding.remedy else ""
    sign = "▶ "
    first = wrapped(line, width - _INDENT, rows - 1)
    second = wrapped(Text(remedy), width - _INDENT, rows - len(first))
    lines = [Text(sign if i == 0 else "  ") + part for i, part in enumerate(first)]
    lines += [Text("  ") + part for part in second]
    return lines + [Text()] * (rows - len(lines))


def wrapped(text: Text, width: int, most: int) -> list[Text]:
    """The text in lines of at most that width; cut with "…" after the last one allowed."""
    lines = list(text.wrap(_PLAIN, max(1, width)))
    for line in lines:
        line.rstrip()
    if len(lines) > most:
        last = lines[most - 1]
        last.append(" …")
        last.truncate(width, overflow="ellipsis")
    return lines[:most]


def footer(scene: Scene, width: int, pages: int) -> Text:
    """The keys."""
    line = Text()
    for key, does in KEYS if scene.keys else ():
        if key != "Tab":
            line.append(key, "bold").append(f" {does}   ")
        elif pages > 1:
            page = f" page {scene.page % pages + 1} of {pages}   "
            line.append(key, "bold").append(page)
    line.truncate(width)
    return line


def help_lines() -> list[Text]:
    """What the keys do and the columns mean."""
    return [Text().append(f"{key:<10} ", "bold").append(text) for key, text in _HELP]
