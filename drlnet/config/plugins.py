"""Names of algorithms and networks: those that the package has, and `module:Name` of a user's own.

The packages `drlnet.algos` and `drlnet.nets` each hold a registry NAMES: name -> where it stands.
Both are looked up by name only, so that settings can be read before anything heavy is imported.
"""

from __future__ import annotations

import importlib
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from drlnet.config.fields import require_settings
from drlnet.config.names import remedy_for
from drlnet.errors import ConfigError, DrlnetError, UserCodeError, count_as_users, one_line

Kind = Literal["algos", "nets"]
_KEYS = {"algos": "algo.name", "nets": "net.name"}
# Environments whose section [env] has more settings, by what their ids begin with.
_ENV_SETTINGS = {"ALE/": "drlnet.envs.settings:AtariSettings"}
_importing: list[str] = []  # the users' modules whose import is under way


def names(kind: Kind) -> list[str]:
    """The names that the package has, the default first."""
    return [*importlib.import_module(f"drlnet.{kind}").NAMES]


def settings_type(kind: Kind, name: str, base: type, part: str = "Settings") -> type:
    """The settings of what has that name; `base` where a user's own declares none.

    part: the attribute that declares them. Does not import torch for what the package has.
    Raises UserCodeError for a user's that a config cannot hold.
    """
    registry = importlib.import_module(f"drlnet.{kind}")
    declared: dict[str, type] = getattr(registry, "SETTINGS", {})
    found: type = declared[name] if name in declared else getattr(find(kind, name), part, base)
    what = f"{_KEYS[kind]} = {name!r}: its {part}"
    if not (isinstance(found, type) and issubclass(found, base)):
        raise UserCodeError(
            f"{what} is not a class that derives from {base.__name__}",
            f"let class {part} derive from drlnet.config.{base.__name__}",
        )
    if ":" in name:
        require_settings(what, found)
    return found


def env_settings_type(env_id: str, base: type) -> type:
    """The settings of the environment of that id; `base` where it adds none."""
    for prefix, place in _ENV_SETTINGS.items():
        if env_id.startswith(prefix):
            found: type = find_object("env.id", place)
            return found
    return base


def find(kind: Kind, name: str) -> Any:
    """The class of that name. Raises ConfigError for one that is not there."""
    registry: dict[str, str] = importlib.import_module(f"drlnet.{kind}").NAMES
    if ":" not in name and name not in registry:
        raise ConfigError(
            f"{_KEYS[kind]} = {name!r}: unknown name",
            f"{remedy_for(name, [*registry])}; your own is module:Name",
        )
    return find_object(_KEYS[kind], registry.get(name, name))


@lru_cache(maxsize=64)
def find_object(key: str, place: str) -> Any:
    """Imports what `module:Name` names. key: the setting that names it, for the error."""
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise ConfigError(f"{key} = {place!r}: expected module:Name", "name both, with a colon")
    module = import_module(f"{key} = {place!r}", module_name)
    if key in _KEYS.values():
        count_as_users(module)
    try:
        return getattr(module, name)
    except AttributeError as error:
        package = module_name.partition(".")[0]
        own = [
            other
            for other, value in vars(module).items()
            if isinstance(value, type) and value.__module__.partition(".")[0] == package
        ]
        raise ConfigError(
            f"{key} = {place!r}: module {module_name} has no {name}",
            remedy_for(name, own) if own else f"define class {name} in {module_name}",
        ) from error


def import_module(what: str, name: str, kind: type[ConfigError] = ConfigError) -> ModuleType:
    """A user's module, from the working directory, too. what: begins the error's line.

    Raises `kind` where a module is missing, UserCodeError for what it raises itself, unless that
    has a remedy of its own (DrlnetError).
    """
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last: it hides nothing that is installed
    _importing.append(name)
    try:
        return importlib.import_module(name)
    except DrlnetError:
        raise
    except ModuleNotFoundError as error:
        raise kind(
            f"{what}: module {name} cannot be imported: {one_line(error)}",
            "install its package, or name its folder: PYTHONPATH=FOLDER drlnet ...",
        ) from error
    except (Exception, SystemExit) as error:  # the module is a user's code
        raise UserCodeError.of(f"{what}: module {name} cannot be imported: ", error) from error
    finally:
        _importing.pop()


def require_no_import(function: str) -> None:
    """Raises ConfigError while a user's module is imported. function: what its code has called."""
    if _importing:
        raise ConfigError(
            f"{function}() was called while {_importing[-1]} is imported",
            'put it under `if __name__ == "__main__"`: every process of a run imports the module',
        )
