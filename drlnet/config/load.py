"""From a recipe or a TOML file, flags and `--set` to one checked config; later ones win."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drlnet.config import toml
from drlnet.config.checks import check, derived
from drlnet.config.fields import check_limits, convert, field_types, unknown_key, walk
from drlnet.config.names import remedy_for
from drlnet.config.tree import AlgoConfig, Config, DqnConfig
from drlnet.errors import ConfigError

# One line per algorithm: the section that `algo.name` chooses.
ALGO_SECTIONS: dict[str, type[AlgoConfig]] = {"dqn": DqnConfig}


def known_keys(algo: type[AlgoConfig] = DqnConfig) -> list[str]:
    """Every dotted key of a config with the settings of that algorithm."""
    return [key for key, _, _ in walk(Config(algo=algo()))]


def load(
    env_id: str | None = None,
    *,
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    sets: Sequence[str] = (),
) -> Config:
    """The config of an environment.

    It starts from `file`, or from the environment's recipe, or from the defaults. `flags` maps
    dotted keys to values, where None means "not given". `sets` are "key=value" texts.
    Raises ConfigError (UnknownKey, Deadlock) naming the key.
    """
    values: dict[str, Any] = {}
    source = file or (find_recipe(env_id) if env_id else None)
    if source is not None:
        values.update(_flattened(toml.read(source)))
    if env_id:
        # The file's own id stands if it names the same environment in another spelling.
        values["env.id"] = env_id
    values.update({key: value for key, value in (flags or {}).items() if value is not None})
    values.update(parse_set(text) for text in sets)
    config = derived(build(values))
    check(config)
    return config


def load_file(path: Path) -> Config:
    """A config as a run's folder keeps it."""
    return load(file=path)


def parse_set(text: str) -> tuple[str, Any]:
    """ "learner.device=cuda" as its key and value."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(
            f"--set {text}: expected key=value", "write for example --set replay.batch_size=256"
        )
    return key.strip(), toml.parse_value(value.strip())


def build(values: Mapping[str, Any]) -> Config:
    """A config from dotted keys, defaults elsewhere; checks keys, types and limits."""
    sections: dict[str, dict[str, Any]] = {}
    algo = _algo_section(convert("algo.name", values.get("algo.name", AlgoConfig().name), str))
    known = known_keys(algo)
    for key, value in values.items():
        if key not in known:
            raise unknown_key(key, known)
        section, _, name = key.partition(".")
        sections.setdefault(section, {})[name] = value
    types = field_types(Config)
    types["algo"] = algo
    parts = {name: _section(kind, name, sections.get(name, {})) for name, kind in types.items()}
    return Config(**parts)


def _algo_section(name: str) -> type[AlgoConfig]:
    if name not in ALGO_SECTIONS:
        raise ConfigError(
            f"algo.name = {name!r}: no such algorithm", remedy_for(name, [*ALGO_SECTIONS])
        )
    return ALGO_SECTIONS[name]


def _section(kind: type, prefix: str, values: Mapping[str, Any]) -> Any:
    types = field_types(kind)
    converted = {}
    for field in dataclasses.fields(kind):
        if field.name in values:
            key = f"{prefix}.{field.name}"
            value = convert(key, values[field.name], types[field.name])
            check_limits(key, value, field.metadata)
            converted[field.name] = value
    return kind(**converted)


def _flattened(tree: Mapping[str, Any]) -> dict[str, Any]:
    """{"replay": {"capacity": 1}} as {"replay.capacity": 1}; a leaf's own table stays whole."""
    flat: dict[str, Any] = {}
    known = known_keys()
    sections = {key.partition(".")[0] for key in known}
    for section, values in tree.items():
        if section not in sections or not isinstance(values, Mapping):
            raise unknown_key(section, sorted(sections) + known)
        flat.update({f"{section}.{name}": value for name, value in values.items()})
    return flat


def recipe_folders() -> list[Path]:
    """Where recipes lie: beside this package when installed, in runs/recipes in a checkout."""
    package = Path(__file__).resolve().parent.parent
    return [package / "recipes", package.parent / "runs" / "recipes"]


def find_recipe(env_id: str) -> Path | None:
    """The recipe of an environment, by its id in lower case; None when there is none.

    "ALE/Pong-v5" is looked for as "ale-pong-v5.toml".
    """
    name = env_id.lower().replace("/", "-").replace(":", "-") + ".toml"
    return next((folder / name for folder in recipe_folders() if (folder / name).is_file()), None)
