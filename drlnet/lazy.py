"""torch, imported when it is first used: `from drlnet.lazy import torch`.

Importing it takes seconds. Commands that only read an algorithm's settings do without.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
else:

    class _Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            module = importlib.import_module(self.__name__)
            self.__dict__.update(module.__dict__)  # from now on an attribute is a plain look-up
            return getattr(module, name)

    torch = _Lazy("torch")

__all__ = ["torch"]
