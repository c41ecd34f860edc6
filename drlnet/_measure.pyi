"""Types of the benchmarks' extension module (native/bindings/measure)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drlnet._native import TableSpec

# Every loop fills latencies [calls] in nanoseconds until budget_s has passed: how many there are.
_Latencies = NDArray[np.uint64]
_Bytes = NDArray[np.uint8]

class Session:
    shards: int
    def __init__(
        self, address: str, name: str, timeout_s: float, poll: str, key: bytes = b""
    ) -> None: ...
    def open_table(self, spec: TableSpec) -> int: ...
    def fill(self, table: int, spec: TableSpec, rows: int) -> None: ...
    def publish(self, params: bytes) -> int: ...
    def counters(self) -> dict[str, float]: ...  # the server's; of a histogram its count
    def pings(self, payload_bytes: int, latencies_ns: _Latencies, budget_s: float) -> int: ...
    def reads(
        self,
        table: int,
        keys: NDArray[np.uint64],
        to: _Bytes,
        latencies_ns: _Latencies,
        budget_s: float,
    ) -> int: ...
    def samples(
        self, table: int, batch: int, to: _Bytes, latencies_ns: _Latencies, budget_s: float
    ) -> int: ...
    def updates(
        self,
        table: int,
        keys: NDArray[np.uint64],
        priorities: NDArray[np.float32],
        latencies_ns: _Latencies,
        budget_s: float,
    ) -> int: ...
    def fetches(self, latencies_ns: _Latencies, budget_s: float) -> int: ...
    def streamed_appends(
        self, table: int, spec: TableSpec, rows: int, latencies_ns: _Latencies, budget_s: float
    ) -> int: ...
    def streamed_samples(
        self,
        table: int,
        batch: int,
        buffers: Sequence[_Bytes],
        latencies_ns: _Latencies,
        budget_s: float,
    ) -> int: ...

class OpenLoop:
    def __init__(self, address: str, poll: str, loss: float, delay_s: float) -> None: ...
    def ping(self, payload_bytes: int) -> None: ...
    def append(self, session: Session, table: int, row: _Bytes) -> None: ...
    def sample(self, table: int, batch: int, reply_bytes: int) -> None: ...
    # (answered, elapsed_s)
    def run(
        self,
        per_second: float,
        limit_s: float,
        seed: int,
        latencies_ns: _Latencies,
        late_ns: _Latencies,
    ) -> tuple[int, float]: ...

class Flood:
    def __init__(self, address: str, kind: str, ports: int) -> None: ...
    # frames that went out
    def run(self, seconds: float) -> int: ...

class Crowd:
    rows_stored: int
    items_created: int
    def __init__(self, address: str, table: int, spec: TableSpec, rows: int) -> None: ...
    def grow(self, sessions: int) -> None: ...
    # latencies_ns, late_ns: [sessions, appends]; (answered in time, elapsed_s)
    def run(
        self,
        steps_per_second: float,
        limit_s: float,
        seed: int,
        latencies_ns: _Latencies,
        late_ns: _Latencies,
    ) -> tuple[int, float]: ...

class Appender:
    def __init__(self, session: Session, table: int, spec: TableSpec) -> None: ...
    def appends(self, row: _Bytes, latencies_ns: _Latencies, budget_s: float) -> int: ...
    def paced_appends(
        self,
        row: _Bytes,
        interval_s: float,
        since_due_ns: _Latencies,
        latencies_ns: _Latencies,
        budget_s: float,
    ) -> int: ...

class Replay:
    def sample(self, batch: int, out: _Bytes) -> None: ...
    def update(self, keys: NDArray[np.uint64], priorities: NDArray[np.float32]) -> None: ...
    def samples(
        self, batch: int, out: _Bytes, latencies_ns: _Latencies, budget_s: float
    ) -> int: ...
    def cycles(self, batch: int, out: _Bytes, latencies_ns: _Latencies, budget_s: float) -> int: ...

class InNetworkReplay(Replay):
    def __init__(self, session: Session, table: int, spec: TableSpec) -> None: ...

class MirroredReplay(Replay):
    def __init__(self, session: Session, name: str, poll: str, spec: TableSpec) -> None: ...

class StoreReplay(Replay):
    def __init__(self, session: Session, table: int, spec: TableSpec) -> None: ...

class LocalReplay(Replay):
    address: str
    session: Session
    table: int
    def __init__(self, listen: str, poll: str, spec: TableSpec, core: int | None) -> None: ...

class LiveSampler:
    def __init__(
        self,
        name: str,
        exponent: float,
        floor: float,
        options: dict[str, float],
        priorities: NDArray[np.float32],
        seed: int,
    ) -> None: ...
    def draws(self, batch: int, latencies_ns: _Latencies, budget_s: float) -> int: ...
    def updates(self, batch: int, latencies_ns: _Latencies, budget_s: float) -> int: ...

def copies(
    row_bytes: int, rows: int, batch: int, latencies_ns: _Latencies, budget_s: float
) -> int: ...
def gathers(spec: TableSpec, batch: int, latencies_ns: _Latencies, budget_s: float) -> int: ...
def udp_transfers(
    core: int | None, poll: str, bytes: int, latencies_ns: _Latencies, budget_s: float
) -> int: ...
def handovers(core: int, size: int, latencies_ns: _Latencies, budget_s: float) -> int: ...
def core_round_trip_ns(core: int) -> int | None: ...
def kernel_names() -> list[str]: ...
