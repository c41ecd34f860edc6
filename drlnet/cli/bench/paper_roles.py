"""One role of `drlnet bench paper`, played by hand on one of several machines."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import TYPE_CHECKING, Literal, cast

from drlnet.cli.bench.report import end_if, note_interruption
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drlnet.launch.signals import Stop


@dataclass(frozen=True)
class Settings:
    """What --set takes. seconds: of each phase of the learner."""

    size: str = "frame"
    rate: float = 250.0
    poll: str = "block"
    layouts: str = "bc"
    seconds: float = 2.0


_CHOICES = {
    "size": ("cartpole", "frame", "transition"),
    "poll": ("busy", "adaptive", "block"),
    "layouts": ("a", "bc"),
}


def settings_of(sets: Sequence[str]) -> Settings:
    """From KEY=VALUE texts. Raises ConfigError."""
    from drlnet.config.names import require_known
    from drlnet.errors import ConfigError

    values: dict[str, str | float] = {}
    for text in sets:
        key, _, value = text.partition("=")
        require_known("setting of a role", key, [field.name for field in fields(Settings)])
        if key in _CHOICES:
            require_known(key, value, list(_CHOICES[key]))
            values[key] = value
            continue
        try:
            values[key] = float(value)
        except ValueError as error:
            raise ConfigError(f"--set {text}: {key} is a number", f"give {key}=250") from error
    return Settings(**values)  # type: ignore[arg-type]


def play(
    output: Output,
    role: Literal["server", "actor", "learner"],
    address: str,
    insecure: bool,
    sets: Sequence[str],
) -> None:
    """Plays the role to its end, or until stopped."""
    from drlnet.launch.signals import Stop

    settings = settings_of(sets)
    if role == "server":
        from drlnet.cli.serve import serve

        poll = cast(Literal["busy", "adaptive", "block"], settings.poll)
        flags = {"server.listen": [address], "server.poll": poll, "server.insecure": insecure}
        serve(flags=flags, json=output.as_json)
        return
    if role == "learner" and settings.layouts == "a" and not insecure:
        from drlnet.config.checks import require_loopback

        require_loopback(address)
    with Stop() as stop:
        if role == "actor":
            _act(output, address, settings, stop)
        else:
            _learn(output, address, settings, stop)


def _act(output: Output, address: str, settings: Settings, stop: Stop) -> None:
    from drlnet.bench.paper.roles import Actor

    actor = Actor()
    actor.hear(stop.is_set)
    with suppress(KeyboardInterrupt), stop.interrupts():
        actor.open(address, settings.poll, settings.size, settings.rate, output.note)
        if not output.as_json:
            output.note(f"storing at {address}; Ctrl-C stops it")
        for chunk in actor.act():
            output.event("appends", **asdict(chunk))
    end_if(stop)


def _learn(output: Output, address: str, settings: Settings, stop: Stop) -> None:
    from drlnet.bench.engine import Effort
    from drlnet.bench.paper.groups import Group, operations
    from drlnet.bench.paper.roles import STORE, Learner
    from drlnet.bench.paper.workloads import BATCHES, Workload
    from drlnet.bench.transport.subjects import Subject

    learner = Learner(settings.poll, settings.size, output.note)
    place = "learner" if settings.layouts == "a" else "network"
    workload = Workload(settings.size, rate=settings.rate)
    group = Group(place, Subject("", address, "block"), workload, BATCHES)
    effort = Effort(calls=5000, budget_s=settings.seconds, warm_up=50)
    measured = False
    with suppress(KeyboardInterrupt), stop.interrupts():
        if place == "learner":
            output.note(f"ready: listening on {learner.serve(address, None)}")
        else:
            learner.open(address, settings.rate > 0)
        for op, layout, batch in operations(group, 0, slices=1, floors=False):
            if op == STORE:
                continue
            phase = learner.measure(op, layout, batch, effort)
            measured = True
            output.event("phase", **asdict(phase))
            if not output.as_json:
                of_batch = f" of {batch}" if batch > 1 else ""
                output.note(f"{layout.value}: {op}{of_batch}: p50 {median(phase.us):.1f} us")
    if stop.is_set():
        note_interruption(output, measured=measured)
        end_if(stop)
    output.event("finished")
