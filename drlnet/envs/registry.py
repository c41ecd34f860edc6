"""Finds an environment by its id, and what has to be installed and imported for it."""

from __future__ import annotations

import difflib
import importlib
from contextlib import suppress

import gymnasium as gym

from drlnet.config import plugins
from drlnet.errors import UnknownEnvironment

# Ids that need no "module:" in front, by what they begin with: (module, its package, our extra).
_PACKAGES = {
    "drlnet/": ("drlnet.envs.memory", "gymnasium", "video"),
    "ALE/": ("ale_py", "ale-py", "atari"),
    "MinAtar/": ("minatar.gym", "minatar", "minatar"),
}


def find_spec(env_id: str) -> gym.envs.registration.EnvSpec:
    """gymnasium's entry of an id, or of "module:id" once that module has registered it.

    Raises UnknownEnvironment with the nearest ids, or with the package that is missing.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        plugins.import_module(f"environment {env_id}", module, UnknownEnvironment)
    else:
        _register(name)
    try:
        return gym.spec(name)
    except (gym.error.Error, ImportError) as error:
        near = _near(name)
        remedy = "python -c 'import gymnasium; gymnasium.pprint_registry()' lists all"
        if near:
            prefix = f"{module}:" if module else ""
            remedy = f"did you mean {' or '.join(prefix + n for n in near)}? {remedy}"
        raise UnknownEnvironment(
            f"no environment {env_id!r} is registered with gymnasium", remedy
        ) from error


def known_ids(begun: str) -> list[str]:
    """Every id that is registered, those of a package where `begun` may be one of its ids."""
    for prefix in _PACKAGES:
        if begun and prefix.startswith(begun[: len(prefix)]):
            with suppress(UnknownEnvironment):
                _register(prefix)
    return sorted(gym.registry)


def _near(name: str) -> list[str]:
    """Finds at most three registered ids that resemble it, the nearest first."""
    if "/" not in name:  # "Pong-v5", or an id of minatar: the package may be there, not imported
        for prefix in _PACKAGES:
            with suppress(UnknownEnvironment):
                _register(prefix)
        spaced = [known for known in gym.registry if known.lower().endswith(f"/{name.lower()}")]
        if spaced:
            return spaced
    # Without regard to capitals: another capitalisation is nearer than its letters say.
    lower = {known.lower(): known for known in gym.registry}
    return [lower[n] for n in difflib.get_close_matches(name.lower(), lower, 3, 0.5)]


def _register(env_id: str) -> None:
    """Imports the package whose ids begin as this one does."""
    for prefix, (module, package, extra) in _PACKAGES.items():
        if env_id.lower().startswith(prefix.lower()):  # a near match is told after the import
            try:
                imported = importlib.import_module(module)
            except ImportError as error:
                raise UnknownEnvironment(
                    f"environment {env_id} needs the package {package}: {error}",
                    f"pip install 'drlnet[{extra}]'",
                ) from error
            # Others register their games as they are imported; MinAtar wants to be asked, once.
            if not any(known.startswith(prefix) for known in gym.registry):
                imported.register_envs()
