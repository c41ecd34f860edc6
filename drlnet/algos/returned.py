"""What a user's algorithm returns against the contract: for its author, where they differ.

Each of these raises UserCodeError, which names the algorithm, its method and what to return.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from drlnet.adders.items import Items
from drlnet.algos.contract import Acted, Algorithm, Learned, Learner
from drlnet.errors import UserCodeError

if TYPE_CHECKING:
    from drlnet.client import Batch

_PARTS = {
    "agent": ("load", "act", "items", "figures"),
    "learner": ("step", "steps", "params", "state_dict", "load_state_dict"),
    "greedy": ("load", "act"),
}
_ACTED = "integers [M] and {table: {column: array}}"
_COMPLETED = "{table: Items(streams, steps, priorities)}"
_OF_RECORDS = {"time", "changes"}  # what each line of metrics.jsonl has besides a reading


def made(algorithm: Algorithm[Any], method: str, *given: Any) -> Any:
    """The agent, learner or player that this method makes: it has all that is asked of it."""
    part = getattr(algorithm, method)(*given)
    for name in _PARTS[method]:
        if getattr(part, name, None) is None:
            due = f"an object that has {', '.join(_PARTS[method])}"
            raise _broken(algorithm, method, f"{_form(part)}, which lacks {name}", due)
    return part


def acted(algorithm: Algorithm[Any], tables: Collection[str], found: Any) -> Acted:
    """What act() returned: actions, and the columns of each table."""
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Mapping)):
        raise _broken(algorithm, "act", _form(found), _due(_ACTED, tables))
    actions = found[0]
    if not isinstance(actions, np.ndarray) or actions.dtype.kind not in "iu":
        of = f" of {actions.dtype}" if hasattr(actions, "dtype") else ""
        raise _broken(algorithm, "act", f"{_form(actions)}{of} as actions", _due(_ACTED, tables))
    for name, columns in found[1].items():
        if name not in tables or not isinstance(columns, Mapping):
            cause = f"{_form(columns)} for a table {name!r}"
            raise _broken(algorithm, "act", cause, _due(_ACTED, tables))
    if len(found[1]) < len(tables) and not algorithm.splits_rows:
        left = [name for name in tables if name not in found[1]]
        cause = f"nothing for the table {left[0]!r}"
        raise _broken(algorithm, "act", cause, _due(_ACTED, tables))
    return found


def completed(
    algorithm: Algorithm[Any], tables: Collection[str], found: Any
) -> Mapping[str, Items]:
    """What items() returned: the items of tables."""
    if not isinstance(found, Mapping):
        raise _broken(algorithm, "items", _form(found), _due(_COMPLETED, tables))
    for name, items in found.items():
        if name not in tables or not isinstance(items, Items):
            cause = f"{_form(items)} for a table {name!r}"
            raise _broken(algorithm, "items", cause, _due(_COMPLETED, tables))
        given = {"streams": items.streams, "steps": items.steps, "priorities": items.priorities}
        shapes = {what: np.shape(one) for what, one in given.items() if one is not None}
        if len({*shapes.values()}) > 1 or len(shapes["streams"]) != 1:
            said = ", ".join(f"{what} {list(shape)}" for what, shape in shapes.items())
            raise _broken(algorithm, "items", f"{said} for {name!r}", "arrays [k] of one length")
    return found


def stepped(algorithm: Algorithm[Any], learner: Learner, batches: Mapping[str, Batch]) -> Learned:
    """Takes a learner step; returns what step() returned."""
    before = learner.steps
    learned: Any = learner.step(batches)
    if not isinstance(learned, Learned) or not isinstance(learned.priorities, Mapping):
        due = "Learned({figure: scalar}, {table: priorities})"
        raise _broken(algorithm, "step", _form(learned), due)
    if learner.steps <= before:
        raise UserCodeError(
            f"algo.name = {algorithm.config.algo.name!r}: step() left `steps` at {before}",
            "count each learner step in step(): self.steps += 1",
        )
    scalars(algorithm, "step", learned.figures)
    for name, priorities in learned.priorities.items():
        sizes = {table: [len(batch.keys)] for table, batch in batches.items()}
        if name not in sizes or list(np.shape(priorities)) != sizes[name]:
            cause = f"priorities {list(np.shape(priorities))} for a table {name!r}"
            raise _broken(algorithm, "step", cause, f"one for each item of a batch: {sizes}")
    return learned


def scalars(algorithm: Algorithm[Any], method: str, found: Any) -> Mapping[str, Any]:
    """The figures that this method returned."""
    if not isinstance(found, Mapping):
        raise _broken(algorithm, method, f"{_form(found)} as figures", "scalars by name")
    for name, value in found.items():
        shape = getattr(value, "shape", None if isinstance(value, int | float) else (0,))
        if shape is not None and math.prod(shape) != 1:
            raise _broken(algorithm, method, f"{_form(value)} as the figure {name!r}", "one number")
    return found


def reading(
    algorithm: Algorithm[Any], method: str, own: Mapping[str, Any], figures: Mapping[str, Any]
) -> dict[str, Any]:
    """What a role reports: its own figures, and those that this method returned."""
    for name in scalars(algorithm, method, figures):
        if name in own or name in _OF_RECORDS:
            cause = f"a figure {name!r}, which drlnet reports itself"
            raise _broken(algorithm, method, cause, "it by another name")
    return {**own, **{name: float(value) for name, value in figures.items()}}


def _broken(algorithm: Algorithm[Any], method: str, found: str, due: str) -> UserCodeError:
    name = algorithm.config.algo.name
    return UserCodeError(f"algo.name = {name!r}: {method}() returned {found}", f"return {due}")


def _form(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is None:
        return "None" if value is None else f"a {type(value).__name__}"
    return f"{type(value).__name__} {list(shape)}"


def _due(form: str, tables: Collection[str]) -> str:
    return f"{form}; its tables are {', '.join(map(repr, tables))}"
