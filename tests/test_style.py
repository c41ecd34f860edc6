"""The house's rules that a program can check: sizes, layers, names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 400

# Top to bottom; an import may only point at its own row or a lower one.
LAYERS = [
    ["cli", "__main__"],
    ["dashboard", "bench", "doctor", "plots"],
    ["launch"],
    ["roles"],
    ["algos"],
    ["adders", "policies", "nets", "envs"],
    ["client"],
    ["metrics", "config", "native", "errors", "lazy"],
]
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}

# The native core, top to bottom: what each folder may include besides its own files.
NATIVE_LAYERS: dict[str, set[str]] = {
    "measure": {"base", "wire", "transport", "sampler", "replay", "session", "server", "client"},
    "client": {"base", "wire", "session"},
    "server": {"base", "wire", "replay", "session"},
    "session": {"base", "wire", "transport"},
    "replay": {"base", "wire", "sampler"},
    "sampler": {"base", "wire"},
    "dpdk": {"base", "transport"},
    "transport": {"base"},
    "wire": {"base"},
    "base": set(),
}


def python_files() -> list[Path]:
    return sorted((ROOT / "drlnet").rglob("*.py"))


def files_of_tests() -> list[Path]:
    return sorted((ROOT / "tests").rglob("*.py"))


def native_files() -> list[Path]:
    return sorted(path for path in (ROOT / "native").rglob("*") if path.suffix in {".h", ".cc"})


def modules_imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            module = node.module or ""
            yield module
            # `from drlnet import native` names a module, too.
            yield from (f"{module}.{name.name}" for name in node.names if module == "drlnet")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", python_files() + files_of_tests() + native_files(), ids=relative)
def test_file_is_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


@pytest.mark.parametrize("path", python_files(), ids=relative)
def test_imports_point_downward(path: Path) -> None:
    parts = path.relative_to(ROOT / "drlnet").with_suffix("").parts
    if parts == ("__init__",):
        return  # the package's surface: it names what users import
    own_rank = RANK[parts[0]]
    early = {"drlnet.launch.guard"} if parts[0] == "__main__" else set()
    for module in modules_imported(ast.parse(path.read_text(encoding="utf-8"))):
        if not module.startswith("drlnet.") or module in early:
            continue
        target = module.split(".")[1]
        if target in {"__version__", "_native"}:
            continue
        assert RANK[target] >= own_rank, f"{module} lies above {parts[0]}"


@pytest.mark.parametrize("path", python_files(), ids=relative)
def test_only_native_imports_the_extension(path: Path) -> None:
    if path.name == "native.py":
        return
    for module in modules_imported(ast.parse(path.read_text(encoding="utf-8"))):
        assert not module.startswith("drlnet._native")


@pytest.mark.parametrize("path", python_files(), ids=relative)
def test_nothing_is_called_done(path: Path) -> None:
    # terminated or truncated: "done" does not say which.
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Name):
            names.append(node.id)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.append(node.attr)
        assert not {"done", "dones"} & set(names)


@pytest.mark.parametrize("path", python_files() + native_files(), ids=relative)
def test_nothing_is_left_for_later(path: Path) -> None:
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", path.read_text(encoding="utf-8"))


def test_native_layers() -> None:
    """The core knows no Python, its lower folders nothing of the upper ones."""
    native = ROOT / "native"
    for folder in [*(native / "src").iterdir(), native / "dpdk"]:
        for path in folder.rglob("*.*"):
            text = path.read_text(encoding="utf-8")
            assert "Python.h" not in text, path
            assert "nanobind" not in text, path
            included = set(re.findall(r'#include "([a-z_]+)/', text))
            assert included <= {folder.name} | NATIVE_LAYERS[folder.name], path
    for folder in ("src", "bindings", "fuzz", "tests"):
        for path in (native / folder).rglob("*.[ch]*"):
            if folder != "fuzz" or not path.name.startswith("vhost"):
                assert "#include <rte_" not in path.read_text(encoding="utf-8"), path


def test_top_level_holds_what_it_should() -> None:
    allowed = {
        *("pyproject.toml", "drlnet", "native", "tests", "runs", "README.md", "LICENSE"),
        *(".gitignore", ".ci", ".git"),
    }
    ignored = {"build", "dist", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    names = {path.name for path in ROOT.iterdir()}
    strangers = {
        name
        for name in names - allowed - ignored
        if not name.startswith(("build", "__pycache__")) and not name.endswith(".egg-info")
    }
    # A virtual environment may have any name; it is one by its marker.
    assert not {name for name in strangers if not (ROOT / name / "pyvenv.cfg").exists()}
