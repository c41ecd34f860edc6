"""A row per client: what it is, whether it lives, how fast it goes and what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable

from rich.text import Text

from drlnet.dashboard.client_figures import GONE, LIVE, ClientFigures
from drlnet.dashboard.grid import Column, fitting, table
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.units import compact, count, duration, percent, short, size

TITLE = "clients"
_LEAST = 4
_WIDE = 120
_NOTABLE = 0.2  # a share of waiting that is worth a colour
_STATES = {LIVE: "", "slow": "yellow", GONE: "bold red"}

# For a learner that corrects for its actors' lag.
_CORRECTION: list[Column[ClientFigures]] = [
    Column("ratio", 5, lambda c: short(c.latest("ratio_mean"), 2), 2),
    Column("clipped", 7, lambda c: percent(c.latest("ratio_clipped_share")), 2),
]

# What the rows may be sorted by: largest first, except for names.
SORTS: dict[str, Callable[[ClientFigures], float]] = {
    "name": lambda client: 0.0,
    "steps/s": lambda client: client.steps_per_s,
    "waits": lambda client: client.waits,
    "resent": lambda client: client.again_per_s,
    "cpu": lambda client: client.cpu,
    "memory": lambda client: client.latest("resident_bytes"),
}


def sizes(scene: Scene) -> range:
    """A line of headings, and one per client."""
    return range(_LEAST, 1 + max(_LEAST, 1 + len(ordered(scene))))


def draw(scene: Scene, width: int, height: int) -> list[Text]:
    """The clients in their order; a last line says how many have no room."""
    everyone = ordered(scene)
    room = height - 1
    shown = everyone if len(everyone) <= room else everyone[: room - 1]
    lines = table(fitting(_columns(width, everyone), width), shown)
    if not everyone:
        lines.append(Text("no client", "dim"))
    elif len(shown) < len(everyone):
        lines.append(Text(f"… {len(everyone) - len(shown)} more", "dim"))
    return lines


def ordered(scene: Scene) -> list[ClientFigures]:
    """All clients, those that have just left included, as they are to be sorted."""
    everyone = [*scene.figures.clients.values(), *scene.figures.gone.values()]
    everyone.sort(key=lambda client: (-_rank(client), client.name))
    value = SORTS[scene.sort]

    def largest_first(client: ClientFigures) -> float:
        figure = value(client)
        return math.inf if math.isnan(figure) else -figure

    return everyone if scene.sort == "name" else sorted(everyone, key=largest_first)


def title(scene: Scene) -> str:
    """The panel's title."""
    return TITLE if scene.sort == "name" else f"{TITLE} · by {scene.sort}"


def _rank(client: ClientFigures) -> int:
    return {"learner": 3, "rank": 2, "actor": 1}.get(client.role, 0)


def _columns(width: int, everyone: list[ClientFigures]) -> list[Column[ClientFigures]]:
    wide = width >= _WIDE
    corrects = any(not math.isnan(c.latest("ratio_mean")) for c in everyone)
    return [
        Column("client", 20 if wide else 14, lambda c: c.name, left=True),
        Column("role", 7, lambda c: c.role or "-", 3, left=True),
        Column("via", 16 if wide else 4, lambda c: c.transport or "-", 4, left=True),
        Column("state", 5, _state, left=True),
        Column("steps/s", 7, lambda c: compact(c.steps_per_s)),
        Column("steps", 6, lambda c: compact(_steps(c)), 9),
        Column("return", 7, lambda c: short(c.returns), 1),
        Column("lag", 4, lambda c: short(_lag(c), 0), 2),
        *(_CORRECTION if corrects else []),
        Column("params", 7, lambda c: count(c.latest("params_version")), 9),
        Column("waits", 5, _waits),
        Column("window", 6, lambda c: percent(c.window_wait), 8),
        Column("resent", 6, lambda c: compact(c.again_per_s), 2),
        Column("rtt", 7, lambda c: duration(c.latest("smoothed_round_trip_us")), 8),
        Column("out/s", 7, lambda c: size(c.rate("bytes_sent")), 9),
        Column("in/s", 7, lambda c: size(c.rate("bytes_received")), 9),
        Column("cpu", 4, lambda c: percent(c.cpu), 2),
        Column("memory", 7, lambda c: size(c.latest("resident_bytes")), 3),
        Column("gpu", 4, lambda c: percent(c.latest("gpu_utilization")), 10),
        Column("pid", 8, lambda c: count(c.latest("pid")).replace(",", ""), 10),
    ]


def _steps(client: ClientFigures) -> float:
    return client.latest("learner_steps" if client.learns else "env_steps")


def _lag(client: ClientFigures) -> float:
    return client.latest("batch_policy_lag" if client.learns else "policy_lag")


def _state(client: ClientFigures) -> Text:
    return Text(client.state, _STATES[client.state])


def _waits(client: ClientFigures) -> Text:
    return Text(percent(client.waits), "yellow" if client.waits >= _NOTABLE else "")
