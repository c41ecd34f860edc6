"""Freed memory that a process keeps."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np
from drlnet.nets.memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def step():
    tensors = [np.ones(bytes, np.uint8) for bytes in 6 * [4 << 20]]
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc's malloc")
def test_a_step_takes_the_memory_of_the_one_before() -> None:
    kept, new = (
        int(subprocess.check_output([sys.executable, "-c", FAULTS, how])) for how in ("kept", "new")
    )
    assert kept < 1_000 and new > 20_000  # of 20 x 6,144 pages
