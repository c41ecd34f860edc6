"""What stands beside the server: all the actors (native/measure/crowd.h), and a learner.

Each is called from another process (Worker).
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench.measure import Crowd, InNetworkReplay, Session
from drlnet.bench.shapes import FRAMES, SMALL_STEP, Shape, bytes_of, fill
from drlnet.client import Client, Limiter, Sampler
from drlnet.client.specs import native_spec
from drlnet.errors import DrlnetError

ShapeName = Literal["cartpole", "atari"]
SHAPES: dict[ShapeName, Shape] = {"cartpole": SMALL_STEP, "atari": FRAMES}
TABLE = "actors"
STORED, BUSY, RESIDENT = f"table.{TABLE}.env_steps", "server.busy_s", "server.resident_bytes"
_FLUSH_S, _FLUSH_ROWS = 0.005, 8  # of an actor with one environment (roles/recorder.py)
_FILL_STREAMS = 64
_TIMEOUT_S = 10.0
_PATIENCE = 2.0  # times what the appends of a run take, and a second
_MOST_CYCLES = 1_000_000  # in one go


@dataclass(frozen=True)
class Asked:
    """What each actor appends, and what the learner draws. append_rows: None, as an actor does."""

    shape: ShapeName = "cartpole"
    steps_per_second: float = 250.0
    append_rows: int | None = None
    batch: int = 512
    capacity: int = 65536

    @property
    def rows(self) -> int:
        """Rows of an append: it leaves with the first step after its oldest is 5 ms old."""
        if self.append_rows is not None:
            return self.append_rows
        return min(_FLUSH_ROWS, int(_FLUSH_S * self.steps_per_second) + 2)

    @property
    def spec(self) -> native.TableSpec:
        """The table's."""
        shape = replace(SHAPES[self.shape], capacity=self.capacity)
        table = TABLE, shape.columns, shape.item, shape.capacity
        return native_spec(*table, Sampler(), Limiter(), seed=0)

    @property
    def words(self) -> str:
        """What a record calls it."""
        steps = f"{self.steps_per_second:g} steps/s in appends of {self.rows}"
        return f"{self.shape}, {steps}, batch {self.batch}"


@dataclass(frozen=True)
class Acted:
    """What became of the appends of all actors in one run.

    latencies_us: [actors, appends], since each was due; late_us: how long after that the median one
    left. in_time: were answered before the run was given up; elapsed_s: until the last of them.
    rows: stored in this run, and acknowledged. cpu_share: of a core, that the generator took;
    delayed_share: of the time, that it was ready and had none.
    """

    latencies_us: NDArray[np.float64]
    late_us: float
    in_time: int
    elapsed_s: float
    rows: int
    cpu_share: float
    delayed_share: float


class Actors:
    """All actors, in one thread."""

    def open(self, address: str, poll: str, asked: Asked) -> None:
        """Meets the table. One descriptor for each session over UDP: takes as many as it may."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._asked = asked
        self._session: Session | None = Session(address, "actors", _TIMEOUT_S, poll)
        table = self._session.open_table(asked.spec)
        self._crowd: Crowd | None = Crowd(address, table, asked.spec, asked.rows)
        self._runs = 0

    def grow(self, actors: int) -> str:
        """Opens sessions until there are that many; else says which limit refused the next."""
        assert self._crowd is not None
        try:
            self._crowd.grow(actors)
        except DrlnetError as error:
            return error.cause
        return ""

    def act(self, actors: int, seconds: float) -> Acted:
        """Appends for that long. actors: all that there are."""
        assert self._crowd is not None
        asked, crowd = self._asked, self._crowd
        appends = max(1, round(seconds * asked.steps_per_second / asked.rows))
        latencies, late = (np.zeros(actors * appends, np.uint64) for _ in range(2))
        self._runs += 1
        stored = crowd.rows_stored
        before_s, since_s = _scheduled_s(), time.monotonic()
        limit_s = _PATIENCE * appends * asked.rows / asked.steps_per_second + 1
        in_time, elapsed_s = crowd.run(asked.steps_per_second, limit_s, self._runs, latencies, late)
        lasted_s = time.monotonic() - since_s
        shares = [(now - then) / lasted_s
                  for now, then in zip(_scheduled_s(), before_s, strict=True)]  # fmt: skip
        return Acted(
            latencies.reshape(actors, appends) / 1e3, float(np.median(late)) / 1e3,
            in_time, elapsed_s, crowd.rows_stored - stored, *shares,
        )  # fmt: skip

    def shut(self) -> None:
        """Ends the sessions."""
        self._crowd = self._session = None


def _scheduled_s() -> list[float]:
    """How long this thread ran, and was ready without a core. Source: proc(5), schedstat."""
    ran, delayed, _ = Path("/proc/thread-self/schedstat").read_text("ascii").split()
    return [int(ran) / 1e9, int(delayed) / 1e9]


class Learner:
    """Samples batches and updates their priorities, without computing between the two."""

    def open(self, address: str, poll: str, asked: Asked) -> None:
        """Fills the table, once round: memory that was never written is not there yet."""
        self._client: Client | None = Client(address, name="filler")
        shape, spec = SHAPES[asked.shape], asked.spec
        table = self._client.table(
            TABLE, columns=shape.columns, item=shape.item, capacity=asked.capacity
        )
        row = {
            name: np.ones((_FILL_STREAMS, *column.shape), column.dtype)
            for name, column in shape.columns.items()
        }
        fill(table, row, asked.capacity)
        self._session: Session | None = Session(address, "learner", _TIMEOUT_S, poll)
        self._replay: InNetworkReplay | None = InNetworkReplay(
            self._session, self._session.open_table(spec), spec
        )
        self._out = np.zeros(bytes_of(spec, asked.batch), np.uint8)
        self._batch = asked.batch

    def learn(self, seconds: float) -> NDArray[np.float64]:
        """What each cycle of that time took, us."""
        assert self._replay is not None
        goes, left_s, end_s = [], seconds, time.monotonic() + seconds
        while left_s > 0:
            latencies = np.zeros(_MOST_CYCLES, np.uint64)
            count = self._replay.cycles(self._batch, self._out, latencies, left_s)
            goes.append(latencies[:count] / 1e3)
            left_s = end_s - time.monotonic()
        return np.concatenate(goes)

    def server(self) -> dict[str, float]:
        """The server's figures that are asked for here, by name."""
        assert self._client is not None
        reading: dict[str, Any] = dict(self._client.stats())
        return {name: float(reading[name]) for name in (STORED, BUSY, RESIDENT, "server.clients")}

    def shut(self) -> None:
        """Ends the sessions."""
        self._replay = self._session = None
        if self._client is not None:
            self._client.close()
        self._client = None
