"""The house's rules that a program can check: sizes, layers, names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 400

# Top to bottom; an import may only point at its own row or a lower one.
LAYERS = [
    ["cli", "__main__", "api"],
    ["dashboard", "bench", "doctor", "plots"],
    ["launch"],
    ["roles"],
    ["learning"],
    ["algos"],
    ["adders", "policies", "nets", "envs"],
    ["client"],
    ["metrics", "config", "native", "errors", "lazy", "guard"],
]
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}

# The native core, top to bottom: what each folder may include besides its own files.
NATIVE_LAYERS: dict[str, set[str]] = {
    "measure": {
        "base",
        "spec",
        "wire",
        "transport",
        "sampler",
        "rows",
        "replay",
        "session",
        "server",
        "client",
    },
    "client": {"base", "spec", "rows", "wire", "session"},
    "adders": {"base"},
    "server": {"base", "spec", "wire", "rows", "replay", "session", "storage"},
    "storage": {"base", "spec", "rows", "wire", "replay"},
    "session": {"base", "spec", "wire", "transport"},
    "replay": {"base", "spec", "rows", "sampler"},
    "rows": {"base", "spec"},
    "sampler": {"base", "spec"},
    "dpdk": {"base", "transport"},
    "transport": {"base"},
    "wire": {"base", "spec"},
    "spec": {"base"},
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


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.AST:
    return ast.parse(read(path))


def test_files_are_short() -> None:
    files = python_files() + files_of_tests() + native_files()
    assert not [path for path in files if len(read(path).splitlines()) > MAX_LINES]


def test_imports_point_downward() -> None:
    upward = []
    for path in python_files():
        parts = path.relative_to(ROOT / "drlnet").with_suffix("").parts
        if parts == ("__init__",):
            continue  # the package's surface: it names what users import
        for module in modules_imported(parsed(path)):
            if not module.startswith("drlnet."):
                continue
            target = module.split(".")[1]
            if (
                target not in {"__version__", "_native", "_measure"}
                and RANK[target] < RANK[parts[0]]
            ):
                upward.append(f"{relative(path)} imports {module}")
    assert not upward


def source_of(module: str) -> Path | None:
    """The file of a module of the package."""
    place = ROOT.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return file if module.startswith("drlnet") and file.is_file() else None


def imported_first(path: Path) -> set[Path | None]:
    """The package's files that a file imports when it is imported itself."""
    found = set()
    for node in getattr(parsed(path), "body", []):
        if isinstance(node, ast.ImportFrom):
            names = [source_of(f"{node.module}.{name.name}") for name in node.names]
            found.update(one or source_of(str(node.module)) for one in names)
        elif isinstance(node, ast.Import):
            found.update(source_of(name.name) for name in node.names)
    found.discard(None)
    return found - {path}


def test_imports_go_in_no_circle() -> None:
    left = {path: imported_first(path) for path in python_files()}
    # Files that import nothing of what is left go first; a circle is what never goes.
    while ends := [path for path, needed in left.items() if not needed & left.keys()]:
        for path in ends:
            del left[path]
    assert not [relative(path) for path in left]


def test_each_extension_has_one_importer() -> None:
    importers = {"drlnet._native": "drlnet/native.py", "drlnet._measure": "drlnet/bench/measure.py"}
    assert not [
        f"{relative(path)} imports {module}"
        for path in python_files()
        for module in modules_imported(parsed(path))
        if importers.get(module, relative(path)) != relative(path)
    ]


def names_set(tree: ast.AST) -> Iterator[str]:
    """The names that a module reads or binds, its parameters and the attributes that it sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


# Basenames that several files of drlnet share: each is one thing, seen from several layers.
SHARED_BASENAMES = {
    # A command, the role or process behind it.
    *("actor", "compare", "evaluate", "evaluator", "infer", "learn", "serve", "sweep", "watch"),
    "agent",
    # A subject: its panel, its plot, the file that measures it.
    *("latency", "memory", "plain", "replay", "stages", "throughput"),
    # What a package has of its own: its facts, checks, settings, records and reports.
    *("checks", "host", "records", "report", "settings"),
    "suite",  # of the benchmarks
}


def test_a_basename_says_which_file_is_meant() -> None:
    names = [path.stem for path in python_files() if path.stem != "__init__"]
    assert not {name for name in names if names.count(name) > 1} - SHARED_BASENAMES


def test_nothing_is_called_done() -> None:
    # terminated or truncated: "done" does not say which.
    assert not [
        relative(path)
        for path in python_files()
        if {"done", "dones"}.intersection(names_set(parsed(path)))
    ]


def test_nothing_is_left_for_later() -> None:
    assert not [
        relative(path)
        for path in python_files() + native_files()
        if re.search(r"\b(TODO|FIXME|XXX)\b", read(path))
    ]


# What a native reader stumbles over. Name who acts; say what a thing is, not what it is none of.
BANNED = [
    r"(?i)\b(whoever|whom|nobody|somebody|everybody)\b",
    r"(?i)\bso (many|much)\b(?! that)",
    r"(?<![Tt]here )\b(is|are) no (?!longer\b|more\b|other\b)",
    r"\bfor ever\b",
    r"\bmend(s|ed|ing)?\b",
    r"(?i)\bwhat there is\b",
    # The first words of a docstring or a comment.
    r"(?m)(\"\"\"|^\s*(//|#|\*)\s*)(As (?!in|long|many|few|far)|Of (?![A-Z]))",
]
BANNED_IN_CODE = [r"(?i)\bwho\b", r"\bhimself\b"]  # pages may speak of people


def texts() -> list[Path]:
    pages = [ROOT / "README.md", ROOT / "native" / "PROTOCOL.md", ROOT / "runs/results/README.md"]
    docs = sorted((ROOT / "drlnet" / "docs").glob("*.md"))
    return [*pages, *docs, *python_files(), *native_files()]


def test_english() -> None:
    found = []
    for path in texts():
        text = read(path)
        for pattern in BANNED + BANNED_IN_CODE * (path.suffix != ".md"):
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.end()) + 1
                found.append(f"{relative(path)}:{line}: {match.group(0).strip()!r}")
    assert not found, "\n".join(found)


def test_native_layers() -> None:
    """The core knows no Python, its lower folders nothing of the upper ones."""
    native = ROOT / "native"
    for folder in [*(native / "src").iterdir(), native / "dpdk", native / "measure"]:
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


def test_only_the_world_asks_for_time_and_secrets() -> None:
    """A simulated base/world.cc takes the place of all of it: clock, secrets and sleep."""
    native = ROOT / "native"
    asks = re.compile(
        r"_clock::now|\bclock_gettime\b|\bgettimeofday\b|\btime\((nullptr|NULL|0)\)|\bnanosleep\b"
        r"|\bclock_nanosleep\b|\busleep\b|\bsleep_for\b|this_thread::sleep|\brandom_device\b"
        r"|\bgetrandom\b|\bppoll\b|poll\(nullptr"
    )
    for folder in ("src", "measure", "dpdk", "bindings"):
        for path in (native / folder).rglob("*.[ch]*"):
            if path.name != "world.cc":
                assert not asks.search(path.read_text(encoding="utf-8")), path


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
