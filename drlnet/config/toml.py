"""TOML in and out. Reading is the standard library's; writing covers what a config holds."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drlnet.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def parse(text: str, where: str) -> dict[str, Any]:
    """TOML text as nested dicts; ConfigError names `where` it came from."""
    try:
        parsed: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of its numbers, too, and of tables in tables
        raise ConfigError(f"{where} is not TOML: {error}", "correct that line") from error
    return parsed


def read(path: Path) -> dict[str, Any]:
    """A TOML file as nested dicts."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot read config {path}: {reason}", "check the path") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text: {error}", "save it as UTF-8") from error
    return parse(text, str(path))


def parse_value(text: str) -> Any:
    """A value as typed after `--set key=`: TOML where it is, else the text itself."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # as parse() says
        return text


def dump(config: Any) -> str:
    """A config tree as TOML, whole; None, which TOML lacks, is left out or, where a setting has
    another default, the text "none"."""
    lines = ['base = "none"', ""]
    for section in dataclasses.fields(config):
        lines.append(f"[{section.name}]")
        part = getattr(config, section.name)
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if value is not None:
                lines.append(f"{field.name} = {literal(value, f'{section.name}.{field.name}')}")
            elif field.default is not None:
                lines.append(f'{field.name} = "none"')
        lines.append("")
    return "\n".join(lines)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _quoted(text: str) -> str:
    def escape(character: str) -> str:
        if character in _ESCAPES:
            return _ESCAPES[character]
        if ord(character) < 0x20 or ord(character) == 0x7F:
            return f"\\u{ord(character):04x}"
        return character

    return '"' + "".join(map(escape, text)) + '"'


def literal(value: Any, key: str) -> str:
    """A value as TOML writes it. ConfigError names the key where it writes none such."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        inner = (
            f"{_quoted(str(name))} = {literal(part, f'{key}.{name}')}"
            for name, part in value.items()
        )
        return "{ " + ", ".join(inner) + " }" if value else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(literal(part, key) for part in value) + "]"
    raise ConfigError(
        f"{key} = {value!r}: a config cannot hold it",
        "use texts, numbers, true, false, lists or tables",
    )
