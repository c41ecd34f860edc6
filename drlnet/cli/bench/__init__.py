"""`drlnet bench`: measurements of the service itself."""

from __future__ import annotations

import typer

from drlnet.cli.bench.command import command
from drlnet.cli.bench.compare import compare
from drlnet.cli.bench.many_actors import Actors
from drlnet.cli.bench.offered_load import Load
from drlnet.cli.bench.paper import Paper
from drlnet.cli.bench.replay import Replay
from drlnet.cli.bench.sampler import Sampler
from drlnet.cli.bench.small import Distribution, Faults, Learner, Turns, Watch
from drlnet.cli.bench.transport import Transport

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Measure the service.")
for kind in (
    Paper, Turns, Watch, Transport, Load, Actors, Sampler, Replay, Learner, Distribution,
    Faults,
):  # fmt: skip
    commands.command(kind.__name__.lower())(command(kind))
commands.command()(compare)


@commands.command(hidden=True)
def worker(descriptor: int) -> None:
    """A process of a benchmark, which starts it for itself."""
    from drlnet.bench.processes import serve_calls

    try:
        serve_calls(descriptor)
    except SystemExit as ending:  # a peer's own: the benchmark says how its worker ended
        raise typer.Exit(ending.code if isinstance(ending.code, int) else 1) from None
