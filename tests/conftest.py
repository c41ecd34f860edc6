"""Lets the tests meet the installed package, whichever way they are started."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Torch's threads, of the tests and of the commands that they start, would wait for each other in
# loops; on cores that others want too, each turn at a small network then takes a time slice.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# `python -m pytest` puts the checkout first on the path. Without the extension built in place that
# package cannot work, and the installed one is meant, if there is one.
if not any((ROOT / "drlnet").glob("_native*.so")):
    _saved = list(sys.path)
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
    if importlib.util.find_spec("drlnet") is None:
        sys.path[:] = _saved
