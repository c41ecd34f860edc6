"""`drlnet doctor`: what a run needs of this machine."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from drlnet.cli import options
from drlnet.cli.output import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drlnet.doctor import Result

Required = Literal["run", "dpdk", "all"]
RequireOption = Annotated[
    Required, typer.Option("--require", help="what the exit code is about: 0 says that it works")
]


def doctor(
    require: RequireOption = "all",
    eal: options.EalOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
) -> None:
    """Check what a run needs of this machine, and say how to repair what is missing.

    Each check tries what it is about: a server is started over UDP and over DPDK,
    torch and an environment make a step, sockets and folders are opened.

    Exit code: 0 all works (warnings included); 24 `drlnet run` would not; 25 DPDK
    would not.

    [bold]Examples[/bold]

    drlnet doctor

    drlnet doctor --require run && drlnet run CartPole-v1

    drlnet doctor --json | jq '.checks[] | select(.verdict != "pass")'
    """
    from drlnet.doctor import CHECKS, TRIALS, Host, Probes, Report, as_json, examine

    output = Output(json)
    report, results = Report(output.notes), []
    with Probes(list(TRIALS)) as probes:
        for result in examine(Host(probes), CHECKS, debug=debug):
            report.show(result)
            results.append(result)
    report.sum_up(results)
    code = exit_code(require, results)
    output.result(as_json(results, code))
    raise typer.Exit(code)


def exit_code(require: Required, results: Sequence[Result]) -> int:
    """0, or that of the first thing required that would not work."""
    from drlnet.doctor import fit_for
    from drlnet.errors import DPDK_UNFIT_EXIT_CODE, RUN_UNFIT_EXIT_CODE

    if require != "dpdk" and not fit_for("run", results):
        return RUN_UNFIT_EXIT_CODE
    if require != "run" and not fit_for("dpdk", results):
        return DPDK_UNFIT_EXIT_CODE
    return 0


def doctor_trial(
    name: str, json: options.JsonOption = False, debug: options.DebugOption = False
) -> None:
    """What `doctor` tries in a process of its own."""
    from drlnet.doctor.trials import run_trial

    Output(json).result(json_module.dumps(run_trial(name)))
