"""A learner's work beside its batches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from drlnet.bench.paper.training import Adam


def test_adam_is_torchs() -> None:
    torch.manual_seed(0)
    start = torch.randn(5, 3)
    ours, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
    own, known = Adam([ours]), torch.optim.Adam([theirs])
    for _ in range(5):
        for param in (ours, theirs):
            (param**2).sum().backward()
        own.step()
        assert ours.grad is None
        known.step()
        known.zero_grad()
    assert torch.equal(ours, theirs)


def test_a_learner_that_trains_does_not_import_torchs_compiler(tmp_path: Path) -> None:
    """Twice as long as its second of training."""
    script = """
import sys
import numpy as np
from drlnet.bench.paper.access import Access
from drlnet.bench.paper.training import Trainer
from drlnet.bench.paper.workloads import SHAPES

class Replay:
    def sample(self, batch, out): pass
    def update(self, keys, priorities):
        print(len(keys), priorities.dtype, "torch._dynamo" in sys.modules)

Trainer(Access(SHAPES["frame"].spec(), {}, lambda actors: None, {}), 8).step(Replay())
"""
    # Where this process imports from, whatever folder it is in.
    here = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", script],
        check=False, capture_output=True, text=True, cwd=tmp_path, env=here,
    )  # fmt: skip
    assert ran.stdout.split() == ["8", "float32", "False"], ran.stderr
