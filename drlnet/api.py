"""Training, and what came of it, in a script or a notebook: `drlnet.train` and `drlnet.load_run`.

torch is imported when a run is trained in this process or a policy is asked for an action.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drlnet.adders.observations import flat
from drlnet.cli.output import Output
from drlnet.config import load, plugins, repeatable
from drlnet.config.fields import walk
from drlnet.errors import ConfigError
from drlnet.lazy import torch
from drlnet.metrics import RunFolder, RunResult

if TYPE_CHECKING:
    import gymnasium as gym

    from drlnet.algos import Player
    from drlnet.config import Config


def train(
    env: str,
    settings: Mapping[str, Any] | None = None,
    *,
    config: str | Path | None = None,
    algo: str | None = None,
    seed: int | None = None,
    goal: float | None = None,
    max_seconds: float | None = None,
    max_env_steps: int | None = None,
    max_learner_steps: int | None = None,
    keep_replay: bool = False,
    num_actors: int | None = None,
    envs_per_actor: int | None = None,
    sampler: str | None = None,
    transport: str | None = None,
    poll: str | None = None,
    serial: bool = False,
    quiet: bool = False,
) -> RunResult:
    """Trains as `drlnet run` does, with its recipe, and returns the result; `run_dir` in it is for
    load_run().

    settings: of any dotted key, as --set takes them: {"algo.n_step": 5, "run.goal": None}. They win
    over the keywords, which are the flags of the command; None: not given.
    config: a file of settings, as --config. quiet: without the progress, which goes to standard
    error.
    Server, actors and learner are processes of their own, which import what `env` names: an
    environment that is registered in this process alone is for serial=True, which trains here.
    Interrupted, it returns the run so far, `stopped` = "interrupted", or raises KeyboardInterrupt.
    Errors: those of the command (DrlnetError); ConfigError outside the main thread, and in a module
    that is imported for a run.
    """
    from drlnet.cli.run import run_processes, run_serial
    from drlnet.cli.training import note_no_end
    from drlnet.launch.signals import Stop

    flags = {
        "algo.name": algo,
        "run.seed": seed,
        "run.goal": goal,
        "run.max_seconds": max_seconds,
        "run.max_env_steps": max_env_steps,
        "run.max_learner_steps": max_learner_steps,
        "run.keep_replay": keep_replay or None,
        "actor.num_actors": num_actors,
        "actor.envs_per_actor": envs_per_actor,
        "replay.sampler": sampler,
        "server.transport": transport,
        "server.poll": poll,
        "run.serial": serial or None,
    }
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError(
            "train() was called outside the main thread, where signals arrive",
            "call it in the main thread, or start the command `drlnet run` from there",
        )
    plugins.require_no_import("train")
    began_s, path = time.monotonic(), None if config is None else Path(config)
    # Not as the run that `settings` may be of, which may have been resumed: this is a new one.
    sets = {**(settings or {}), "run.resume": False}
    chosen = load(env, file=path, flags=flags, sets=sets)
    with _trainable(chosen), _Notes(quiet) as notes, Stop() as stop:
        folder = RunFolder.create(chosen)
        chosen = folder.read_config()
        note_no_end(chosen, notes)
        if chosen.run.serial:
            run_serial(chosen, folder, stop, notes)
        else:
            run_processes(chosen, folder, stop, notes)
    if stop.signal not in (None, signal.SIGINT):
        signal.raise_signal(stop.signal)
    values = folder.read_result()
    if not values:
        raise KeyboardInterrupt
    result = replace(RunResult.of(values), wall_clock_s=round(time.monotonic() - began_s, 2))
    folder.write_result(result.to_json())
    return result


@contextmanager
def _trainable(config: Config) -> Iterator[None]:
    """Raises what keeps these settings from being trained. In the end torch has its threads back,
    where this process trains or has tried whether several can."""
    from drlnet.cli.training import require_trainable

    uses_torch = config.run.serial or config.learner.processes > 1
    threads = torch.get_num_threads() if uses_torch else None
    try:
        require_trainable(config)
        yield
    finally:
        if threads is not None:
            torch.set_num_threads(threads)


class _Notes(Output):
    """A command's lines on standard error, or nowhere."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(as_json=False)
        self.notes = Path(os.devnull).open("w") if quiet else sys.stderr  # noqa: SIM115
        self._quiet = quiet

    def __enter__(self) -> _Notes:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._quiet:
            self.notes.close()

    def hint(self, command: str, what: str) -> None:
        """Leaves it out: a hint is for a shell."""


