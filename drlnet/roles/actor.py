"""The actor: plays environments with its own copy of the params and appends what it sees."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from drlnet.algos import Agent, Params, make_algorithm
from drlnet.client import Client, Writer
from drlnet.config import Config
from drlnet.envs import Rows, Streams, crashed, make_envs, ticks
from drlnet.errors import BadPriority, ReplayTimeout
from drlnet.metrics.stages import Rates, Stages
from drlnet.metrics.usage import process_figures
from drlnet.nets.params import read_metadata, unpack
from drlnet.roles.divergence import diverged
from drlnet.roles.reach import reach
from drlnet.roles.seeds import role_sequence
from drlnet.roles.stop import Stop
from drlnet.roles.tables import open_tables

_PARAMS_TIMEOUT_S = 60.0
_PARAMS_LOOK_S = 0.05  # between looks, while there are none
_FLUSH_INTERVAL_S = 0.005  # experience older than this leaves, however few rows there are
_NEVER_S = 1e6
_SAY_HELD_S = 5.0  # a learner that evaluates or compiles draws none for a while, too
_CRASHES_MAX = 3  # within _CRASH_WINDOW_S: beyond, the environment is at fault and not the moment
_CRASH_WINDOW_S = 60.0


def act(config: Config, server: str, index: int, stop: Stop, note: Callable[[str], None]) -> None:
    """One actor process: plays until stop is set or actor.max_env_steps are done.

    note: told that the server is waited for, and once that no learner draws.
    Errors: ReplayTimeout when no params are published, or nothing is drawn for actor.max_wait_s;
    UserCodeError for an environment that keeps crashing; the client's own. KeyboardInterrupt when
    stopped before the server has answered.
    """
    torch.set_num_threads(config.actor.torch_threads)
    with reach(server, f"actor-{index}", config.server.poll, stop, note) as client:
        actor = Actor(config, client, index, held=_Held(config, server, note))
        try:
            with stop.interrupts():
                actor.wait_for_params(stop)
                actor.start()
                while not (stop.is_set() or actor.spent):
                    actor.tick()
                actor.flush()
        except KeyboardInterrupt:
            pass  # what the limiter still holds back is not worth waiting for
        actor.close()


class Actor:
    """envs_per_actor environments, their agent, and a writer for each table. Not thread-safe."""

    def __init__(
        self,
        config: Config,
        client: Client,
        index: int,
        held: Callable[[float], None] | None = None,
    ):
        self._config, self._client, self._index, self._held = config, client, index, held
        self._stages = Stages("env", "policy", "append", "fetch")
        self._make_envs()
        self._algorithm = make_algorithm(config, self._spaces)
        self._tables = open_tables(client, self._algorithm)
        self._writers: dict[str, Writer] = {}
        self._agent: Agent | None = None
        self._params: Params = {}
        self._params_version = self._played_before = 0
        self._policy_lag = 0  # versions, when it last looked and before it took the newest
        self._env_steps = 0
        self._ticks = 0
        self.items_added = 0
        self._crashes: list[float] = []
        self._returns = Returns(config.actor.envs_per_actor)
        self._rates = Rates()

    @property
    def spent(self) -> bool:
        """Whether this actor has done what actor.max_env_steps allows."""
        budget = self._config.actor.max_env_steps
        return budget is not None and self._env_steps >= budget

    def wait_for_params(self, stop: Stop, timeout_s: float = _PARAMS_TIMEOUT_S) -> None:
        """Waits for the first params, or stop. Raises ReplayTimeout after the deadline."""
        deadline = time.monotonic() + timeout_s
        while not self._fetch():
            if time.monotonic() > deadline:
                raise ReplayTimeout(
                    f"no learner has published params at {self._client.address} "
                    f"within {timeout_s:g} s",
                    f"start `drlnet learn {self._config.env.id}` with the same --server",
                )
            if stop.wait(_PARAMS_LOOK_S):
                return

    def start(self) -> None:
        """Leases streams and starts an episode in each: anew after a crash."""
        config, actor = self._config, self._config.actor
        self._writers = {
            name: table.writer(
                actor.envs_per_actor,
                flush_rows=actor.flush_rows * actor.envs_per_actor,  # rows, not vector steps
                # A clock that splits appends would decide in which order rows lie in the ring.
                flush_interval_s=_NEVER_S if config.run.serial else _FLUSH_INTERVAL_S,
                held=self._held,
            )
            for name, table in self._tables.items()
        }
        # A lease is this actor's alone, however many were started under one index.
        writer = next(iter(self._writers.values()))
        lease = writer.leases[0]
        seeds = role_sequence(config.run.seed, "actor", lease.ordinal, lease.epoch)
        explore_seed, env_seed = seeds.spawn(2)
        self._agent = self._algorithm.agent(
            Streams(
                ordinals=writer.ordinals,
                first=self._index * actor.envs_per_actor,
                total=actor.num_actors * actor.envs_per_actor,
                rng=np.random.default_rng(explore_seed),
                env_steps=self._played_before,
            )
        )
        if self._params:  # none when the actor was stopped while it waited for them
            self._agent.load(self._params)
        self._returns.restart()
        try:
            rows = self._envs.reset(int(env_seed.generate_state(1)[0]) >> 1)
        except Exception as error:  # an environment is someone else's code
            raise crashed(config.env.id, "in its first reset", error) from error
        self._action = self._record(rows)

    def tick(self) -> None:
        """One step of every environment."""
        self._stages.ended("other")
        try:
            step = self._envs.step(self._action)
        except Exception as error:  # an environment is someone else's code
            return self._restart(error)
        self._stages.ended("env")
        for rows in ticks(step):
            self._action = self._record(rows)
            self._returns.push(rows)
        self._ticks += 1
        if self._ticks % self._config.actor.fetch_period_steps == 0:
            self._fetch()
        if self._rates.due(self._config.learner.report_interval_s):
            self._report()
        return None

    def flush(self) -> None:
        """Waits until the server holds all that was appended."""
        self._stages.ended("other")
        for writer in self._writers.values():
            writer.flush()
        self._stages.ended("append")

    def close(self) -> None:
        """Releases the streams, closes the environments; what was not flushed is dropped."""
        try:
            for writer in self._writers.values():
                writer.release()
            if self._writers:
                self._report()
        finally:
            self._envs.close()  # its processes are not the server's to keep

    def _record(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Acts on rows and appends them, with the items that they complete."""
        agent, stages = self._agent, self._stages
        assert agent is not None, "start() makes it"
        action, appended = agent.act(rows)
        stages.ended("policy")
        steps = {
            name: self._writers[name].append(columns, rows.first, rows.last, rows.mask)
            for name, columns in appended.items()
        }
        stages.ended("append")
        ready = agent.items(steps)
        stages.ended("other")
        for name, items in ready.items():
            if len(items.steps):
                try:
                    self._writers[name].add_items(items.streams, items.steps, items.priorities)
                except BadPriority as error:
                    raise diverged(self._config.env.id, error) from error
                self.items_added += len(items.steps)
                stages.ended("append")
        took_action = ~rows.last if rows.mask is None else rows.mask & ~rows.last
        self._env_steps += int(np.count_nonzero(took_action))
        return action

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
        for writer in self._writers.values():
            writer.close()  # a released stream is broken: items that wait for more rows retire
        self._envs.close()
        self._make_envs()
        self.start()

    def _make_envs(self) -> None:
        self._envs, self._spaces = make_envs(self._config.env, self._config.actor.envs_per_actor)

    def _fetch(self) -> bool:
        self._stages.ended("other")
        newer = self._client.fetch(newer_than=self._params_version)
        if newer is not None:
            version, blob = newer
            source = f"version {version} at {self._client.address}"
            self._params = unpack(blob, self._algorithm.architecture, source)
            self._played_before = int(read_metadata(blob).get("env_steps", 0))
            if self._agent is not None:
                self._agent.load(self._params)
            # Without params there is no lag.
            self._policy_lag = version - (self._params_version or version)
            self._params_version = version
        else:
            self._policy_lag = 0
        self._stages.ended("fetch")
        return newer is not None

    def _report(self) -> None:
        per_s = self._rates.read(env_steps=self._env_steps)
        self._client.report(
            {
                "role": "actor",
                "env_steps": self._env_steps,
                "env_steps_per_s": per_s["env_steps"],
                "episodes": self._returns.episodes,
                "return_mean": self._returns.mean,
                "return_last": self._returns.last,
                "params_version": self._params_version,
                "policy_lag": self._policy_lag,
                "env_crashes": len(self._crashes),
                **(self._agent.figures() if self._agent is not None else {}),
                **self._stages.read(),
                **process_figures(with_children=True),  # env.vectorization = async has some
            }
        )


class _Held:
    """What an actor does while the limiter holds its append: says it once, and waits."""

    def __init__(self, config: Config, server: str, note: Callable[[str], None]):
        self._max_wait_s, self._note, self._said = config.actor.max_wait_s, note, False
        self._remedy = f"start `drlnet learn {config.env.id} --server {server}`"

    def __call__(self, seconds: float) -> None:
        cause = "the limiter holds appends: no learner has drawn"
        if self._max_wait_s is not None and seconds >= self._max_wait_s:
            raise ReplayTimeout(
                f"{cause} for {seconds:.3g} s", f"{self._remedy}, or raise actor.max_wait_s"
            )
        if seconds >= _SAY_HELD_S and not self._said:
            self._said = True
            self._note(f"{cause} for {seconds:.0f} s; playing waits\n  try: {self._remedy}")


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
