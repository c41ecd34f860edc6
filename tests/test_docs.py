"""The documentation says what the code does: its tables, commands, settings, paths and links.

DRLNET_WRITE_DOCS=1 rewrites the tables that come from the code, instead of comparing them.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from drlnet import native
from drlnet.cli import help as help_command
from drlnet.cli.main import app
from drlnet.config import Config, EnvConfig, known_keys, load
from drlnet.config.fields import field_types
from drlnet.config.load import build
from drlnet.config.toml import literal, parse_value
from drlnet.dashboard.bottleneck import RULES
from drlnet.envs.settings import AtariSettings
from drlnet.errors import DPDK_UNFIT_EXIT_CODE, RUN_UNFIT_EXIT_CODE, DrlnetError, all_errors
from drlnet.launch.sweep import grid
from drlnet.metrics.catalog import as_table
from drlnet.native import operation_names

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "drlnet" / "docs"
RECORDED = ROOT / "runs" / "results" / "README.md"  # its commands are those of their commits
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]

RUNS = ("run", "learn", "launch", "sweep")
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def table(header: str, rows: Iterator[str]) -> str:
    columns = header.count("|") - 1
    return "\n".join([header, "|" + " --- |" * columns, *rows])


def operations() -> str:
    return table("| operations |", iter([f"| {', '.join(operation_names())} |"]))


def rules() -> str:
    rows = (f"| `{rule.name}` | {rule.when} | {rule.remedy} |" for rule in RULES)
    return table("| name | when | try |", rows)


def errors() -> str:
    def when(error: type[DrlnetError]) -> str:
        line = (error.__doc__ or "").partition("\n")[0].rstrip(".")
        return line[0].lower() + line[1:]

    raised = (error for error in all_errors() if error is not DrlnetError)
    rows = (f"| {error.exit_code} | `{error.__name__}` | {when(error)} |" for error in raised)
    return table("| code | error | when |", rows)


def atari_settings() -> str:
    common = {field.name for field in dataclasses.fields(EnvConfig)}
    own = (field for field in dataclasses.fields(AtariSettings) if field.name not in common)
    rows = (
        f"| `env.{field.name}` | `{literal(field.default, '')}` | {field.metadata['help']} |"
        for field in own
    )
    return table("| setting | default | what it does |", rows)


def limits() -> str:
    rows = (f"| `{name}` | {default} | {of} |" for name, default, _, of in native.Server.limits())
    return table("| limit | default | of what |", rows)


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("security", limits()),
        ("operations", rules()),
        ("operations", errors()),
        ("metrics", as_table()),
        ("metrics", operations()),
        ("environments", atari_settings()),
    ],
    ids=["limits", "bottleneck", "errors", "metrics", "operations", "atari"],
)
def test_tables_that_come_from_the_code(name: str, made: str) -> None:
    text = page(name)
    header = re.escape(made.partition("\n")[0])
    found = re.findall(rf"^{header}(?:\n\|.*)*", text, re.MULTILINE)
    assert len(found) == 1, f"one table that begins with {header}"
    if os.environ.get("DRLNET_WRITE_DOCS"):
        (DOCS / f"{name}.md").write_text(text.replace(found[0], made.rstrip()), encoding="utf-8")
    else:
        assert found[0] == made.rstrip(), "DRLNET_WRITE_DOCS=1 pytest tests/test_docs.py"


def test_exit_codes_without_an_error_are_their_own() -> None:
    taken = {error.exit_code for error in all_errors()}
    for code in (RUN_UNFIT_EXIT_CODE, DPDK_UNFIT_EXIT_CODE):
        assert code not in taken
        assert f"| {code} | `drlnet doctor`: " in page("operations")


def test_the_package_ships_every_topic() -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in help_command.DOCS.iterdir()}
    assert shipped == {path.name: path.read_text(encoding="utf-8") for path in DOCS.iterdir()}
    assert all(help_command.topics().values())


def test_the_readme_lists_topics_and_commands() -> None:
    readme = PAGES[0].read_text(encoding="utf-8")
    for name, line in help_command.topics().items():
        assert f"| [{name}](drlnet/docs/{name}.md) | {line} |" in readme
    rows = set(re.findall(r"^\| `drlnet (\w+)", readme, re.MULTILINE))
    assert rows == {name for name, one in COMMANDS.items() if not one.hidden}


def commands_shown(text: str) -> Iterator[list[str]]:
    """The words of every `drlnet ...` in a block of code or a code span."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in lines + spans:
        for part in re.split(r"&&|\|(?! )|\|", line.partition("  #")[0]):
            found = re.search(r"^(?:PYTHONPATH=\. |sudo |.*-- )?drlnet (\w.*)", part.strip())
            if found:
                yield shlex.split(found.group(1))


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_commands_shown_exist(path: Path) -> None:
    for words in commands_shown(path.read_text(encoding="utf-8")):
        name, *rest = words
        if not name.islower():  # COMMAND
            continue
        command = COMMANDS[name]
        while rest and rest[0] in getattr(command, "commands", {}):
            command = command.commands[rest.pop(0)]
        known = {option for one in command.params for option in one.opts} | {"--help"}
        if hasattr(command, "commands") and rest and rest[0].isupper():  # bench NAME
            continue
        used = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert used <= known, f"drlnet {' '.join(words)}"


