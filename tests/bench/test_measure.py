"""A build without the benchmarks' extension module: everything but `drlnet bench` works."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

# The import of a module that is None in sys.modules fails as that of a missing one does.
WITHOUT = """
import sys
sys.modules["drlnet._measure"] = None
from drlnet.__main__ import main
main()
"""


def drlnet(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_run_works(tmp_path: Path) -> None:
    ended = drlnet(
        *("run", "CartPole-v1", "--serial", "--max-env-steps", "1500", "--json"),
        *("--set", "eval.report_episodes=20"),
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["env_steps"] >= 1500


def test_a_benchmark_says_what_is_missing(tmp_path: Path) -> None:
    ended = drlnet("bench", "sampler", "--quick", cwd=tmp_path)
    assert ended.returncode == 3, ended.stderr
    cause, remedy = ended.stderr.splitlines()
    assert "built without its benchmarks" in cause and "pip install" in remedy
