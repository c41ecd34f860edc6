"""Greedy evaluation: the same number of episodes from each environment, on fixed seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import nn

from drlnet.algos import find_algo
from drlnet.config import Config
from drlnet.envs import EnvSpaces, RowEnv, crashed, find_spaces, make_envs, ticks
from drlnet.nets.params import load
from drlnet.policies import EpsilonGreedy
from drlnet.roles.seeds import role_seed

# The gate decides when to stop, confirm is its second look, report is what a user is told.
# Each has seeds of its own: what passed by luck on one set does not pass on the next.
Purpose = Literal["gate", "confirm", "report"]
_LONGEST_EPISODE = 27_000  # steps, Atari's: without a limit one greedy episode may last for ever


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns of greedy episodes, one for each."""

    returns: list[float]
    never_ended: int  # episodes that were cut by a time limit and not by the environment itself

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(np.mean(self.returns))


def evaluate(
    config: Config, params: Mapping[str, torch.Tensor], episodes: int, purpose: Purpose = "report"
) -> Evaluation:
    """Plays `episodes` greedy episodes with params (a state dict), in eval.num_envs environments.

    Shortest episodes do not come to count more: each environment plays episodes / num_envs of them.
    Deterministic in run.seed, purpose, params and the counts.
    """
    num_envs = min(config.eval.num_envs, episodes)
    limit = config.eval.max_episode_steps
    envs, spaces = make_envs(
        config.env.id,
        num_envs,
        kwargs={**config.env.kwargs, **({"max_episode_steps": limit} if limit else {})},
        vectorization=config.env.vectorization,
        longest_episode=_LONGEST_EPISODE,
    )
    net = find_algo(config.algo.name).make_net(config.algo, spaces)
    net.load_state_dict(params)
    try:
        return play(
            envs,
            greedy(net, spaces, num_envs),
            quota=episodes // num_envs,
            seed=role_seed(config.run.seed, purpose),
            env_id=config.env.id,
        )
    finally:
        envs.close()


def evaluate_checkpoint(
    config: Config, checkpoint: Path, episodes: int, purpose: Purpose = "report"
) -> Evaluation:
    """The same with the params of a checkpoint; CheckpointMismatch when they do not fit config."""
    spaces = find_spaces(config.env.id, config.env.kwargs, config.env.vectorization)
    net = find_algo(config.algo.name).make_net(config.algo, spaces)
    return evaluate(config, load(checkpoint, net.architecture), episodes, purpose)


def greedy(net: nn.Module, spaces: EnvSpaces, num_envs: int) -> EpsilonGreedy:
    """The policy without exploration."""
    return EpsilonGreedy(net, spaces.num_actions, np.zeros(num_envs), np.random.default_rng(0))


def play(envs: RowEnv, policy: EpsilonGreedy, quota: int, seed: int, env_id: str) -> Evaluation:
    """Plays until each environment has ended `quota` episodes; more that it plays do not count.

    An episode longer than envs.longest_episode counts up to there, and its rest does not. One that
    does not end by itself ends as all are reset: when every other environment has its quota, or is
    in such an episode too. ConfigError, with env_id, for an environment that crashes.
    """
    streams, longest = np.arange(envs.num_envs), envs.longest_episode or np.inf
    running, steps = np.zeros(envs.num_envs), np.zeros(envs.num_envs)
    given_up = np.zeros(envs.num_envs, dtype=np.bool_)
    returns: list[list[float]] = [[] for _ in streams]
    never_ended = 0
    with _blaming(env_id):
        rows, state = envs.reset(seed), None
    while min(map(len, returns)) < quota:
        if given_up.any() and all(given_up | [len(ended) >= quota for ended in returns]):
            with _blaming(env_id):
                rows, state = envs.reset(), None
            running[:], steps[:], given_up[:] = 0, 0, False
        action, state, _ = policy.act(rows.obs, rows.first, streams, state)
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
                running[index] = steps[index] = 0
                given_up[index] = not tick.last[index]
    return Evaluation([value for per_env in returns for value in per_env], never_ended)


@contextmanager
def _blaming(env_id: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # an environment is someone else's code
        raise crashed(env_id, "in an evaluation", error) from error
