"""`drlnet evaluator`: plays published params; `drlnet run` and `drlnet learn` start it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drlnet.cli import options
from drlnet.cli.output import Output
from drlnet.cli.stopping import until_stopped

RunOption = Annotated[
    Path, typer.Option("--run", metavar="RUN", help="the run's folder: settings, and best params")
]


def evaluator(
    run: RunOption,
    server: options.ServerOption = options.DEFAULT_ADDRESS,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
) -> None:
    """Play a run's newest params greedily, again and again, and report what they reach."""
    from drlnet.metrics import RunFolder
    from drlnet.roles.evaluator import evaluate_published

    output = Output(json)
    folder = RunFolder(run)
    with until_stopped() as stop:
        evaluate_published(folder.read_config(), server, folder, stop, output.note)
