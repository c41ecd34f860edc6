"""A run of several processes: what is left of it when it is interrupted."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from drlnet.config import load
from drlnet.launch import local
from drlnet.launch.process import DRLNET
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Supervisor
from drlnet.metrics import RunFolder

# The server is the real one. The learner tells its result, and Ctrl-C comes before it has ended.
ROLES = f"""
import os, signal, sys
if sys.argv[1] == "serve":
    os.execv({DRLNET[0]!r}, [*{DRLNET!r}, *sys.argv[1:]])
if sys.argv[1] == "learn":
    print('{{"eval_return_mean": 500.0}}', flush=True)
    os.kill(os.getppid(), signal.SIGINT)
signal.pause()
"""


def test_a_result_that_was_told_before_ctrl_c_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        local, "Supervisor", partial(Supervisor, program=[sys.executable, "-c", ROLES])
    )
    folder = RunFolder.create(load("CartPole-v1", sets=[f"run.folder={tmp_path / 'run'}"]))
    with Stop() as stop:
        run = local.LocalRun(folder.read_config(), folder, stop, lambda reading: None)
        assert run.run() == {"eval_return_mean": 500.0}
        assert stop.signal is not None
