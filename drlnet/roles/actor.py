"""The actor: plays environments, by its own agent or by the inference role's actions."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable

import numpy as np
import torch

from drlnet.client import Client
from drlnet.config import Config
from drlnet.envs import Pace, Rows, close_crashed, crashed, make_envs, ticks
from drlnet.errors import UnknownLease, UserCodeError
from drlnet.metrics.stages import Rates, Stages
from drlnet.metrics.usage import process_figures
from drlnet.roles.central import CentralAgent, Forgotten
from drlnet.roles.own_agent import OwnAgent
from drlnet.roles.reach import parting, reach
from drlnet.roles.recorder import Held
from drlnet.roles.stop import Stop

_CRASHES_MAX = 3  # within _CRASH_WINDOW_S: beyond, the environment is at fault and not the moment
_CRASH_WINDOW_S = 60.0


def act(
    config: Config, server: str, index: int | None, stop: Stop, note: Callable[[str], None]
) -> None:
    """One actor process: plays until stop is set or actor.max_env_steps are done.

    index: its number among its siblings, where it has one.
    note: told that the server is waited for, and once that no learner draws.
    Errors: ReplayTimeout when no params are published, or nothing is drawn for actor.max_wait_s,
    or no inference role answers;
    UserCodeError for an environment that keeps crashing, or an algorithm that breaks its contract;
    the client's own. KeyboardInterrupt when stopped before the server has answered.
    """
    torch.set_num_threads(config.actor.torch_threads)
    with reach(
        server, f"actor-{index or 0}", config.server.poll, stop, note, kept=config.run.keep_replay
    ) as client:
        actor = Actor(config, client, index, held=Held(config, server, note))
        try:
            with stop.interrupts():
                actor.wait(stop)
                actor.start()
                while not (stop.is_set() or actor.spent):
                    actor.tick()
                actor.flush()
        except KeyboardInterrupt:
            pass  # what the limiter still holds back is not worth waiting for
        with parting(client):
            actor.close()


class Actor:
    """envs_per_actor environments, and what acts for them. Not thread-safe."""

    def __init__(
        self,
        config: Config,
        client: Client,
        index: int | None,
        held: Callable[[float], None] | None = None,
    ):
        self._config, self._client = config, client
        self._stages = Stages("env", "policy", "append", "fetch")
        self._make_envs()
        self.agent: OwnAgent | CentralAgent
        if config.policy.where != "actor":
            self.agent = CentralAgent(config, client, self._spaces, self._stages)
        else:
            self.agent = OwnAgent(config, client, index, self._spaces, self._stages, held)
        self._started = False
        self._env_steps = 0
        self._ticks = 0
        self._crashes: list[float] = []
        self._pace = Pace(config.env.max_steps_per_second)
        self._returns = Returns(config.actor.envs_per_actor)
        self._rates = Rates()

    @property
    def spent(self) -> bool:
        """Whether this actor has done what actor.max_env_steps allows."""
        budget = self._config.actor.max_env_steps
        return budget is not None and self._env_steps >= budget

    @property
    def items_added(self) -> int:
        """The items that this process has added."""
        return self.agent.items_added

    def wait(self, stop: Stop) -> None:
        """Waits until there is something to act by, or stop."""
        self.agent.wait(stop)

    def start(self) -> None:
        """Starts an episode in each environment, in streams of their own: anew after a crash."""
        while True:
            env_seed = self.agent.start()
            self._started = True
            self._returns.restart()
            try:
                rows = self._envs.reset(int(env_seed.generate_state(1)[0]) >> 1)
            except Exception as error:  # an environment is someone else's code
                raise crashed(self._config.env.id, "in its first reset", error) from error
            try:
                return self._act(rows)
            except Forgotten:
                continue  # the role that gave the streams has ended: another one gives others

    def tick(self) -> None:
        """One step of every environment."""
        self._stages.ended("other")
        self._pace.wait()  # a slow environment's time is the environment's
        try:
            step = self._envs.step(self._action)
        except UserCodeError:
            raise  # of wrong actions, which are the algorithm's
        except Exception as error:  # an environment is someone else's code
            return self._restart(error)
        self._stages.ended("env")
        try:
            for rows in ticks(step):
                self._act(rows)
                self._returns.push(rows)
        except Forgotten:
            return self.start()
        except UnknownLease as error:
            return self._lease_anew(error)
        self._ticks += 1
        if self._ticks % self._config.actor.fetch_period_steps == 0:
            self.agent.refresh()
        if self._rates.due(self._config.learner.report_interval_s):
            self._report()
        return None

    def flush(self) -> None:
        """Waits until the server holds all that was appended."""
        self._stages.ended("other")
        self.agent.flush()
        self._stages.ended("append")

    def close(self) -> None:
        """Gives the streams back, closes the environments; what was not flushed is dropped."""
        try:
            self.agent.close()
            if self._started:
                self._report()
        finally:
            self._envs.close()  # its processes are not the server's to keep

    def _act(self, rows: Rows) -> None:
        self._action = self.agent.act(rows)
        took_action = ~rows.last if rows.mask is None else rows.mask & ~rows.last
        self._env_steps += int(np.count_nonzero(took_action))

    def _restart(self, error: Exception) -> None:
        """An environment crashed: says why, breaks all its streams, starts new ones."""
        now = time.monotonic()
        self._crashes = [t for t in self._crashes if now - t < _CRASH_WINDOW_S] + [now]
        count = len(self._crashes)
        when = f"{f'{count} times' if count > 1 else 'once'} within {_CRASH_WINDOW_S:g} s"
        failure = crashed(self._config.env.id, when, error)
        if count > _CRASHES_MAX:
            raise failure from error
        said = f"{failure.trace}{failure.cause}; its episodes begin anew"
        print(said, file=sys.stderr, flush=True)
        self.agent.leave()
        close_crashed(self._config.env.id, self._envs)
        self._make_envs()
        self.start()

    def _lease_anew(self, error: UnknownLease) -> None:
        """A shard of the server is lost, and our streams there: takes new ones elsewhere."""
        print(f"{error.cause}; episodes begin anew", file=sys.stderr, flush=True)
        self.agent.forsake()
        self.start()

    def _make_envs(self) -> None:
        self._envs, self._spaces = make_envs(self._config.env, self._config.actor.envs_per_actor)

    def _report(self) -> None:
        per_s = self._rates.read(env_steps=self._env_steps)
        own: dict[str, float | int | str] = {
            "role": "actor",
            "env_steps": self._env_steps,
            "env_steps_per_s": per_s["env_steps"],
            "episodes": self._returns.episodes,
            "return_mean": self._returns.mean,
            "return_last": self._returns.last,
            "env_crashes": len(self._crashes),
            **({"late_steps": self._pace.late} if self._pace.holds else {}),
            **self._stages.read(),
            **process_figures(with_children=True),  # env.vectorization = async has some
        }
        self._client.report(self.agent.reading(own))


class Returns:
    """Undiscounted returns of the episodes that M environments play; NaN before the first ends."""

    def __init__(self, num_envs: int):
        self._running = np.zeros(num_envs)
        self._recent: deque[float] = deque(maxlen=100)
        self.episodes = 0

    def restart(self) -> None:
        """Forgets episodes under way."""
        self._running[:] = 0.0

    def push(self, rows: Rows) -> None:
        """Takes a tick's rows."""
        present = True if rows.mask is None else rows.mask
        self._running += np.where(present, rows.reward, 0.0)
        for index in np.flatnonzero(rows.last & present):
            self._recent.append(float(self._running[index]))
            self._running[index] = 0.0
            self.episodes += 1

    @property
    def mean(self) -> float:
        """Over the last 100 episodes."""
        return float(np.mean(self._recent)) if self._recent else float("nan")

    @property
    def last(self) -> float:
        """The return of the newest episode."""
        return self._recent[-1] if self._recent else float("nan")
