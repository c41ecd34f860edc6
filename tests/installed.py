"""Packages of extras: a test does without them, except where everything must be there."""

from __future__ import annotations

import importlib.util
import os

import pytest


def require(*modules: str) -> None:
    """Skips a test when one of these cannot be found; fails it in CI."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        end = pytest.fail if os.environ.get("DRLNET_CI") else pytest.skip
        end(f"not installed: {', '.join(missing)}")
