"""`drlnet bench paper`: the three comparisons of arXiv 2110.13506, or one role of them by hand."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, fields
from statistics import median
from typing import TYPE_CHECKING, Literal, TextIO

import typer

from drlnet.cli.bench.command import (
    ROUNDS,
    Found,
    Measure,
    OverTransports,
    flag_of,
    note_interruption,
    option,
)
from drlnet.cli.options import DEFAULT_ADDRESS, require_dpdk
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from drlnet.bench.paper.suite import PaperResults
    from drlnet.bench.transport.suite import Subject
    from drlnet.launch.signals import Stop

_NAME = "paper"
_ROLES = "Several machines, one role each"
_LEAST = {"rate": 0.0, "seconds": 0.01}  # of --set


@dataclass(frozen=True)
class Paper(OverTransports):
    """What the network costs, and what each remedy buys: arXiv 2110.13506 on your own machines.

    1. Kernel bypass: store and fetch over DPDK against kernel sockets. 2.
    In-network replay: the replay memory (a) in the learner, (b) as a plain store,
    (c) as the server that samples by itself, (d) with the rows at the learner, to
    which each travels once. 3. Prioritized sampling: a batch and its update in
    all four. One base case, then one factor at a time. Measure
    on an idle machine with two cores or more.

    [bold]Examples[/bold]

    drlnet bench paper --quick

    sudo drlnet bench paper --netns

    drlnet serve --listen udp://0.0.0.0:7447 --insecure  [dim]# for the roles below[/dim]

    drlnet bench paper --role actor --server udp://10.0.0.2:7447  [dim]# two of them[/dim]

    drlnet bench paper --role learner --server udp://10.0.0.2:7447
    """

    quick: bool = option(False, "fewer workloads, shorter: under two minutes")
    mtu: int | None = option(
        None, "of the veth pairs of --netns [dim](default 9000)[/dim]", min=1280, max=9000
    )
    rounds: int | None = option(None, f"{ROUNDS} [dim](default 4, quick 2)[/dim]", min=1)
    role: Literal["actor", "learner"] | None = option(
        None, "play one role beside a `drlnet serve`", rich_help_panel=_ROLES
    )
    server: str = option(
        DEFAULT_ADDRESS, "of the server; where a learner with layout a listens",
        metavar="ADDRESS", rich_help_panel=_ROLES,
    )  # fmt: skip
    insecure: bool = option(
        False, "let that learner listen where other machines reach it", rich_help_panel=_ROLES
    )
    sets: list[str] | None = option(
        None,
        "size (cartpole, frame, transition), rate (appends per second of an actor; 0: as fast as "
        "it can), poll, layouts (a, bc, d), seconds",
        flag="--set", metavar="KEY=VALUE", rich_help_panel=_ROLES,
    )  # fmt: skip

    def prepare(self, output: Output) -> Measure | None:
        from drlnet.bench.engine import Course
        from drlnet.bench.paper.roles import groups_of
        from drlnet.bench.paper.suite import FULL, QUICK, Places, measure_paper
        from drlnet.errors import ConfigError
        from drlnet.launch.signals import Stop

        _require_fitting(self)
        if self.role is not None:
            require_dpdk(self.eal, [self.server])
            role = _role_of(self.sets or ())
            with Stop() as stop:
                (_act if self.role == "actor" else _learn)(output, self, role, stop)
                if stop.is_set():
                    raise typer.Exit(stop.exit_code)
            return None
        local = self.subjects()
        if self.mtu is not None and not self.netns:
            raise ConfigError("--mtu is of the veth pairs, which --netns makes", "add --netns")
        if self.quick and self.transports is None:
            local = local[:3]

        def measure(stop: Stop) -> Found:
            subjects, places = local, Places()
            with ExitStack() as stack:
                if self.netns:
                    from drlnet.bench.netns import MTU, through_server

                    network = through_server(places.cores, stop, self.mtu or MTU)
                    places, subjects = stack.enter_context(network)
                rounds, effort = (2, QUICK) if self.quick else (4, FULL)
                course = Course(stop, self.rounds or rounds, effort, output.note)
                results = measure_paper(course, groups_of(subjects, quick=self.quick), places)
            return _found(results, subjects, self._name)

        return measure

    @property
    def _name(self) -> str:
        """The one of the files."""
        mtu = "" if self.mtu is None else f"-{self.mtu}"
        return f"{_NAME}-netns{mtu}" if self.netns else _NAME


@dataclass(frozen=True)
class Role:
    """What --set says of actor and learner. seconds: of each phase of the learner."""

    size: Literal["cartpole", "frame", "transition"] = "frame"
    rate: float = 250.0
    poll: Literal["busy", "adaptive", "block"] = "block"
    layouts: Literal["a", "bc", "d"] = "bc"
    seconds: float = 2.0


def _require_fitting(asked: Paper) -> None:
    """Raises ConfigError for an option that would do nothing: with --role, or without."""
    from drlnet.errors import ConfigError

    for one in fields(asked):
        of_role = one.metadata.get("rich_help_panel") == _ROLES
        if getattr(asked, one.name) == one.default or one.name in {"role", "eal"}:
            continue
        if of_role and asked.role is None:
            raise ConfigError(
                f"{flag_of(one)} is of one role, and no --role is given",
                "add --role actor or learner, or leave it out to measure this machine",
            )
        if asked.role is not None and not of_role:
            raise ConfigError(
                f"{flag_of(one)} is for all roles on this machine, --role plays one of them",
                "give one of the two",
            )


def _found(results: PaperResults, subjects: list[Subject], name: str) -> Found:
    from drlnet.bench.paper import links
    from drlnet.bench.paper.suite import COMPARISONS, plot, records_of, reductions, show
    from drlnet.bench.records import Records

    records = records_of(results)
    block, busy = (subject.name for subject in subjects[:2])
    found, loads = reductions(records, block, busy), links.loads_of(results)

    def tell(file: TextIO) -> None:
        show(records, found, file=file, network=name != _NAME)
        links.show(loads, file=file)

    more = {
        "comparisons": COMPARISONS,
        "reductions": found,
        "over_links": [load.to_dict() for load in loads],
        "incomplete": results.unavailable,
        "interrupted": results.interrupted,
    }
    return Found(
        Records(records, more, results.distance),
        tell,
        name,
        plot(records),
        {f"{name}-links": links.plot(loads)} if loads else {},
    )


def _role_of(sets: Sequence[str]) -> Role:
    """From KEY=VALUE texts. Raises ConfigError."""
    from drlnet.config.fields import check_limits, convert, field_types
    from drlnet.config.load import parse_set
    from drlnet.config.names import require_known

    types, values = field_types(Role), {}
    for key, value in map(parse_set, sets):
        require_known("setting of a role", key, list(types))
        values[key] = convert(key, value, types[key])
        check_limits(key, values[key], {"low": _LEAST.get(key)})
    return Role(**values)


def _act(output: Output, asked: Paper, role: Role, stop: Stop) -> None:
    from drlnet.bench.paper.roles import Actor

    actor = Actor()
    actor.asked = stop.is_set
    with suppress(KeyboardInterrupt), stop.interrupts():
        actor.open(asked.server, role.poll, role.size, role.rate, output.note)
        if not output.as_json:
            output.note(f"storing at {asked.server}; Ctrl-C stops it")
        for chunk in actor.act():
            output.event("appends", **asdict(chunk))


def _learn(output: Output, asked: Paper, role: Role, stop: Stop) -> None:
    from drlnet.bench.engine import Effort
    from drlnet.bench.paper.roles import BATCHES, STORE, Group, Learner, Workload, operations
    from drlnet.bench.transport.suite import Subject
    from drlnet.config.checks import require_loopback

    place = {"a": "learner", "bc": "network", "d": "mirror"}[role.layouts]
    if place == "learner" and not asked.insecure:
        require_loopback(asked.server)
    learner = Learner(role.poll, role.size, output.note)
    workload = Workload(role.size, rate=role.rate)
    group = Group(place, Subject("", asked.server, "block"), workload, BATCHES)
    effort = Effort(calls=5000, budget_s=role.seconds, warm_up=50)
    measured = False
    with suppress(KeyboardInterrupt), stop.interrupts():
        if place == "learner":
            output.note(f"ready: listening on {learner.serve(asked.server, None)}")
        else:
            learner.open(asked.server, place, role.rate > 0)
        for op, layout, batch in operations(group, 0, slices=1):
            if op == STORE:
                continue
            phase = learner.measure(op, layout, batch, effort)
            measured = True
            output.event("phase", **asdict(phase))
            if not output.as_json:
                of_batch = f" of {batch}" if batch else ""
                output.note(f"{layout.value}: {op}{of_batch}: p50 {median(phase.us):.1f} us")
    note_interruption(output, stop, measured=measured)
    if not stop.is_set():
        output.event("finished")
