"""Adders: which columns and items a kind of experience has, and which rows become items."""

from drlnet.adders.items import Items
from drlnet.adders.n_step import (
    NStepErrors,
    transition_columns,
    transition_item,
    transition_row,
)
from drlnet.adders.stacks import Stacks, stack_rows, stack_view

__all__ = [
    "Items",
    "NStepErrors",
    "Stacks",
    "stack_rows",
    "stack_view",
    "transition_columns",
    "transition_item",
    "transition_row",
]
