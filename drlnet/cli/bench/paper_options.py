"""The options of `drlnet bench paper`: of all roles, of one role, and of those it starts itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

ROLES = "Several machines, one role each"


def _of_a_role(name: str, **how: Any) -> Any:
    return typer.Option(name, rich_help_panel=ROLES, **how)


def _hidden(name: str, **how: Any) -> Any:
    return typer.Option(name, hidden=True, **how)


RoundsOption = Annotated[
    int | None,
    typer.Option("--rounds", min=1, help="alternated rounds [dim](default 4, quick 2)[/dim]"),
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="fewer workloads, shorter: under two minutes")
]
NetnsOption = Annotated[
    bool,
    typer.Option(
        "--netns",
        help="actors, server and learner in network namespaces of their own, joined by veth "
        "through the server's (root)",
    ),
]
RedisOption = Annotated[
    bool, typer.Option("--redis/--no-redis", help="layout (b) on a Redis server as well")
]

RoleOption = Annotated[
    Literal["server", "actor", "learner"] | None, _of_a_role("--role", help="play one role")
]
ServerOption = Annotated[
    str,
    _of_a_role(
        "--server",
        metavar="ADDRESS",
        help="of the server: where it listens (server; learner in layout a), or is reached",
    ),
]
InsecureOption = Annotated[
    bool, _of_a_role("--insecure", help="let it listen where other machines reach it")
]
SizeOption = Annotated[
    Literal["cartpole", "frame", "transition"],
    _of_a_role("--size", help="of an experience: 40 B, 7 KB in stacks of four, 56 KB"),
]
ActorsOption = Annotated[int, _of_a_role("--actors", min=0, help="how many there are in all")]
RateOption = Annotated[
    float,
    _of_a_role("--rate", min=0, help="appends per second of each actor; 0: as fast as it can"),
]
PollOption = Annotated[
    Literal["busy", "adaptive", "block"],
    _of_a_role("--poll", help="spin for packets, or sleep"),
]
LayoutsOption = Annotated[
    Literal["a", "bc"],
    _of_a_role("--layouts", help="of the learner: a (it holds the replay), or b and c"),
]

BatchesOption = Annotated[str, _hidden("--batches")]
CallsOption = Annotated[int, _hidden("--calls", min=1)]
BudgetOption = Annotated[float, _hidden("--budget-s")]
WarmUpOption = Annotated[int, _hidden("--warm-up", min=1)]
SlicesOption = Annotated[int, _hidden("--slices", min=1)]
FloorsOption = Annotated[bool, _hidden("--floors")]
TurnOption = Annotated[int, _hidden("--turn")]
TrainingOption = Annotated[float, _hidden("--training-s")]
CoreOption = Annotated[int | None, _hidden("--core")]
ReplayCoreOption = Annotated[int | None, _hidden("--replay-core")]
StayOption = Annotated[bool, _hidden("--stay")]
