"""`drlnet bench paper`: the three comparisons of arXiv 2110.13506."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from drlnet.cli.bench import paper_options as own
from drlnet.cli.bench.report import (
    OUT,
    OutOption,
    TransportsOption,
    end,
    names_in,
    numbers_in,
    show_distance,
    written,
)
from drlnet.cli.options import DEFAULT_ADDRESS, DebugOption, EalOption, JsonOption, require_dpdk
from drlnet.cli.output import Output, require_writable

if TYPE_CHECKING:
    from drlnet.bench.paper.results import Results
    from drlnet.bench.records import Records
    from drlnet.bench.transport.subjects import Subject

_OF_ALL_ROLES = ("transports", "rounds", "quick", "netns", "redis", "out")


def paper(
    context: typer.Context,
    transports: TransportsOption = None,
    rounds: own.RoundsOption = None,
    quick: own.QuickOption = False,
    netns: own.NetnsOption = False,
    redis: own.RedisOption = True,
    out: OutOption = OUT,
    role: own.RoleOption = None,
    server: own.ServerOption = DEFAULT_ADDRESS,
    insecure: own.InsecureOption = False,
    size: own.SizeOption = "frame",
    actors: own.ActorsOption = 2,
    rate: own.RateOption = 250.0,
    poll: own.PollOption = "block",
    layouts: own.LayoutsOption = "bc",
    batches: own.BatchesOption = "512,32",
    calls: own.CallsOption = 5000,
    budget_s: own.BudgetOption = 2.0,
    warm_up: own.WarmUpOption = 50,
    slices: own.SlicesOption = 1,
    floors: own.FloorsOption = False,
    turn: own.TurnOption = 0,
    training_s: own.TrainingOption = 0.0,
    core: own.CoreOption = None,
    replay_core: own.ReplayCoreOption = None,
    stay: own.StayOption = False,
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
    _require_fitting(context, alone=role is None)
    require_dpdk(eal, names_in(transports) if role is None else [server])
    output = Output(json)
    if role is None:
        output.result(measure(output, transports, rounds, quick, netns, redis, out))
        return
    if role == "server":
        from drlnet.cli.serve import serve

        flags = {"server.listen": [server], "server.poll": poll, "server.insecure": insecure}
        serve(flags=flags, json=json, debug=debug)
        return
    if role == "learner" and layouts == "a" and not insecure:
        from drlnet.config.checks import require_loopback

        require_loopback(server)
    from drlnet.bench.paper.workloads import Workload
    from drlnet.bench.rounds import Effort
    from drlnet.cli.bench.paper_roles import RoleOptions, play

    play(
        output,
        role,
        RoleOptions(
            server, poll, Workload(size, actors, rate), layouts,
            [] if batches == "none" else numbers_in(batches, 1, "batch sizes", "512,32"),
            Effort(calls, budget_s, warm_up), slices, floors, turn, training_s, core,
            replay_core, stay,
        ),
    )  # fmt: skip


def _require_fitting(context: typer.Context, *, alone: bool) -> None:
    """Raises ConfigError for an option that would do nothing: with --role, or without."""
    from drlnet.errors import ConfigError

    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        if alone and getattr(option, "rich_help_panel", None) == own.ROLES:
            raise ConfigError(
                f"{option.opts[0]} is of one role, and no --role is given",
                "add --role server, actor or learner, or leave it out to measure this machine",
            )
        if not alone and name in _OF_ALL_ROLES:
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
    redis: bool,
    out: Path,
) -> str:
    """Measures all groups on this machine, reports, and returns the JSON object."""
    from contextlib import ExitStack

    from drlnet.bench.cores import Cores
    from drlnet.bench.paper.groups import Places
    from drlnet.bench.paper.rounds import FULL, QUICK, groups_of, measure_paper, transports_of
    from drlnet.bench.transport import subjects_of
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
            groups_of(subjects, quick=quick, redis=redis and not netns),
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
    from drlnet.bench.paper.comparisons import COMPARISONS, floors, reductions
    from drlnet.bench.paper.plot import plot
    from drlnet.bench.paper.table import show
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
            "incomplete": results.failed,
            "interrupted": results.interrupted,
        },
        results.distance,
    )
    with written(output, path, measured, plot(rows)):
        show(rows, found, near, results, file=output.notes, network=netns)
        show_distance(output, measured)
    return measured
