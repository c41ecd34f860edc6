"""The newest params that a learner has published, for a role that plays with them.

With actor.params_lag = k a role plays by older ones: of those that it has fetched, by the newest
that at least k publications have followed. It looks every actor.fetch_period_steps, so that the lag
is greater than k where more are published between two looks. Until k have followed the first ones,
it plays by these.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from drlnet.algos import Algorithm, Params
from drlnet.client import Client
from drlnet.errors import ReplayTimeout
from drlnet.nets.params import read_metadata, unpack
from drlnet.roles.stop import Stop

PARAMS_TIMEOUT_S = 60.0
_LOOK_S = 0.05  # between looks, while there are none


class NewestParams:
    """Params as they were when the role last looked; none at first. Not thread-safe."""

    def __init__(self, client: Client, algorithm: Algorithm[Any]):
        self._client, self._algorithm = client, algorithm
        self._params_lag = algorithm.config.actor.params_lag
        # Versions and blobs, the oldest first: those to play by, and what comes after them.
        self._fetched: deque[tuple[int, bytes]] = deque()
        self.params: Params = {}
        self.version = 0  # that the role plays by
        self.lag = 0  # versions, at the last look and before it took newer ones
        self.env_steps = 0  # of all actors when the newest were published
        self.env_steps_before = 0  # of the run, before this server counted
        self.streams = 0  # of all actors, as the learner's settings plan them

    def fetch(self) -> bool:
        """Looks for newer ones; False where the role goes on as before, or there are none."""
        fetched = self._fetched
        newer = self._client.fetch(newer_than=fetched[-1][0] if fetched else 0)
        if newer is not None:
            fetched.append(newer)
            facts = read_metadata(newer[1])
            self.env_steps = int(facts.get("env_steps", 0))
            self.env_steps_before = int(facts.get("env_steps_before", 0))
            self.streams = int(facts.get("streams", 0))
        newest = fetched[-1][0] if fetched else 0
        self.lag = newest - (self.version or newest)  # without params there is no lag
        while len(fetched) > 1 and fetched[1][0] <= newest - self._params_lag:
            fetched.popleft()
        if not fetched or fetched[0][0] == self.version:
            return False
        version, blob = fetched[0]
        source = f"version {version} at {self._client.address}"
        self.params = unpack(blob, self._algorithm.architecture, source)
        self.version = version
        return True

    def wait(self, stop: Stop, timeout_s: float = PARAMS_TIMEOUT_S) -> None:
        """Waits for the first ones, or stop. Raises ReplayTimeout after the deadline."""
        deadline = time.monotonic() + timeout_s
        while not self.fetch():
            if time.monotonic() > deadline:
                raise ReplayTimeout(
                    f"no learner has published params at {self._client.address} "
                    f"within {timeout_s:g} s",
                    f"start `drlnet learn {self._algorithm.config.env.id}` with the same --server",
                )
            if stop.wait(_LOOK_S):
                return
