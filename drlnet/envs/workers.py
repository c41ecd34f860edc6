"""Environments in worker processes of gymnasium's: how they begin, fail and end.

A worker's environment is someone else's code: it may hang, and the kernel may kill it. Whatever it
does, its process ends with RowEnv.close(), and with the process that steps it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from typing import Any

import gymnasium as gym
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv
from gymnasium.vector.async_vector_env import _async_worker

from drlnet.envs import breach
from drlnet.errors import UserCodeError, user_place
from drlnet.guard import die_with

_GRACE_S = 2.0  # for all environments to close by themselves
_LOOK_S = 1.0  # for the end of a worker whose pipe is closed


class EnvCrash(Exception):
    """What is wrong with an environment: cause, remedy, traceback.

    A worker raises it, as gymnasium hands on an error without its traceback: it raises kind(error)
    of it in the main process.
    """

    def retold(self, what: str) -> UserCodeError:
        """The environment's error. what: begins the cause."""
        cause, remedy, trace = self.args
        return UserCodeError(f"{what}{cause}", remedy, trace)

    def __str__(self) -> str:
        return "see below"  # gymnasium formats it by %: the environment's own text may have one


class Telling(gym.Wrapper[Any, Any, Any, Any]):
    """Raises EnvCrash for what the environment raises in reset() and step(), and for a breach."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Resets the environment."""
        try:
            obs, info = self.env.reset(**options)
        except Exception as error:  # an environment is someone else's code
            raise _told(error) from None
        _refuse(breach.of_observation(self.observation_space, obs))
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        try:
            obs, reward, terminated, truncated, info = self.env.step(action)
        except Exception as error:  # an environment is someone else's code
            raise _told(error) from None
        step = obs, reward, terminated, truncated, info
        _refuse(breach.of_step(self.observation_space, step))
        return step


def _told(error: Exception) -> EnvCrash:
    told = raised("", error)
    return EnvCrash(told.cause, told.remedy, told.trace)


def raised(what: str, error: Exception) -> UserCodeError:
    """The error that an environment's code raised. what: begins the cause."""
    told = UserCodeError.of(what, error)
    if breach.of_forms(error) and not user_place(error):
        return UserCodeError(told.cause, breach.FORMS, told.trace)
    return told


def _refuse(found: breach.Breach | None) -> None:
    if found is not None:
        raise EnvCrash(*found, "")


def work(index: int, env_fn: Any, pipe: Any, *rest: Any) -> None:
    """A worker process: gymnasium's, but it dies with its parent, and a signal ends it.

    It tells EnvCrash for what the environment raises as it is made, where gymnasium's ends unheard.
    A fork has its parent's handlers, by which a signal is only noted.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, lambda *_: None)  # of a terminal: the parent's to heed
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # by nohup
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    die_with(os.getppid())
    try:
        env = env_fn()
    except Exception as error:  # an environment is someone else's code
        told, errors = _told(error), rest[2]
        pipe.recv()  # gymnasium's first question, which this answers as its worker would
        errors.put((index, EnvCrash, told, str(told)))
        pipe.send((None, False))
    else:
        _async_worker(index, lambda: env, pipe, *rest)


def close(envs: VectorEnv[Any, Any, Any]) -> None:
    """Closes environments; kills the workers of those that hang, or that others hold up."""
    if not isinstance(envs, AsyncVectorEnv):
        return envs.close()
    if envs.closed:
        return None
    pipes = [pipe for pipe in envs.parent_pipes if pipe is not None and not pipe.closed]
    for pipe in pipes:
        with suppress(OSError):  # its worker is gone
            pipe.send(("close", None))
    end_s = time.monotonic() + _GRACE_S
    for process in envs.processes:
        process.join(max(0.0, end_s - time.monotonic()))
    for process in envs.processes:
        process.kill()
        process.join()
    for pipe in pipes:
        pipe.close()
    envs.closed = True
    return None


@contextmanager
def blamed(envs: VectorEnv[Any, Any, Any], actions: Any = None) -> Iterator[None]:
    """Raises EnvCrash(EnvCrash) where the block, a step by actions or a reset, finds a worker gone,
    with what ended it, or what an environment has returned not to be of its spaces."""
    try:
        yield
    except (TypeError, ValueError) as error:
        found = breach.among(envs, actions, error) if isinstance(envs, SyncVectorEnv) else None
        if found is not None:
            raise EnvCrash(EnvCrash(*found, "")) from error
        raise
    except (EOFError, OSError) as error:
        workers = envs.processes if isinstance(envs, AsyncVectorEnv) else []
        gone = wait([worker.sentinel for worker in workers], _LOOK_S)
        for index, worker in enumerate(workers):
            if worker.sentinel in gone:
                worker.join()
                raise EnvCrash(_lost(index, worker.exitcode or 0)) from error
        raise


def _lost(index: int, code: int) -> EnvCrash:
    how = f"ended with exit code {code}"
    if code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    remedy = "if memory ran out, lower actor.num_actors or actor.envs_per_actor"
    return EnvCrash(f"the worker process of environment {index} {how}", remedy, "")
