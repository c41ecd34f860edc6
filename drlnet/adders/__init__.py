"""Adders: which rows become items, and with which first priority; one file each."""

from drlnet.adders.items import Items
from drlnet.adders.n_step_errors import NStepErrors

__all__ = ["Items", "NStepErrors"]