def load_run(path: str | Path) -> LoadedRun:
    """A run by its folder: what `drlnet run` printed, or a result's run_dir.

    Errors: RunFolderError unless it is the folder of a run that has a checkpoint.
    """
    return LoadedRun(RunFolder.open(Path(path)))


class LoadedRun:
    """A run that was trained: its policy, settings, result and curves."""

    def __init__(self, folder: RunFolder) -> None:
        self.path = folder.path
        self.config: Config = folder.read_config()
        self._folder = folder

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by dotted key, as train() takes them."""
        return {key: value for key, value, _ in walk(self.config)}

    @cached_property
    def result(self) -> RunResult | None:
        """What the run ended with; None where it was interrupted before there was a result."""
        values = self._folder.read_result()
        return RunResult.of(values) if values else None

    @cached_property
    def curves(self) -> dict[str, npt.NDArray[np.float64]]:
        """The learner's figures, one number for each reading [readings], NaN where one was missing:
        "env_steps", "learner_steps", "eval_return" (the newest evaluation's), "loss", ..., and
        "seconds" since the start. RunFolderError where there are no readings."""
        from drlnet.plots.runs import read_run, series

        run = read_run(self.path)
        names = {
            name
            for reading in run.learner
            for name, value in reading.items()
            if isinstance(value, int | float) and name != "time"
        }
        curves = {name: series(run.learner, name) for name in sorted(names)}
        return {"seconds": series(run.learner, "time") - run.started_s, **curves}

    @cached_property
    def policy(self) -> Policy:
        """The greedy policy of its checkpoint. CheckpointMismatch where that does not fit."""
        return Policy(self.config, self._folder.checkpoint_path)

    def make_env(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """The environment that its policy plays, as an evaluation makes it.

        kwargs: more of the environment's own, beside the setting env.kwargs: render_mode="human".
        An Atari game is the run's, with its screen_size, noop_max and so on, and draws nothing.
        Errors: as drlnet.train for an environment that cannot be made.
        """
        from drlnet.envs import make_single

        limit = self.config.eval.max_episode_steps
        return make_single(self.config.env, **{"max_episode_steps": limit, **kwargs})

    def __repr__(self) -> str:
        outcome = "no result"
        if self.result is not None:
            returned = self.result.eval_return_mean
            outcome = f"greedy return {returned:.1f}, {self.result.env_steps:,} env_steps"
        seed, algo = self.config.run.seed, self.config.algo.name
        return f"<LoadedRun {self.config.env.id} {algo} seed {seed}: {outcome}; {self.path}>"


class Policy:
    """The greedy policy of a checkpoint: policy(obs) is the action to take. Not thread-safe.

    It plays episodes: each call has the next observation of one, which reset() begins. What it
    remembers of them is the algorithm's: a recurrent state, or the frames of net.frame_stack.
    """

    def __init__(self, config: Config, checkpoint: Path) -> None:
        from drlnet.algos import make_algorithm
        from drlnet.envs import find_spaces
        from drlnet.nets.params import load as load_params

        self._spaces = find_spaces(config.env)
        self._env_id, self._stack = config.env.id, config.net.frame_stack
        self._algorithm = make_algorithm(repeatable(config), self._spaces)
        self._params = load_params(checkpoint, self._algorithm.architecture)
        self._player: Player | None = None
        self._first = np.ones(0, np.bool_)  # the environments whose next observation begins one

    def reset(self, where: npt.ArrayLike | None = None) -> None:
        """Forgets the episodes before: the next call begins new ones.

        where: bool [n], those of a batch in which it does; None: in all, and a batch may have
        another size. ConfigError for another number of them than of the episodes that go on.
        """
        if where is None:
            self._player = None
        elif self._player is not None:  # else all begin anyway
            marked, count = np.asarray(where, np.bool_), len(self._first)
            if marked.shape not in ((), (count,)):
                raise self._unfit(f"reset() of {marked.size}, where the episodes of {count} go on")
            self._first = self._first | marked

    def __call__(
        self,
        obs: Any,
        reward: npt.ArrayLike | None = None,
        *,
        action_mask: npt.ArrayLike | None = None,
    ) -> Any:
        """The action for one observation as the environment returns it, or those of a batch.

        obs: an array of the observation space's shape, or [n, *shape] of n environments; of a Dict
        space a dict of such. reward: what arrived with it, a number or [n]; the policy of an
        algorithm that does not read rewards needs none. action_mask: bool [num_actions] or
        [n, num_actions], the valid actions.
        Returns an action that the environment's step() takes, or [n, ...] of them.
        Raises ConfigError for observations of another shape, or of other environments than those
        whose episodes go on, and where a reward is missing.
        """
        from drlnet.envs import Rows

        spaces = self._spaces
        try:
            own = spaces.own_obs(obs)
            seen = flat(spaces.leaves, own) if spaces.leaves else own
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self._unfit(f"{type(error).__name__}: {error}") from error
        axes = seen.ndim - len(spaces.obs_shape)
        if axes not in (0, 1) or seen.shape[axes:] != spaces.obs_shape:
            raise self._unfit(
                f"their shape is {list(seen.shape)}, that of one is {list(spaces.obs_shape)}"
            )
        one = axes == 0
        count = 1 if one else len(seen)
        valid = None
        if action_mask is not None:
            valid = np.array(action_mask, np.bool_).reshape(-1, spaces.num_actions)
            if len(valid) != count:
                raise self._unfit(f"{count} observations came with {len(valid)} action masks")
            valid[~valid.any(axis=1)] = True
        rewards = np.asarray(0 if reward is None else reward, np.float32)
        if rewards.shape not in ((), (count,)):
            raise self._unfit(f"{count} observations came with {rewards.size} rewards")
        player, none = self._player_of(count), np.zeros(count, np.bool_)
        if reward is None and getattr(player, "reads_reward", False) and not self._first.all():
            raise ConfigError(
                f"the policy of algo.name = {self._algorithm.settings.name!r} reads rewards",
                "give what arrived with the observation: policy(obs, reward), 0 for a first one",
            )
        rows = Rows(
            obs=np.ascontiguousarray(seen.reshape(count, *spaces.obs_shape)),
            reward=np.where(self._first, np.float32(0), rewards),
            terminated=none,
            truncated=none,
            first=self._first,
            last=none,
            leaves={
                name: own[name].reshape(count, *leaf.shape) for name, leaf in spaces.leaves.items()
            }
            or None,
            action_mask=valid,
        )
        taken = spaces.own_actions(player.act(rows))
        self._first = none
        return taken[0] if one else taken

    def _player_of(self, count: int) -> Player:
        """Returns the player of `count` environments; a new one only where nothing is lost."""
        before = self._player
        if before is not None and len(self._first) == count:
            return before
        if before is not None and (self._stack > 1 or getattr(before, "reads_reward", False)):
            raise ConfigError(
                f"{count} observations, where the episodes of {len(self._first)} go on",
                "policy.reset() begins new ones",
            )
        self._first = np.ones(count, np.bool_)
        self._player = self._algorithm.greedy(count)
        self._player.load(self._params)
        return self._player

    def _unfit(self, why: str) -> ConfigError:
        return ConfigError(
            f"the observations do not fit {self._env_id}: {why}",
            "give what reset() and step() of the run's make_env() return, or a batch of it",
        )

    def __repr__(self) -> str:
        return f"<Policy of [{self._algorithm.architecture}]>"
