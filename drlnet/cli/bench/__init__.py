"""`drlnet bench`: measurements of the service itself, one file per command."""

from __future__ import annotations

import typer

from drlnet.cli.bench import (
    distribution,
    learning,
    paper,
    replay,
    sampler,
    transport,
    turns,
    watch,
)

commands = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Measure the service.")

commands.command("paper")(paper.paper)
commands.command("turns")(turns.turns)
commands.command("watch")(watch.watch)
commands.command("transport")(transport.transport)
commands.command("sampler")(sampler.sampler)
commands.command("replay")(replay.replay)
commands.command("learning")(learning.learning)
commands.command("distribution")(distribution.distribution)

# Processes of theirs.
commands.command("frame-sender", hidden=True)(paper.frame_sender)
commands.command("frame-receiver", hidden=True)(paper.frame_receiver)
commands.command("transport-client", hidden=True)(transport.transport_client)
commands.command("ring-echo", hidden=True)(transport.ring_echo)
commands.command("worker", hidden=True)(replay.worker)
commands.command("bulk-reader", hidden=True)(turns.bulk_reader)
