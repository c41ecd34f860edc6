"""What asks a role to end."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Stop(Protocol):
    """A flag to look at between steps; launch.signals has the one that signals set."""

    def set(self) -> None:
        """Asks for the end."""

    def end(self) -> None:
        """Asks for the end from any thread; ends calls within interrupts()."""

    def is_set(self) -> bool:
        """True once the end was asked for."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is, or `timeout` seconds; returns is_set()."""

    def interrupts(self) -> AbstractContextManager[None]:
        """While entered, being asked raises KeyboardInterrupt: calls that wait for a server end."""
