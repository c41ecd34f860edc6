"""The settings of a process that joins a run: the run's, and what it may say of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drlnet.config import toml
from drlnet.config.checks import check, derived
from drlnet.config.fields import walk
from drlnet.config.load import build, flattened, layers, merged
from drlnet.config.tree import Config
from drlnet.errors import TableMismatch

# What all processes of a run must agree on. Of the others each has its own.
SHARED = ("env", "algo", "net", "policy", "replay")
# They decide which settings there are.
_NAMES = ("env.id", "algo.name", "net.name")
# What belongs to the process that told the settings.
_THEIRS = ("run.folder", "run.resume", "run.serial")


def joined(
    told: str,
    server: str,
    *,
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
) -> Config:
    """The settings of a process that joins the run whose settings a server has told.

    told: their TOML. Raises TableMismatch, with the key and both sides, where the process is given
    another value of what a run has in common.
    """
    tree = toml.parse(told, f"what {server} tells of its run")
    tree.pop("base", None)
    theirs = {key: value for key, value in flattened(tree).items() if key not in _THEIRS}
    given = layers(file=file, flags=flags, sets=sets)
    own = merged(given)
    for key in _NAMES:
        if key in own and own[key] != theirs.get(key):
            raise _contradiction(key, own[key], theirs.get(key), server, given)
    ours, run = derived(build({**theirs, **own})), derived(build(theirs))
    for key, value, other in differences(ours, run):
        raise _contradiction(key, value, other, server, given)
    check(ours)
    return ours


def differences(ours: Config, run: Config) -> Iterator[tuple[str, Any, Any]]:
    """(key, ours, the run's) of each setting that they should have in common and have not."""
    others = {key: value for key, value, _ in walk(run)}
    for key, value, _ in walk(ours):
        if key.partition(".")[0] in SHARED and value != others.get(key):
            yield key, value, others.get(key)


def _contradiction(
    key: str, ours: Any, theirs: Any, server: str, given: Mapping[str, Mapping[str, Any]]
) -> TableMismatch:
    source = next((name for name in reversed([*given]) if key in given[name]), "given")
    return TableMismatch(
        f"{key}: {ours!r} here ({source}), {theirs!r} in the run at {server}",
        "leave it out, for the server knows its run's settings; or start a run of its own",
    )
