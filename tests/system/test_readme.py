"""What the README and the documentation show works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from system.command import server

import drlnet

pytestmark = pytest.mark.fast

ROOT = Path(__file__).resolve().parents[2]


def test_the_notebook_example(tmp_path: Path) -> None:
    """Its blocks in their order, as they are pasted into one notebook."""
    page = (ROOT / "drlnet" / "docs" / "client.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```py(?:thon)?\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    with server(tmp_path) as address:
        code = "\n".join(blocks).replace("udp://127.0.0.1:7447", address)
        # With the package that these tests meet, wherever it lies.
        package = Path(drlnet.__file__).parents[1]
        code = f"import sys; sys.path.append({str(package)!r})\n{code}"
        code += "\nassert 'torch' not in sys.modules\n"
        ended = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("(32, 3)")


def test_ci_runs_the_same_test_line() -> None:
    install, test = "pip install '.[test]'", "pytest"
    assert f"{install} && {test}" in (ROOT / "README.md").read_text(encoding="utf-8")
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    begun = steps.index(install.replace("install", "install -q") + " </dev/null")
    assert any(step.lstrip().startswith(f"{test} ") for step in steps[begun:])
