"""`drlnet bench`: measurements of the service itself, one file per command."""

from __future__ import annotations

import typer

from drlnet.cli.bench import distribution, paper, replay, sampler, transport, turns, watch

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Measure the service.")

commands.command("paper")(paper.paper)
commands.command("turns")(turns.turns)
commands.command("watch")(watch.watch)
commands.command("transport")(transport.transport)
commands.command("sampler")(sampler.sampler)
commands.command("replay")(replay.replay)
commands.command("distribution")(distribution.distribution)


@commands.command(hidden=True)
def worker(descriptor: int) -> None:
    """A process of a benchmark, which starts it for itself."""
    from drlnet.bench.processes import serve_calls

    serve_calls(descriptor)
