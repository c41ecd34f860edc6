"""`drlnet bench paper`: the three comparisons of arXiv 2110.13506."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from drlnet.cli.bench.report import (
    OUT,
    OutOption,
    TransportsOption,
    end,
    names_in,
    show_distance,
    written,
)
from drlnet.cli.options import DEFAULT_ADDRESS, DebugOption, EalOption, JsonOption, require_dpdk
from drlnet.cli.output import Output, require_writable

if TYPE_CHECKING:
    from drlnet.bench.paper.suite import Results
    from drlnet.bench.records import Records
    from drlnet.bench.transport.subjects import Subject

Role = Literal["server", "actor", "learner"]
_ROLES = "Several machines, one role each"
_OF_ALL_ROLES = ("transports", "rounds", "quick", "netns", "out")


def paper(
    context: typer.Context,
    transports: TransportsOption = None,
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", min=1, help="alternated rounds [dim](default 4, quick 2)[/dim]"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="fewer workloads, shorter: under two minutes")
    ] = False,
    netns: Annotated[
        bool,
        typer.Option(
            "--netns",
            help="actors, server and learner in network namespaces of their own, joined by veth "
            "through the server's (root)",
        ),
    ] = False,
    out: OutOption = OUT,
    role: Annotated[
        Role | None, typer.Option("--role", help="play one role", rich_help_panel=_ROLES)
    ] = None,
    server: Annotated[
        str,
        typer.Option(
            "--server",
            metavar="ADDRESS",
            help="of the server: where it listens (server; learner in layout a), or is reached",
            rich_help_panel=_ROLES,
        ),
    ] = DEFAULT_ADDRESS,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="let it listen where other machines reach it",
            rich_help_panel=_ROLES,
        ),
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="of actor and learner: size (cartpole, frame, transition), rate (appends per "
            "second of an actor; 0: as fast as it can), poll, layouts (a, bc), seconds",
            rich_help_panel=_ROLES,
        ),
    ] = None,
    eal: EalOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """What the network costs, and what each remedy buys: arXiv 2110.13506 on your own machines.

    1. Kernel bypass: store and fetch over DPDK against kernel sockets. 2.
    In-network replay: the replay memory (a) in the learner, (b) as a plain store,
    (c) as the server that samples by itself. 3. Prioritized sampling: a batch and
    its update in (a), (b), (c). One base case, then one factor at a time. Measure
    on an idle machine with two cores or more.

    [bold]Examples[/bold]

    drlnet bench paper --quick

    sudo drlnet bench paper --netns

    drlnet bench paper --role server --server udp://0.0.0.0:7447 --insecure

    drlnet bench paper --role actor --server udp://10.0.0.2:7447  [dim]# two of them[/dim]

    drlnet bench paper --role learner --server udp://10.0.0.2:7447
    """
    _require_fitting(context, role)
    require_dpdk(eal, names_in(transports) if role is None else [server])
    output = Output(json)
    if role is None:
        output.result(measure(output, transports, rounds, quick, netns, out))
    else:
        from drlnet.cli.bench.paper_roles import play

        play(output, role, server, insecure, set_ or [])


def _require_fitting(context: typer.Context, role: Role | None) -> None:
    """Raises ConfigError for an option that would do nothing: with --role, or without."""
    from drlnet.errors import ConfigError

    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        if role is None and getattr(option, "rich_help_panel", None) == _ROLES:
            raise ConfigError(
                f"{option.opts[0]} is of one role, and no --role is given",
                "add --role server, actor or learner, or leave it out to measure this machine",
            )
        if role is not None and name in _OF_ALL_ROLES:
            raise ConfigError(
                f"{option.opts[0]} is for all roles on this machine, --role plays one of them",
                "give one of the two",
            )


def measure(
    output: Output,
    transports: str | None,
    rounds: int | None,
    quick: bool,
    netns: bool,
    out: Path,
) -> str:
    """Measures all groups on this machine, reports, and returns the JSON object."""
    from contextlib import ExitStack

    from drlnet.bench.machine import Cores
    from drlnet.bench.paper.groups import Places
    from drlnet.bench.paper.suite import FULL, QUICK, groups_of, measure_paper, transports_of
    from drlnet.bench.transport.subjects import subjects_of
    from drlnet.errors import ConfigError
    from drlnet.launch.signals import Stop

    names = names_in(transports)
    if netns and names is not None:
        raise ConfigError(
            "--netns compares drivers of its own, --transports those of one machine",
            "give one of the two",
        )
    subjects = transports_of(subjects_of(names))
    if quick and names is None:
        subjects = subjects[:3]
    require_writable(out)
    with Stop() as stop, ExitStack() as stack:
        places = Places(Cores.usable())
        if netns:
            from drlnet.bench.paper.netns import through_server

            places, subjects = stack.enter_context(through_server(places.cores, stop))
        results = measure_paper(
            stop,
            groups_of(subjects, quick=quick),
            rounds=rounds or (2 if quick else 4),
            effort=QUICK if quick else FULL,
            training_s=1.0 if quick else 2.0,
            training_rounds=1 if quick else None,
            note=output.note,
            places=places,
            floors=not netns,
        )
        path = out / ("paper-netns" if netns else "paper")
        measured = _report(output, results, subjects, path, netns)
    return end(output, stop, measured)


def _report(
    output: Output, results: Results, subjects: list[Subject], path: Path, netns: bool
) -> Records[Any]:
    from drlnet.bench.paper.report import COMPARISONS, floors, plot, reductions, show
    from drlnet.bench.records import Records

    rows = results.records()
    block, busy = (subject.name for subject in subjects[:2])
    found, near = reductions(rows, block, busy), floors(results, rows)
    measured = Records(
        [record for _, record in rows],
        {
            "comparisons": [asdict(comparison) for comparison in COMPARISONS],
            "reductions": [asdict(reduction) for reduction in found],
            "floors": [asdict(floor) for floor in near],
            "bytes_per_second": [
                {"transport": name, "workload": workload.words, "bytes": size, "by_round": rates}
                for (name, workload, size), rates in results.bytes_per_second.items()
            ],
            "incomplete": results.unavailable,
            "interrupted": results.interrupted,
        },
        results.distance,
    )
    with written(output, path, measured, plot(rows)):
        show(rows, found, near, results, file=output.notes, network=netns)
        show_distance(output, measured)
    return measured
