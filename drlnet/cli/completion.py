"""What a shell offers after Tab: environments, settings, runs, topics. Nothing here imports torch.

`drlnet --install-completion` sets it up for the shell in use. A function here may return more than
what begins as the word does: typer leaves the others out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import typer

Complete = Callable[[typer.Context, str], list[tuple[str, str]]]


def environments(context: typer.Context, begun: str) -> list[tuple[str, str]]:
    """Ids of environments."""
    from drlnet.envs.registry import known_ids

    return [(name, "") for name in known_ids(begun)]


def settings(context: typer.Context, begun: str) -> list[tuple[str, str]]:
    """Keys for --set, of the algorithm and environment that the line names so far."""
    from drlnet.config import load
    from drlnet.config.fields import walk
    from drlnet.config.load import build
    from drlnet.errors import DrlnetError

    given = {
        key: context.params.get(key.replace(".", "_")) for key in ("algo.name", "server.transport")
    }
    try:
        config = load(context.params.get("env"), flags=given, sets=context.params.get("set_") or ())
    except DrlnetError:  # the line is not finished: what it says so far may not hold together
        config = build({})
    return [(f"{key}=", field.metadata["help"]) for key, _, field in walk(config)]


def runs(context: typer.Context, begun: str) -> list[tuple[str, str]]:
    """Folders of runs, the newest first: those of runs/, and of what is named."""
    folders = {path.parent for path in _configs(begun)}
    newest = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)
    return [(str(path), "") for path in newest]


def _configs(begun: str) -> Iterator[Path]:
    above, _, _ = begun.rpartition("/")
    above = above or ("/" if begun.startswith("/") else ".")
    yield from Path(above).glob("*/config.toml")
    if above == ".":
        yield from Path("runs").glob("*/config.toml")


def topics(context: typer.Context, begun: str) -> list[tuple[str, str]]:
    """Topics of `drlnet help`."""
    from drlnet.cli.help import topics

    return list(topics().items())


def algorithms(context: typer.Context, begun: str) -> list[tuple[str, str]]:
    """The algorithms that come along."""
    from drlnet.config import plugins

    return [(name, "") for name in plugins.names("algos")]


def words(listed: str) -> Complete:
    """Completes one of the words of a list like "udp, dpdk:local"."""

    def complete(context: typer.Context, begun: str) -> list[tuple[str, str]]:
        return [(word, "") for word in listed.split(", ")]

    return complete