def runs_shown() -> Iterator[str]:
    """The commands of runs that name all they need: in the pages, and in the commands' help."""
    pages = [path.read_text(encoding="utf-8") for path in PAGES]
    lines = [shlex.join(words) for text in pages for words in commands_shown(text)]
    helps = "\n".join(COMMANDS[name].help for name in RUNS)
    lines += re.findall(r"^ *drlnet (.*)", helps, re.MULTILINE)
    for line in dict.fromkeys(lines):
        name, *rest = shlex.split(line)
        left_open = any(
            re.search(r"(^|=)[A-Z]+$|\b\w+:[A-Z]|--config|--resume|--join", one) for one in rest
        )
        if name in RUNS and rest and rest[0][0] != "-" and not left_open:
            yield line


@pytest.mark.parametrize("line", [*runs_shown()])
def test_runs_that_are_shown_have_settings_that_fit(line: str) -> None:
    name, *rest = shlex.split(line.replace("$processes", "2"))
    context = typer.Context(COMMANDS[name], info_name=name)
    given: dict[str, Any] = COMMANDS[name].make_parser(context).parse_args(rest)[0]
    words = {key: given.get(key.replace(".", "_")) for key in known_keys()}
    flags = {key: parse_value(one) if isinstance(one, str) else one for key, one in words.items()}
    sets = given.get("set_") or []
    settings, common = grid(sets) if name == "sweep" else ([()], sets)
    for setting in settings:
        load(given["env"], flags=flags, sets=[*common, *setting])


@pytest.mark.parametrize("path", [path for path in PAGES if path.stem != "metrics"], ids=named)
def test_settings_named_exist(path: Path) -> None:
    sections = "|".join(field_types(Config))
    text = path.read_text(encoding="utf-8")
    spans = " ".join(re.findall(r"`([^`\n]+)`", text))
    atari = known_keys(build({"env.id": "ALE/Pong-v5", "net.name": "compact"}))
    known = {*known_keys(), *atari, "algo.quantiles"}  # an example's own
    # Names of metrics and of modules have the same form: `server.drops.<reason>`, `server.log`.
    found = re.findall(rf"(?<![\w./])({sections})\.([a-z][a-z_]*)(?=[\s=`,]|$)", spans)
    metrics = {"server.log", "learner.log", "learner.safetensors", "server.busy_s"}
    assert {".".join(pair) for pair in found} - metrics <= known


@pytest.mark.parametrize("path", [*PAGES, RECORDED], ids=named)
def test_paths_and_links_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (path.parent / link).exists(), link
    for place in re.findall(r"`((?:drlnet|native|tests|runs)/[\w/.\-]+)`", text):
        made_by_runs = place.startswith(("runs/bench", "runs/CartPole"))
        assert made_by_runs or (ROOT / place).exists(), place


def test_what_a_user_s_algorithm_imports_is_documented() -> None:
    text = re.sub(r"```.*?```", "", page("algorithms"), flags=re.DOTALL)
    known = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    for path in (ROOT / "tests" / "plugins").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("drlnet"):
                assert str(node.module).count(".") <= 1, f"{path.name} imports {node.module}"
                assert {name.name for name in node.names} <= known, path.name


def test_the_example_of_an_algorithm_is_short() -> None:
    example = ROOT / "tests" / "plugins" / "qr_dqn.py"
    assert len(example.read_text().splitlines()) < 120
