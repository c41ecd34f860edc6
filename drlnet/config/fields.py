"""How a setting is declared: a dataclass field with a sentence of help and its limits."""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from drlnet.errors import ConfigError, UnknownKey, UserCodeError

T = TypeVar("T")


def setting(
    default: T,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    flag: str | None = None,
) -> T:
    """A dataclass field; low and high are inclusive limits, `above` an exclusive one.

    flag: what the setting is called as an option of a command; None: --name, dashes in it.
    """
    return dataclasses.field(
        default=default,
        metadata={"help": help, "low": low, "high": high, "above": above, "flag": flag},
    )


def setting_from(factory: Callable[[], T], help: str, *, flag: str | None = None) -> T:
    """A dataclass field whose default is made anew each time (a dict, a section)."""
    return dataclasses.field(default_factory=factory, metadata={"help": help, "flag": flag})


def field_types(section: type) -> dict[str, Any]:
    """The resolved type of every field of a section."""
    return typing.get_type_hints(section)


def require_settings(what: str, section: type) -> None:
    """Raises UserCodeError for a user's section that a config cannot hold. what: names it."""
    try:
        kinds = field_types(section)
    except Exception as error:  # the names of types are a user's code
        raise UserCodeError.of(f"{what}: the types of its fields are unknown: ", error) from error
    for field in dataclasses.fields(section):
        kind = kinds[field.name]
        if not _held(kind):
            raise UserCodeError(
                f"{what}: its field {field.name} is of the type {kind}, which a config "
                "does not hold",
                "use bool, int, float, str, Literal, tuple[X, ...], dict[str, X] or X | None",
            )
        if field.default is field.default_factory is dataclasses.MISSING:
            raise UserCodeError(
                f"{what}: its field {field.name} has no default",
                f'declare it by {field.name}: ... = setting(DEFAULT, "what it is")',
            )


def _held(kind: Any) -> bool:
    """Whether convert() makes values of this type."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return all(map(_held, parts))
    if origin is tuple and parts:  # of one type, its first
        return all(part in (parts[0], ...) for part in parts) and _held(parts[0])
    return origin in (Literal, dict) or kind in (bool, int, float, str, dict, object, type(None))


def describe_type(kind: Any) -> str:
    """A type as a person would say it: "an integer", "one of 'a', 'b'"."""
    names = {
        bool: "true or false", int: "an integer", float: "a number", str: "a text",
        type(None): "none", dict: "a table",
    }  # fmt: skip
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe_type(part) for part in arguments)
    if origin is tuple:
        return "a list, each " + describe_type(arguments[0])
    return names.get(origin or kind, str(kind))


def convert(key: str, value: Any, kind: Any) -> Any:
    """`value` as `kind`, or ConfigError naming the key and what it expects.

    An integer is taken for a float and a list for a tuple; nothing else is guessed.
    """
    if typing.get_origin(kind) is dict and isinstance(value, Mapping):
        of = typing.get_args(kind)[1]  # what samplers take is theirs to check
        return {name: convert(f"{key}.{name}", item, of) if of is int else item
                for name, item in value.items()}  # fmt: skip
    converted = _converted(value, kind)
    if converted is _WRONG:
        raise ConfigError(
            f"{key} = {value!r}: expected {describe_type(kind)}",
            _example(key, kind) or f"give {key} {describe_type(kind)}",
        )
    return converted


def _example(key: str, kind: Any) -> str:
    """Shows how a list or a table is written."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        items = {int: "64, 64", float: "0.5, 1.0"}.get(parts[0], '"one", "two"')
        return f"write --set '{key}=[{items}]'"
    return f"write --set {key}.NAME=VALUE" if origin is dict else ""


_WRONG = object()


def _converted(value: Any, kind: Any) -> Any:
    origin = typing.get_origin(kind)
    parts = typing.get_args(kind)
    if origin is Literal:
        same = any(value == choice and type(value) is type(choice) for choice in parts)
        return value if same else _WRONG
    if origin in (typing.Union, types.UnionType):
        if value == "none" and type(None) in parts:
            return None  # as a file says it
        candidates = (_converted(value, part) for part in parts)
        return next((found for found in candidates if found is not _WRONG), _WRONG)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            return _WRONG
        items = [_converted(item, parts[0]) for item in value]
        return _WRONG if any(item is _WRONG for item in items) else tuple(items)
    if origin is dict:
        return dict(value) if isinstance(value, Mapping) else _WRONG
    if kind in (int, float):
        return _number(value, kind)
    return value if isinstance(value, kind) else _WRONG


