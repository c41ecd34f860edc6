"""Adders: which columns and items a kind of experience has, and which rows become items."""

from drlnet.adders.batches import Tensors, tensors
from drlnet.adders.items import Items
from drlnet.adders.n_step import (
    NStepErrors,
    lambda_targets,
    n_step_targets,
    transition_columns,
    transition_item,
    transition_row,
)
from drlnet.adders.observations import (
    observation_columns,
    observation_views,
    observed,
    row_columns,
)
from drlnet.adders.stacks import Stacks, stack_rows, stack_view, stacks_view, window_stacks
from drlnet.adders.unrolls import UnrollSettings, unroll_frames, unroll_item, unroll_items

__all__ = [
    "Items",
    "NStepErrors",
    "Stacks",
    "Tensors",
    "UnrollSettings",
    "lambda_targets",
    "n_step_targets",
    "observation_columns",
    "observation_views",
    "observed",
    "row_columns",
    "stack_rows",
    "stack_view",
    "stacks_view",
    "tensors",
    "transition_columns",
    "transition_item",
    "transition_row",
    "unroll_frames",
    "unroll_item",
    "unroll_items",
    "window_stacks",
]
