"""Options generated from settings: name, type, limits and help are those of the setting."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from drlnet.cli import completion
from drlnet.config import Config
from drlnet.config.fields import field_types
from drlnet.config.tree import SAMPLERS, TRANSPORTS

# Where an option stands in a command's help, by its key or its section.
_PANELS = {
    "algo": "Training",
    "run": "Training",
    "replay": "Training",
    "actor": "Actors",
    "server": "Server and network",
    "run.serial": "Actors",
}
_COMPLETED = {
    "algo.name": completion.algorithms,
    "replay.sampler": completion.words(SAMPLERS),
    "server.sampler": completion.words(SAMPLERS),
    "server.transport": completion.words(TRANSPORTS),
}

Command = TypeVar("Command", bound=Callable[..., None])


def settings_flags(*keys: str) -> Callable[[Command], Command]:
    """Gives a command an option for each of these settings, before its other options.

    The command's parameter `flags` gets {key: value}, None where an option was not given.
    """
    options = {_parameter_name(key): (key, _option(key)) for key in keys}

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        kept = [one for one in signature.parameters.values() if one.name != "flags"]
        generated = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, (_, kind) in options.items()
        ]

        @functools.wraps(command)
        def wrapped(**values: Any) -> None:
            if "flags" in values:  # called from Python, by keys
                return command(**values)
            given = {key: values.pop(name) for name, (key, _) in options.items()}
            # An empty list or a flag that was left out: not given.
            absent = [key for key, value in given.items() if value is False or value == []]
            flags = {**given, **dict.fromkeys(absent)}
            return command(flags=flags, **values)

        hints = typing.get_type_hints(command, include_extras=True)
        kept = [
            one.replace(annotation=hints[one.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for one in kept
        ]
        required = [one for one in kept if one.default is inspect.Parameter.empty]
        others = [one for one in kept if one.default is not inspect.Parameter.empty]
        together = [*required, *generated, *others]
        wrapped.__signature__ = signature.replace(parameters=together)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {one.name: one.annotation for one in together}
        return typing.cast(Command, wrapped)

    return decorate


def _parameter_name(key: str) -> str:
    return key.replace(".", "_")


def _option(key: str) -> Any:
    section, _, name = key.partition(".")
    kind = field_types(Config)[section]
    field = next(one for one in dataclasses.fields(kind) if one.name == name)
    flag = field.metadata["flag"] or "--" + name.replace("_", "-")
    words = field.metadata["help"]
    default = field.default
    if not isinstance(default, bool | tuple) and default not in (None, dataclasses.MISSING):
        words += f" [dim](the recipe's, or {default})[/dim]"
    given = _kind_of_option(field_types(kind)[name]) | None
    return Annotated[
        given,
        typer.Option(
            flag,
            help=words,
            autocompletion=_COMPLETED.get(key),
            rich_help_panel=_PANELS.get(key, _PANELS.get(section)),
        ),
    ]


def _kind_of_option(kind: Any) -> Any:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next(part for part in typing.get_args(kind) if part is not type(None))
    return list[str] if typing.get_origin(kind) is tuple else kind  # a list: repeatable
