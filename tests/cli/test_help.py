"""The help of every command, in a terminal of 80 columns: no ragged paragraph, nothing cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

import drlnet
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


def command_of(path: tuple[str, ...]) -> Any:
    """That command, or group."""
    command: Any = typer.main.get_command(app)
    for word in path:
        command = command.commands[word]
    return command


@pytest.mark.parametrize("path", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_help_fits(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    shown = CliRunner().invoke(app, [*path, "--help"])
    assert shown.exit_code == 0
    assert "…" not in shown.output, "a word is longer than its column"
    command = command_of(path)
    _, *rest = (command.help or "").split("\n\n")  # the first paragraph is wrapped by typer
    for line in "\n".join(rest).splitlines():
        assert Text.from_markup(line).cell_len <= COLUMNS - 2, "it is broken in a second place"


def test_what_may_be_chosen_is_all_there_is() -> None:
    assert ", ".join(native.sampler_names()) == SAMPLERS
    assert ", ".join(LISTEN) == TRANSPORTS


def test_bare_drlnet_is_a_question() -> None:
    shown = CliRunner().invoke(app, [])
    assert shown.exit_code == 0 and "drlnet run CartPole-v1" in shown.output


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_the_version(words: list[str]) -> None:
    shown = CliRunner().invoke(app, words)
    assert (shown.exit_code, shown.output) == (0, f"drlnet {drlnet.__version__}\n")


def test_every_command_but_help_takes_json() -> None:
    without = {
        " ".join(path)
        for path in commands(typer.main.get_command(app))
        if not hasattr(command_of(path), "commands")  # a group
        and not any("--json" in option.opts for option in command_of(path).params)
    }
    assert without == {"help"}
    said = CliRunner().invoke(app, ["version", "--json"])
    assert json.loads(said.stdout.splitlines()[-1]) == {"version": drlnet.__version__}
