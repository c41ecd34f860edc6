"""Greedy evaluation: the same number of episodes from each environment, on fixed seeds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from drlnet.algos import Params, Player, make_algorithm, returned
from drlnet.config import Config, repeatable
from drlnet.envs import Film, RowEnv, close_crashed, crashed, film, find_spaces, make_envs, ticks
from drlnet.errors import UserCodeError
from drlnet.nets.params import load
from drlnet.roles.seeds import role_seed

# The gate decides when to stop, confirm is its second look, report is what a user is told.
# Each has seeds of its own: what passed by luck on one set does not pass on the next.
Purpose = Literal["gate", "confirm", "report"]
_LONGEST_EPISODE = 27_000  # steps, Atari's: without a limit one greedy episode may never end


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns of greedy episodes, one for each."""

    returns: list[float]
    never_ended: int  # episodes that were cut by a time limit and not by the environment itself
    planned: int  # episodes; fewer were played where the deadline came first

    @property
    def mean(self) -> float:
        """The mean return; NaN where no episode ended in time."""
        return float(np.mean(self.returns)) if self.returns else math.nan


def evaluate(
    config: Config,
    params: Params,
    episodes: int,
    purpose: Purpose = "report",
    max_seconds: float | None = None,
    told: Callable[[int], None] = lambda played: None,
) -> Evaluation:
    """Plays `episodes` greedy episodes with params, in eval.num_envs environments.

    Each environment plays episodes / num_envs of them, so that short ones do not count more.
    Deterministic in run.seed, purpose, params and the counts, unless max_seconds ends it earlier.
    """
    num_envs = min(config.eval.num_envs, episodes)
    envs, spaces = make_envs(
        config.env,
        num_envs,
        training=False,
        max_episode_steps=config.eval.max_episode_steps,
        longest_episode=_LONGEST_EPISODE,
    )
    player = returned.made(make_algorithm(repeatable(config), spaces), "greedy", num_envs)
    player.load(params)
    try:
        played = play(
            envs,
            player,
            quota=episodes // num_envs,
            seed=role_seed(config.run.seed, purpose),
            env_id=config.env.id,
            max_seconds=max_seconds,
            told=told,
        )
    except BaseException:
        close_crashed(config.env.id, envs)
        raise
    envs.close()
    return played


def evaluate_checkpoint(config: Config, checkpoint: Path, episodes: int) -> Evaluation:
    """The same with the params of a checkpoint; CheckpointMismatch when they do not fit config."""
    algorithm = make_algorithm(config, find_spaces(config.env))
    return evaluate(config, load(checkpoint, algorithm.architecture), episodes)


def film_checkpoint(config: Config, checkpoint: Path) -> Film:
    """The first episode of the report's first environment, greedy, with a checkpoint's params.

    Errors: as evaluate_checkpoint; ConfigError for an environment that draws no pictures.
    """
    algorithm = make_algorithm(config, find_spaces(config.env))
    as_played = make_algorithm(repeatable(config), algorithm.spaces)  # by evaluate()
    player = returned.made(as_played, "greedy", 1)
    player.load(load(checkpoint, algorithm.architecture))
    seed, limit = role_seed(config.run.seed, "report"), config.eval.max_episode_steps
    return film(config.env, player.act, seed, limit)


def play(
    envs: RowEnv,
    player: Player,
    quota: int,
    seed: int,
    env_id: str,
    max_seconds: float | None = None,
    told: Callable[[int], None] = lambda played: None,
) -> Evaluation:
    """Plays until each environment has ended `quota` episodes; more that it plays do not count.

    An episode longer than envs.longest_episode counts up to there, and its rest does not. One that
    does not end by itself ends as all are reset: when every other environment has its quota, or is
    in such an episode too. max_seconds: what has ended by then counts, and no more is played.
    told: after each episode, how many have been played.
    UserCodeError, with env_id, for an environment that crashes; for wrong actions of the player.
    """
    deadline = math.inf if max_seconds is None else time.monotonic() + max_seconds
    streams, longest = np.arange(envs.num_envs), envs.longest_episode or np.inf
    running, steps = np.zeros(envs.num_envs), np.zeros(envs.num_envs)
    given_up = np.zeros(envs.num_envs, dtype=np.bool_)
    returns: list[list[float]] = [[] for _ in streams]
    never_ended = 0
    with _blaming(env_id):
        rows = envs.reset(seed)
    while min(map(len, returns)) < quota and time.monotonic() < deadline:
        if given_up.any() and all(given_up | [len(ended) >= quota for ended in returns]):
            with _blaming(env_id):
                rows = envs.reset()
            running[:], steps[:], given_up[:] = 0, 0, False
        action = player.act(rows)
        with _blaming(env_id):
            step = envs.step(action)
        rows = step[1]
        for tick in ticks(step):
            present = True if tick.mask is None else tick.mask
            running += np.where(present, tick.reward, 0)
            steps += present & ~tick.first
            for index in np.flatnonzero(tick.last | (steps >= longest)):
                if len(returns[index]) < quota and not given_up[index]:
                    returns[index].append(float(running[index]))
                    never_ended += not tick.terminated[index]
                    told(sum(map(len, returns)))
                running[index] = steps[index] = 0
                given_up[index] = not tick.last[index]
    played = [value for per_env in returns for value in per_env]
    return Evaluation(played, never_ended, planned=quota * envs.num_envs)


@contextmanager
def _blaming(env_id: str) -> Iterator[None]:
    try:
        yield
    except UserCodeError:
        raise  # of the player's actions
    except Exception as error:  # an environment is someone else's code
        raise crashed(env_id, "in an evaluation", error) from error
