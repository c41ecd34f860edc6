"""What every view does: draws in place on a terminal, one thing below the other elsewhere."""

from __future__ import annotations

from typing import TextIO, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live

_View = TypeVar("_View", bound="View")


class View:
    """Enter it around its use. Threading: one thread at a time."""

    def __init__(self, file: TextIO) -> None:
        self.console = Console(file=file, highlight=False)
        live = self.console.is_terminal and not self.console.is_dumb_terminal
        self._live = Live(console=self.console, auto_refresh=False) if live else None

    def __enter__(self: _View) -> _View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._live is not None:
            self._live.stop()  # brings the cursor back

    @property
    def in_place(self) -> bool:
        """Whether what is drawn takes the place of what was."""
        return self._live is not None

    def draw(self, what: RenderableType) -> None:
        """Shows it instead of, or below, what was shown before."""
        if self._live is not None:
            self._live.update(what, refresh=True)
        else:
            self.console.print(what)
