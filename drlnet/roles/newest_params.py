"""The newest params that a learner has published, for a role that plays with them."""

from __future__ import annotations

import time
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
        self.params: Params = {}
        self.version = 0
        self.lag = 0  # versions, at the last look and before it took the newest
        self.env_steps = 0  # of all actors when they were published

    def fetch(self) -> bool:
        """Takes the newest ones; False where the role has them already, or there are none."""
        newer = self._client.fetch(newer_than=self.version)
        if newer is None:
            self.lag = 0
            return False
        version, blob = newer
        source = f"version {version} at {self._client.address}"
        self.params = unpack(blob, self._algorithm.architecture, source)
        self.env_steps = int(read_metadata(blob).get("env_steps", 0))
        self.lag = version - (self.version or version)  # without params there is no lag
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