def _number(value: Any, kind: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return _WRONG
    if kind is int and isinstance(value, float) and not value.is_integer():
        return _WRONG
    try:
        return kind(value)  # 1e6 reads better than 1000000: an integer may be written so
    except OverflowError:  # an integer that no float holds
        return _WRONG


def check_limits(key: str, value: Any, metadata: Mapping[str, Any]) -> None:
    """Raises ConfigError when a number lies outside the limits that its field declares.

    Those of a list hold for each of its items.
    """
    if isinstance(value, tuple):
        for item in value:
            check_limits(key, item, metadata)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    low, high, above = (metadata.get(name) for name in ("low", "high", "above"))
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key} = {value}: expected a finite number", f"correct {key}")
    if low is not None and value < low:
        raise ConfigError(f"{key} = {value}: the least is {low:g}", f"raise {key}")
    if high is not None and value > high:
        raise ConfigError(f"{key} = {value}: the most is {high:g}", f"lower {key}")
    if above is not None and value <= above:
        raise ConfigError(f"{key} = {value}: must be above {above:g}", f"raise {key}")


def walk(section: Any, prefix: str = "") -> Iterator[tuple[str, Any, dataclasses.Field[Any]]]:
    """Every leaf of a config tree as (dotted key, value, field)."""
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if dataclasses.is_dataclass(value):
            yield from walk(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, value, field


def changes(ours: Any, others: Any) -> dict[str, Any]:
    """The settings of a config that another one lacks or has otherwise, by key."""
    there = {key: value for key, value, _ in walk(others)}
    return {k: v for k, v, _ in walk(ours) if k not in there or v != there[k]}


# What other libraries call them.
_SYNONYMS = {
    **dict.fromkeys(("lr", "step_size"), "algo.learning_rate"),
    **dict.fromkeys(("bs", "minibatch_size", "batch"), "replay.batch_size"),
    **dict.fromkeys(("buffer_size", "memory_size", "replay_size"), "replay.capacity"),
    **dict.fromkeys(("learning_starts", "warmup", "min_replay_size"), "replay.min_size"),
    **dict.fromkeys(("n_steps", "nstep", "multi_step"), "algo.n_step"),
    **dict.fromkeys(("total_timesteps", "num_frames", "max_steps"), "run.max_env_steps"),
    **dict.fromkeys(
        ("target_update", "target_update_interval", "target_network_frequency"),
        "algo.target_period",
    ),
    **dict.fromkeys(("num_envs", "n_envs"), "actor.envs_per_actor"),
    **dict.fromkeys(("num_workers", "n_actors"), "actor.num_actors"),
    **dict.fromkeys(("hidden", "net_arch", "layers"), "net.hidden_sizes"),
    **dict.fromkeys(("alpha",), "algo.priority_exponent"),
    **dict.fromkeys(("discount",), "algo.gamma"),
    **dict.fromkeys(("env_id",), "env.id"),
    **dict.fromkeys(("tensorboard", "wandb", "mlflow", "logger"), "run.sinks"),
}


_SLIP = 0.8  # so near is a slip of the keyboard


def unknown_key(key: str, known: list[str], own: str = "") -> UnknownKey:
    """The error for a key that does not exist, with the nearest one that does.

    own: the name in its section, which of a user's class is module:Class.
    """
    last = key.rsplit(".", 1)[-1]
    if ":" in own and not difflib.get_close_matches(key, known, 1, cutoff=_SLIP):
        return UnknownKey(
            f"unknown config key {key}: {own} has no such setting",
            "leave it out, or declare it in its dataclass of settings (drlnet help algorithms)",
        )
    synonym = _SYNONYMS.get(last.lower())
    near = [synonym] if synonym in known else difflib.get_close_matches(key, known, 1, cutoff=0.5)
    if not near:  # a right name in a wrong section is the commonest slip
        by_leaf = {name.rsplit(".", 1)[-1]: name for name in known}
        near = [by_leaf[leaf] for leaf in difflib.get_close_matches(last, list(by_leaf), 1)]
    remedy = f"did you mean {near[0]}?" if near else "`drlnet run --help-config` lists the keys"
    return UnknownKey(f"unknown config key {key}", remedy)
