"""Every setting with its value, where that comes from, and its meaning: `--help-config`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from drlnet.config import find_recipe, known_keys
from drlnet.config.checks import derived
from drlnet.config.fields import walk
from drlnet.config.load import build, layers, merged
from drlnet.config.toml import literal, parse_value
from drlnet.metrics import RunFolder


def print_config_help(context: typer.Context) -> None:
    """A table of all keys as this command line sets them.

    A terminal of 80 columns shows it whole, a pipe gets a line for each key.

    Raises ConfigError for what they cannot be.
    """
    words = _words(context)
    env_id, file, resume = (words.get(name) for name in ("env", "config", "resume"))
    flags = {key: _value(words.get(key.replace(".", "_"))) for key in known_keys()}
    if resume:
        folder = RunFolder(Path(resume).absolute())
        file = folder.config_path
        flags |= {"run.folder": str(folder.path), "run.resume": True}
    found = layers(
        env_id, file=Path(file) if file else None, flags=flags, sets=words.get("set_") or ()
    )
    config = build(merged(found))
    plain = {key: value for key, value, _ in walk(config)}
    console = Console()
    if not console.is_terminal:  # a pipe takes lines of any width
        console.width = 1000
    table = Table(box=None, pad_edge=False, show_header=True)
    table.add_column("key", no_wrap=True, style="cyan")
    table.add_column("value", overflow="fold", max_width=16 if console.is_terminal else None)
    table.add_column("from", no_wrap=True)
    table.add_column("meaning")
    section = ""
    for key, value, field in walk(derived(config)):
        if key.partition(".")[0] != section:
            section = key.partition(".")[0]
            table.add_section()
        origin = _origin(found, key) if value == plain[key] else "derived"
        table.add_row(
            key, "none" if value is None else literal(value, key), origin, field.metadata["help"]
        )
    console.print(table, markup=False)
    if not (env_id or resume) and "env" in (parameter.name for parameter in context.command.params):
        console.print("\nWithout ENV there is no recipe: drlnet run ENV --help-config")
    elif found.get("recipe"):
        path = find_recipe(str(env_id), config.algo.name) or find_recipe(str(env_id))
        console.print(f"\nThe recipe: {path}", soft_wrap=True)
    console.print("\nIn a TOML file:  \\[replay]\n                 batch_size = 256")
    console.print("On the command line:  --set replay.batch_size=256")


def _words(context: typer.Context) -> dict[str, Any]:
    """What the command line gives, by parameter: this option answers before others are read."""
    words = sys.argv[sys.argv.index(str(context.info_name)) + 1 :]
    given: dict[str, Any] = context.command.make_parser(context).parse_args(words)[0]
    return given


def _value(given: Any) -> Any:
    return parse_value(given) if isinstance(given, str) else given


def _origin(found: Mapping[str, Mapping[str, Any]], key: str) -> str:
    """The last layer that says something of the key, or of a key in it."""
    names = [
        name
        for name, layer in found.items()
        if any(said == key or said.startswith(f"{key}.") for said in layer)
    ]
    return names[-1] if names else "default"
