"""What is installed where: a machine that only serves or watches, and the sdist."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from importlib.metadata import requires
from pathlib import Path

import pytest
from system.command import finished, lines_of_error, server

from drlnet.errors import RUN_UNFIT_EXIT_CODE, NotInstalled

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def light(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Commands find none of drlnet's dependencies but those that the documentation installs."""
    page = (ROOT / "drlnet" / "docs" / "clusters.md").read_text(encoding="utf-8")
    found = re.search(r"^pip install ([\w ]+)\npip install --no-deps drlnet", page, re.MULTILINE)
    assert found is not None
    present = {*found[1].split(), "tomli"}
    needed = {
        re.split(r"[^\w-]", line)[0] for line in requires("drlnet") or () if "extra" not in line
    }
    absent = needed - present
    assert {"gymnasium", "safetensors", "torch"} <= absent
    (tmp_path / "sitecustomize.py").write_text(
        f"""from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name in {absent} else find(name, *rest)
""",
        encoding="utf-8",
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return absent


def test_serving_and_watching_need_no_torch(tmp_path: Path, light: set[str]) -> None:
    with server(tmp_path, "--metrics", "127.0.0.1:0") as address:
        finished(tmp_path, "stats", "--server", address, "--once")
        code = f"from drlnet import Client; print(Client({address!r}).ping(64) > 0)"
        asked = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert asked.stdout == "True\n", asked.stderr
    finished(tmp_path, "doctor", "--require", "run", code=RUN_UNFIT_EXIT_CODE)


@pytest.mark.parametrize("words", [["run"], ["actor", "--server", "udp://127.0.0.1:1"]])
def test_training_says_what_to_install(tmp_path: Path, light: set[str], words: list[str]) -> None:
    name, *rest = words
    ended = finished(tmp_path, name, "CartPole-v1", *rest, error=NotInstalled)
    cause, remedy = lines_of_error(ended)
    assert cause == "error: gymnasium is not installed"
    assert remedy.startswith("  try: pip install ")
    assert all(name in remedy for name in light)


def test_the_sdist_has_all_that_a_build_needs(tmp_path: Path) -> None:
    code = "import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (sdist,) = tmp_path.iterdir()
    with tarfile.open(sdist) as archive:
        held = {Path(*Path(name).parts[1:]) for name in archive.getnames()}
    needed = {Path(name) for name in ("pyproject.toml", "README.md", "LICENSE")}
    for folder in ("drlnet", "native", "runs/recipes"):
        files = {path for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert files
        built_here = {
            path for path in files if path.suffix == ".so" or path.parent.name == "__pycache__"
        }
        needed |= {path.relative_to(ROOT) for path in files - built_here}
    assert needed <= held
    assert not [path for path in held if path.is_relative_to("runs/results")]
