"""From a recipe, a TOML file, flags and `--set` to one checked config; later ones win.

The layers, lowest first: defaults, the algorithm's own defaults, the recipe, `--config` FILE,
flags, `--set`. A file that says `base = "none"` starts from the defaults: a run's folder keeps one.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drlnet.config import plugins, toml
from drlnet.config.checks import check, check_listen, derived
from drlnet.config.fields import (
    changes,
    check_limits,
    convert,
    field_types,
    unknown_key,
    walk,
)
from drlnet.config.tree import (
    AlgoSettings,
    Config,
    EnvConfig,
    NetSettings,
    PolicySettings,
    ServerConfig,
)
from drlnet.errors import ConfigError

# What of a recipe holds for any algorithm: facts of the environment, and when it counts as solved;
# and which network sees its observations.
_SHARED_SECTIONS = {"env", "eval", "run"}
_SHARED_KEYS = {"net.name", "net.frame_stack"}
_NAMES = ("algo.name", "net.name")


def known_keys(config: Config | None = None) -> list[str]:
    """Every dotted key of a config; None: of one with the default algorithm and network."""
    return [key for key, _, _ in walk(config or build({}))]


def load(
    env_id: str | None = None,
    *,
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    sets: Sequence[str] | Mapping[str, Any] = (),
    listens: bool = True,
) -> Config:
    """The config of an environment and an algorithm.

    `flags` maps dotted keys to values, where None means "not given". `sets` are "key=value" texts,
    or values by key. listens: whether a server may come of it, which then has to be guarded.
    Raises ConfigError (UnknownKey, Deadlock) naming the key.
    """
    config = derived(build(merged(layers(env_id, file=file, flags=flags, sets=sets))))
    check(config)
    if listens:
        check_listen(config)
    return config


def layers(
    env_id: str | None = None,
    *,
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    sets: Sequence[str] | Mapping[str, Any] = (),
) -> dict[str, dict[str, Any]]:
    """Collects the settings that differ from the defaults, by source, lowest first (see load)."""
    tree = toml.read(file) if file is not None else {}
    base = tree.pop("base", "recipe")
    if base not in ("recipe", "none"):
        raise ConfigError(f"{file}: base = {base!r}", 'write base = "none", or leave it out')
    found = {
        "file": flattened(tree),
        "flag": {key: value for key, value in (flags or {}).items() if value is not None},
        "--set": dict(sets if isinstance(sets, Mapping) else map(parse_set, sets)),
    }
    if env_id is None:
        return found
    if not env_id:
        raise ConfigError("ENV is empty", "name an environment, as CartPole-v1")
    said = found["--set"].get("env.id", env_id)
    if said != env_id:
        raise ConfigError(
            f"env.id = {said!r} among the settings, but the environment named is {env_id}",
            "leave env.id out, or name the environment that you mean",
        )
    found["flag"]["env.id"] = env_id
    given = merged(found)
    chosen = {
        section: convert(key, given[key], str)
        for section in ("algo", "net")
        if (key := f"{section}.name") in given
    }
    return {"recipe": recipe(env_id, **chosen) if base == "recipe" else {}, **found}


def merged(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The values of all layers together."""
    return {key: value for layer in found.values() for key, value in layer.items()}


def sets_of(config: Config) -> dict[str, Any]:
    """The fewest `sets`, by key, with which load(env) gives this config, however it was made."""
    said: dict[str, Any] = {}
    # The names first, which decide what the rest differs from. What is derived may do so anew
    # from settings that are said: these are looked at twice.
    for keys in (_NAMES, known_keys(config), known_keys(config)):
        there = derived(build(merged(layers(config.env.id, sets=said))))
        found = changes(config, there)
        said |= {key: found[key] for key in keys if key in found}
    return said


def load_file(path: Path) -> Config:
    """A config as a run's folder keeps it."""
    return load(file=path, listens=False)


def load_server(
    file: Path | None, *, flags: Mapping[str, Any] | None = None, sets: Sequence[str] = ()
) -> ServerConfig:
    """The server's section alone: it serves any algorithm, and reads no other section of a file."""
    found = layers(file=file, flags=flags, sets=sets)
    found["file"] = {k: value for k, value in found["file"].items() if k.startswith("server.")}
    config = build(merged(found))
    if config.server.index_only:  # what learners do with it is theirs to say
        config = replace(config, replay=replace(config.replay, rows="learner"))
    check(config)
    check_listen(config)
    return config.server


def parse_set(text: str) -> tuple[str, Any]:
    """ "learner.device=cuda" as its key and value."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(
            f"--set {text}: expected key=value", "write for example --set replay.batch_size=256"
        )
    return key.strip(), toml.parse_value(value.strip())


def build(values: Mapping[str, Any]) -> Config:
    """A config from dotted keys, defaults elsewhere; checks keys, types and limits.

    A key may go on into a table: "env.kwargs.size" is beside what "env.kwargs" holds.
    """
    types, said = _section_types(values), values
    values = {**_defaults_of(values), **values}
    known = {f"{name}.{leaf}": of for name, kind in types.items() for leaf, of in
             field_types(kind).items()}  # fmt: skip
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, _, name = key.partition(".")
        setting, _, inner = name.partition(".")
        whole = sections.setdefault(section, {})
        if inner and typing.get_origin(known.get(f"{section}.{setting}")) is dict:
            whole[setting] = {**whole.get(setting, {}), inner: value}
        elif key in known:
            whole[name] = value
        elif key in said or section != "net":
            raise unknown_key(key, [*known], str(values.get(f"{section}.name", "")))
        else:
            raise _not_offered(key, values)
    parts = {name: _section(kind, name, sections.get(name, {})) for name, kind in types.items()}
    return Config(**parts)


def _not_offered(key: str, values: Mapping[str, Any]) -> ConfigError:
    """An algorithm's default for what the chosen network does not have."""
    net, setting = _name("net", NetSettings, values), key.partition(".")[2]
    return ConfigError(
        f"algo.name = {_name('algo', AlgoSettings, values)!r} relies on {key} = {values[key]!r}, "
        f"which net.name = {net!r} does not offer",
        f"give its Settings a field {setting!r}, and heed it (drlnet help algorithms)",
    )


