"""Brings an environment's error, with its traceback, out of a worker process of gymnasium's."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from drlnet.errors import UserCodeError


class CrashInWorker(Exception):
    """What a worker raises for its environment: gymnasium hands on an error without its traceback.

    gymnasium raises kind(error) of it in the main process.
    """

    def retold(self, what: str) -> UserCodeError:
        """The environment's error. what: begins the cause."""
        cause, remedy, trace = self.args
        return UserCodeError(f"{what}{cause}", remedy, trace)

    def __str__(self) -> str:
        return "see below"  # gymnasium formats it by %: the environment's own text may have one


class Telling(gym.Wrapper[Any, Any, Any, Any]):
    """Raises CrashInWorker for what the environment raises in reset() and step()."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Resets the environment."""
        try:
            return self.env.reset(**options)
        except Exception as error:  # an environment is someone else's code
            raise _told(error) from None

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        try:
            return self.env.step(action)
        except Exception as error:  # an environment is someone else's code
            raise _told(error) from None


def _told(error: Exception) -> CrashInWorker:
    told = UserCodeError.of("", error)
    return CrashInWorker(told.cause, told.remedy, told.trace)
