"""Where the time of learner and actors goes: a bar whose parts add up to all of it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from drlnet.dashboard.client_figures import ClientFigures
from drlnet.dashboard.figures import Figures
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.units import percent

TITLE = "where the time goes"
SIZES = (2, 5)
_LABEL = 8

# (stage, what it is called, its sign, its colour). Without colour the signs tell them apart.
# Waiting is the same everywhere: the stage that a bottleneck elsewhere makes longer.
_Stage = tuple[str, str, str, str]
_LEARNER: tuple[_Stage, ...] = (
    ("sample", "wait", "░", "yellow"),
    ("learn", "learn", "█", "green"),
    ("update", "update", "▓", "blue"),
    ("publish", "publish", "▚", "magenta"),
    ("evaluate", "eval", "▒", "cyan"),
    ("other", "other", "·", "dim"),
)
_ACTOR: tuple[_Stage, ...] = (
    ("append", "wait", "░", "yellow"),
    ("env", "env", "█", "green"),
    ("policy", "policy", "▓", "blue"),
    ("fetch", "fetch", "▚", "magenta"),
    ("other", "other", "·", "dim"),
)


def draw(scene: Scene, width: int, height: int) -> list[Text]:
    """The learner's bar and legend, and below it the actors' where there is room."""
    figures = scene.figures
    lines = _bar("learner", figures, figures.learners, _LEARNER, width)
    if height >= 2 * len(lines):
        blank = [Text()] if height > 2 * len(lines) else []
        lines += blank + _bar("actors", figures, figures.actors, _ACTOR, width)
    return lines


def _bar(
    label: str,
    figures: Figures,
    clients: list[ClientFigures],
    stages: Sequence[_Stage],
    width: int,
) -> list[Text]:
    shares = [figures.stage(clients, name) for name, *_ in stages]
    bar, legend = Text(f"{label:<{_LABEL}}"), Text(" " * _LABEL)
    if not sum(share for share in shares if share > 0) > 0:
        bar.append("not reported" if clients else f"no {label.removesuffix('s')}", "dim")
        return [bar, legend]
    room, drawn, reached = width - _LABEL, 0, 0.0
    for share, (_, called, sign, style) in zip(shares, stages, strict=True):
        reached += share if share > 0 else 0.0
        end = min(room, round(reached * room))
        bar.append(sign * (end - drawn), style)
        drawn = end
        legend.append(sign, style).append(f"{called} {percent(share):>3} ")
    legend.rstrip()
    legend.truncate(width)
    return [bar, legend]
