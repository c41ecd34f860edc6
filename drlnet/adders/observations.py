"""Observations as columns: one, or of a Dict one for each leaf, which a network sees flattened.

A Dict's leaves have the columns "obs.KEY" (of nested ones "obs.KEY.KEY"), each in its own dtype. A
network sees them side by side, [..., sum of their sizes] float32, in the order of the space: bytes
are divided by 255, as networks do with images, and a Discrete, stored as one number, is one-hot. An
observation that is a Discrete itself is the only leaf, in the column "obs".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from drlnet.client.specs import Column, View

if TYPE_CHECKING:
    from drlnet.envs import EnvSpaces

Arrays = Mapping[str, npt.NDArray[Any]]
A = TypeVar("A")  # an array, or a tensor


@dataclass(frozen=True)
class Leaf:
    """One array of a Dict observation, or a Discrete one."""

    path: tuple[str | int, ...]  # the keys that lead to it
    dtype: str  # of its column
    shape: tuple[int, ...]
    count: int | None = None  # of a Discrete, stored as a number from 0: how many it has
    first: int = 0  # its lowest one in the environment's own numbering
    binary: bool = False  # truth values, stored as bytes of 0 and 255

    @property
    def column(self) -> Column:
        """The column that a table declares for it."""
        return Column(self.dtype, self.shape)

    @property
    def size(self) -> int:
        """The numbers of it that a network sees."""
        return self.count or math.prod(self.shape)


def flat_size(leaves: Mapping[str, Leaf]) -> int:
    """The numbers that a network sees."""
    return sum(leaf.size for leaf in leaves.values())


def flat(leaves: Mapping[str, Leaf], arrays: Arrays) -> npt.NDArray[np.float32]:
    """The leaves, [..., *shape] each, side by side: [..., flat_size(leaves)]."""
    parts = []
    for name, leaf in leaves.items():
        array = arrays[name]
        lead = array.shape[: array.ndim - len(leaf.shape)]
        if leaf.count is None:
            part = array.reshape(*lead, leaf.size).astype(np.float32)
        else:
            part = (array[..., None] == np.arange(leaf.count)).astype(np.float32)
        parts.append(part / np.float32(255) if array.dtype == np.uint8 else part)
    return np.concatenate(parts, axis=-1)


def observation_columns(spaces: EnvSpaces) -> dict[str, Column]:
    """The columns of an observation: "obs", or those of a Dict's leaves."""
    if spaces.leaves:
        return {name: leaf.column for name, leaf in spaces.leaves.items()}
    return {"obs": Column(spaces.obs_dtype, spaces.obs_shape)}


def row_columns(spaces: EnvSpaces) -> dict[str, Column]:
    """The columns of all that comes with an observation, as in envs.Rows."""
    bools = ("terminated", "truncated", "first", "last", "mask")
    columns = {
        "reward": Column("float32"),
        **dict.fromkeys(bools, Column("bool")),
        **observation_columns(spaces),
    }
    if spaces.action_mask:
        columns["action_mask"] = Column("bool", (spaces.num_actions,))
    return columns


def observation_views(spaces: EnvSpaces | None, name: str, view: View) -> dict[str, View]:
    """The view, of column "obs", for every column of an observation: `name`, or `name`.KEY.

    name: ends in "obs". spaces: None for observations of one column.
    """
    columns = spaces.leaves if spaces is not None else {}
    return {
        name + column.removeprefix("obs"): View(column, view.rows, view.pad, view.from_end)
        for column in columns or ["obs"]
    }


def observed(spaces: EnvSpaces | None, views: Arrays) -> Arrays:
    """A batch's views, those of leaves replaced by what a network sees.

    "obs.KEY" [n, (k,) *shape] become "obs" [n, (k,) size] float32; "next_obs.KEY" likewise.
    """
    return joined(spaces, views, flat)


def joined(
    spaces: EnvSpaces | None,
    views: Mapping[str, A],
    flatten: Callable[[Mapping[str, Leaf], Mapping[str, A]], A],
) -> Mapping[str, A]:
    """What observed() says, by this function in place of flat()."""
    if spaces is None or not spaces.leaves:
        return views
    seen = {name: view for name, view in views.items() if "." not in name}
    for name in dict.fromkeys(view.partition(".")[0] for view in views):
        if name.endswith("obs"):
            leaves = {column: views[name + column.removeprefix("obs")] for column in spaces.leaves}
            seen[name] = flatten(spaces.leaves, leaves)
    return seen
