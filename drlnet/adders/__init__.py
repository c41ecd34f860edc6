"""Adders: which columns and items a kind of experience has, and which rows become items."""

from drlnet.adders.items import Items
from drlnet.adders.n_step import (
    NStepErrors,
    transition_columns,
    transition_item,
    transition_row,
)
from drlnet.adders.observations import observation_columns, observation_views, observed
from drlnet.adders.stacks import Stacks, stack_rows, stack_view
from drlnet.adders.unrolls import unroll_frames, unroll_item, unroll_items

__all__ = [
    "Items",
    "NStepErrors",
    "Stacks",
    "observation_columns",
    "observation_views",
    "observed",
    "stack_rows",
    "stack_view",
    "transition_columns",
    "transition_item",
    "transition_row",
    "unroll_frames",
    "unroll_item",
    "unroll_items",
]