def _section_types(values: Mapping[str, Any]) -> dict[str, type]:
    """The dataclass of every section: algorithm, network and environment may bring their own."""
    env_id = str(convert("env.id", values.get("env.id", EnvConfig().id), str))
    algo, net = _name("algo", AlgoSettings, values), _name("net", NetSettings, values)
    return {
        **field_types(Config),
        "env": plugins.env_settings_type(env_id, EnvConfig),
        "algo": plugins.settings_type("algos", algo, AlgoSettings),
        "net": plugins.settings_type("nets", net, NetSettings),
        "policy": plugins.settings_type("algos", algo, PolicySettings, "Policy"),
    }


def _defaults_of(values: Mapping[str, Any]) -> Mapping[str, Any]:
    algorithm = plugins.find("algos", _name("algo", AlgoSettings, values))
    defaults: Mapping[str, Any] = getattr(algorithm, "defaults", {})
    return defaults


def _name(section: str, base: type[AlgoSettings] | type[NetSettings], values: Any) -> str:
    return str(convert(f"{section}.name", values.get(f"{section}.name", base().name), str))


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


def flattened(tree: Mapping[str, Any]) -> dict[str, Any]:
    """{"replay": {"capacity": 1}} as {"replay.capacity": 1}; a leaf's own table stays whole."""
    flat: dict[str, Any] = {}
    sections = [field.name for field in dataclasses.fields(Config)]
    for section, values in tree.items():
        if section in sections and not isinstance(values, Mapping):
            raise ConfigError(
                f"{section} = {values!r}: expected a table", f"write [{section}] above its settings"
            )
        if section not in sections:
            raise unknown_key(section, sorted(sections) + known_keys())
        flat.update({f"{section}.{name}": value for name, value in values.items()})
    if flat.pop("run.tensorboard", None) is False:  # of runs before there were sinks
        flat.setdefault("run.sinks", [])
    return flat


def recipe_folders() -> list[Path]:
    """Where recipes lie: beside this package when installed, in runs/recipes in a checkout."""
    package = Path(__file__).resolve().parent.parent
    return [package / "recipes", package.parent / "runs" / "recipes"]


def recipe(env_id: str, algo: str | None = None, net: str | None = None) -> dict[str, Any]:
    """The values of the recipe of an environment and an algorithm (None: the recipe's own).

    ENV.ALGO.toml is taken whole. ENV.toml belongs to the algorithm that it names: for another one,
    only its sections about the environment count, and the network's name and frame stack. Likewise
    its [net] for another network, but for the frame stack.
    """
    own = find_recipe(env_id, algo) if algo else None
    path = own or find_recipe(env_id)
    if path is None:
        return {}
    values = _read_recipe(path)
    if not own:
        values = _for_algorithm(values, algo)
    if net not in (None, values.get("net.name", plugins.names("nets")[0])):
        values = {
            key: values[key]
            for key in values
            if key == "net.frame_stack" or not key.startswith("net.")
        }
    return values


def _for_algorithm(values: Mapping[str, Any], algo: str | None) -> dict[str, Any]:
    """What of a recipe counts for that algorithm (None: the recipe's own)."""
    if algo in (None, values.get("algo.name", plugins.names("algos")[0])):
        return dict(values)
    kind = plugins.find("algos", str(algo))
    shared = _SHARED_KEYS - {*getattr(kind, "defaults", {})}
    if not getattr(kind, "stacks_frames", False):
        shared -= {"net.frame_stack"}
    return {
        key: value
        for key, value in values.items()
        if key in shared or key.partition(".")[0] in _SHARED_SECTIONS
    }


def _read_recipe(path: Path) -> dict[str, Any]:
    """A recipe's values over those of the recipe that its `base` names, in the same folder."""
    tree = toml.read(path)
    base = tree.pop("base", None)
    own = flattened(tree)
    if base is None:
        return own
    below = _read_recipe(path.with_name(f"{base}.toml"))
    return {**_for_algorithm(below, own.get("algo.name")), **own}


def find_recipe(env_id: str, algo: str = "") -> Path | None:
    """Finds the recipe's file, by ids in lower case; None without one.

    "ALE/Pong-v5" is looked for as "ale-pong-v5.toml", with an algorithm as "ale-pong-v5.dqn.toml";
    then that of all such environments, "ale.toml".
    """
    space, slash, _ = env_id.rpartition("/")
    for known in [env_id, space] if slash else [env_id]:
        name = ".".join([*_slugs([known, algo] if algo else [known]), "toml"])
        for folder in recipe_folders():
            if (folder / name).is_file():
                return folder / name
    return None


def _slugs(words: Iterable[str]) -> list[str]:
    return [word.lower().replace("/", "-").replace(":", "-") for word in words]
