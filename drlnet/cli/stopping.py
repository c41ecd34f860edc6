"""Ends a command that runs until it is told to stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from drlnet.launch.signals import Stop


@contextmanager
def until_stopped() -> Iterator[Stop]:
    """A stop flag for the block; after a signal the command exits as a shell expects, quietly."""
    with Stop() as stop:
        try:
            yield stop
        except KeyboardInterrupt:
            stop.set()  # a call that waited was cut short; there is nothing else to say
    if stop.signal is not None:
        raise typer.Exit(stop.exit_code)
