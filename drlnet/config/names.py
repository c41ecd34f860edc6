"""Names that a user may choose from, and what to say of one that is not among them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from drlnet.errors import ConfigError


def require_known(kind: str, name: str, names: Sequence[str]) -> None:
    """Raises ConfigError unless there is a `kind` (a word for the message) of that name."""
    if name not in names:
        raise ConfigError(f"no {kind} is called '{name}'", remedy_for(name, names))


def chosen(kind: str, wanted: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """Returns those wanted, each once; None: all. ConfigError for an unknown one of that kind."""
    found = list(dict.fromkeys(names if wanted is None else wanted))
    for name in found:
        require_known(kind, name, names)
    return found


def remedy_for(name: str, names: Sequence[str]) -> str:
    """The nearest of the names, or all."""
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(names)}"
