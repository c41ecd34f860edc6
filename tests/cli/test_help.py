"""The help of every command, in a terminal of 80 columns: no ragged paragraph, nothing cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from drlnet import native
from drlnet.cli.main import app
from drlnet.config.transports import LISTEN
from drlnet.config.tree import SAMPLERS, TRANSPORTS

COLUMNS = 80


def commands(command: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command that is listed, groups included."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from commands(below, (*path, name))


@pytest.mark.parametrize("path", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_help_fits(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    shown = CliRunner().invoke(app, [*path, "--help"])
    assert shown.exit_code == 0
    assert "…" not in shown.output, "a word is longer than its column"
    command = typer.main.get_command(app)
    for word in path:
        command = command.commands[word]  # type: ignore[attr-defined]
    _, *rest = (command.help or "").split("\n\n")  # the first paragraph is wrapped by typer
    for line in "\n".join(rest).splitlines():
        assert Text.from_markup(line).cell_len <= COLUMNS - 2, "it is broken in a second place"


def test_what_may_be_chosen_is_all_there_is() -> None:
    assert ", ".join(native.sampler_names()) == SAMPLERS
    assert ", ".join(LISTEN) == TRANSPORTS
