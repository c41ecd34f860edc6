"""A learner's work beside its batches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_a_learner_that_trains_does_not_import_torchs_compiler(tmp_path: Path) -> None:
    """Twice as long as its second of training."""
    script = """
import sys
import numpy as np
from drlnet.bench.paper.training import Trainer
from drlnet.bench.paper.workloads import SHAPES

class Replay:
    def sample(self, batch, out): pass
    def update(self, keys, priorities):
        print(len(keys), priorities.dtype, "torch._dynamo" in sys.modules)

spec = SHAPES["frame"].spec()
Trainer(spec, np.zeros(spec.layout(8)["total_bytes"], np.uint8), 8).step(Replay())
"""
    # Where this process imports from, whatever folder it is in.
    here = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", script],
        check=False, capture_output=True, text=True, cwd=tmp_path, env=here,
    )  # fmt: skip
    assert ran.stdout.split() == ["8", "float32", "False"], ran.stderr
