"""The process that offers load: an open loop over one session, step by step (native/measure)."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.measure import LocalReplay, OpenLoop, Session
from drlnet.client import Column, Item, Limiter, Sampler, View
from drlnet.client.specs import native_spec

Op = Literal["append", "sample", "ping"]
MEMORY = "memory"  # instead of an address: the server is a thread of this process
EDGES_US = np.geomspace(0.1, 1e8, 9 * 32 + 1)  # of histograms: 32 buckets per power of ten
_ROWS = 4096
_LEAST = 20  # requests of a step
_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Asked:
    """What is requested, and over which link. loss, delay_us: of each frame, each way."""

    op: Op = "append"
    payload: int = 64  # bytes of a ping, or of a row
    batch: int = 32  # rows of a sample
    loss: float = 0.0
    delay_us: float = 0.0
    beside: str = ""  # what floods the server meanwhile

    @property
    def words(self) -> str:
        rows = f"{self.batch} rows of " if self.op == "sample" else ""
        loss = f", loss {self.loss:g}" if self.loss else ""
        delay = f", delay {self.delay_us:g} us" if self.delay_us else ""
        return f"{rows}{self.payload} B{loss}{delay}"


@dataclass(frozen=True)
class Step:
    """One load, offered for a while, in requests per second.

    figures: per_second, that were answered; p50_us, p90_us, p99_us, p999_us and mean_us, since
    requests were due; late_us, how long after that the median request left; for client and server
    (where it is of this machine) cpu_us, and switches of context, per request.
    """

    offered: float
    figures: dict[str, float]
    counts: NDArray[np.int64]  # of latencies, between EDGES_US


class Generator:
    """A client that offers load to one server. Called from another process (Worker)."""

    def open(
        self, address: str, poll: str, asked: Asked, server: int | None, core: int | None
    ) -> None:
        """Connects, and fills a table. server: its process, where it is of this machine.

        core: of the server's thread, where the address is MEMORY.
        """
        item, columns = Item({"row": View("row")}), {"row": Column("uint8", (asked.payload,))}
        spec = native_spec("load", columns, item, _ROWS, Sampler(), Limiter(), seed=0)
        self._server, self._steps = server, 0
        self._replay: LocalReplay | None = None
        if address == MEMORY:
            self._replay = LocalReplay("memory:", poll, spec, core)
            address, self._server = self._replay.address, os.getpid()
        self._load: OpenLoop | None = OpenLoop(address, poll, asked.loss, asked.delay_us / 1e6)
        if asked.op == "ping":
            self._load.ping(asked.payload)
            return
        session = Session(address, "load", _TIMEOUT_S, poll)
        table = session.open_table(spec)
        session.fill(table, spec, _ROWS)
        if asked.op == "append":
            self._load.append(session, table, np.ones(asked.payload, np.uint8))
        else:
            layout: dict[str, Any] = spec.layout(asked.batch)
            self._load.sample(table, asked.batch, layout["total_bytes"])

    def step(self, per_second: float, seconds: float) -> Step:
        """Offers that load."""
        assert self._load is not None
        count = max(_LEAST, round(per_second * seconds))
        latencies, late = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        limit_s = 2 * count / per_second + 1
        self._steps += 1  # each has a schedule of its own
        before = self._usage()
        answered, elapsed_s = self._load.run(per_second, limit_s, self._steps, latencies, late)
        usage = {
            name: (after - before[name]) / max(1, answered) for name, after in self._usage().items()
        }
        us, shares = latencies / 1e3, {"p50_us": 50, "p90_us": 90, "p99_us": 99, "p999_us": 99.9}
        figures = {
            "per_second": answered / max(elapsed_s, answered / per_second),
            **{name: float(np.percentile(us, share)) for name, share in shares.items()},
            "mean_us": float(us.mean()),
            "late_us": float(np.median(late)) / 1e3,
            **usage,
        }
        return Step(per_second, figures, np.histogram(us, EDGES_US)[0])

    def shut(self) -> None:
        """Ends the sessions."""
        self._load = self._replay = None

    def _usage(self) -> dict[str, float]:
        """Reads those of this process and the server's, or of this thread and the others."""
        ours, theirs = list(Path("/proc/self/task").iterdir()), []
        if self._server == os.getpid():
            own = str(threading.get_native_id())
            theirs = [thread for thread in ours if thread.name != own]
            ours = [thread for thread in ours if thread.name == own]
        elif self._server is not None:
            theirs = list(Path(f"/proc/{self._server}/task").iterdir())
        return {**_taken("client", ours), **_taken("server", theirs)}


def _taken(side: str, threads: list[Path]) -> dict[str, float]:
    """What threads took until now. Source: proc(5), schedstat and status; empty of none."""
    if not threads:
        return {}
    ran_ns = sum(int((thread / "schedstat").read_text("ascii").split()[0]) for thread in threads)
    words = " ".join((thread / "status").read_text("utf-8", "replace") for thread in threads)
    switches = sum(int(part.split()[0]) for part in words.split("_ctxt_switches:")[1:])
    return {f"{side}_cpu_us": ran_ns / 1e3, f"{side}_switches": switches}
