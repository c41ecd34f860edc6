"""Types of the extension module (native/bindings)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Lease = tuple[int, int, int, int]  # ordinal, epoch, token, next_step

class HistogramReading:
    count: int
    max_us: float
    mean_us: float
    buckets: list[tuple[float, int]]
    def percentile_us(self, q: float) -> float: ...
    def since(self, earlier: HistogramReading) -> HistogramReading: ...
    def merged(self, other: HistogramReading) -> HistogramReading: ...

Metrics = dict[str, int | float | str | HistogramReading]

class TableSpec:
    name: str
    capacity: int
    seed: int
    def __init__(self) -> None: ...
    def add_column(self, name: str, dtype: str, shape: Sequence[int]) -> None: ...
    def add_view(
        self, name: str, column: int, lo: int, hi: int, pad_zero: bool, from_end: bool
    ) -> None: ...
    def set_item(self, cross: bool, period: int) -> None: ...
    def set_sampler(
        self, name: str, exponent: float, floor: float, options: dict[str, float]
    ) -> None: ...
    def set_limiter(
        self,
        min_size: int,
        samples_per_insert: float,
        error_buffer: float,
        batch: int,
        prefetch: int,
        append_burst: int,
        max_times_sampled: int,
    ) -> None: ...
    def check(self) -> None: ...
    def layout(self, n: int) -> dict[str, object]: ...

class Server:
    addresses: list[str]
    def __init__(
        self,
        listen: Sequence[str],
        poll: str = "adaptive",
        memory_bytes: int = 0,
        sampler: str = "",
        sampler_options: Mapping[str, float] = ...,
        version: str = "",
    ) -> None: ...
    @staticmethod
    def shards(
        listen: Sequence[str],
        count: int,
        poll: str = "adaptive",
        memory_bytes: int = 0,
        sampler: str = "",
        sampler_options: Mapping[str, float] = ...,
        version: str = "",
    ) -> list[Server]: ...
    def run(self) -> None: ...
    def stop(self) -> None: ...
    def poll_once(self) -> bool: ...
    def stats(self) -> Metrics: ...

class StreamWriter:
    leases: list[Lease]
    rows_stored: int
    items_created: int
    items_refused: int
    def append(
        self,
        columns: Sequence[NDArray[Any]],
        first: NDArray[np.bool_],
        last: NDArray[np.bool_],
        mask: NDArray[np.bool_],
        steps: NDArray[np.int64],
    ) -> None: ...
    def add_items(
        self,
        streams: NDArray[np.int64],
        steps: NDArray[np.int64],
        priorities: NDArray[np.float32],
    ) -> None: ...
    def flush(self) -> None: ...
    def release(self) -> None: ...

def importance_weights(
    probabilities: NDArray[np.float32], exponent: float, weights: NDArray[np.float32]
) -> None: ...

class BatchLayout:
    memory_bytes: int
    keys: int
    probabilities: int
    lengths: int
    views: list[tuple[int, int]]
    def __init__(self, spec: TableSpec, n: int) -> None: ...
    def settle(self, memory: NDArray[np.uint8]) -> tuple[int, int, int, int, int, float]: ...

class SampleStream:
    def next(self, timeout_s: float) -> int: ...

class ShardedStream:
    def next(self, timeout_s: float) -> int: ...

class ShardedTable:
    first_shard: int
    def __init__(self, shards: Sequence[Client], spec: TableSpec) -> None: ...
    def number(self, shard: int) -> int: ...
    def sample(self, layout: BatchLayout, memory: NDArray[np.uint8], timeout_s: float) -> None: ...
    def stream(
        self, layout: BatchLayout, buffers: Sequence[NDArray[np.uint8]]
    ) -> ShardedStream: ...
    def update_priorities(
        self, keys: NDArray[np.uint64], priorities: NDArray[np.float32], wait: bool
    ) -> tuple[int, int]: ...

class Client:
    boot: int
    shard: int
    shards: int
    def __init__(self, address: str, name: str, timeout_s: float, poll: str) -> None: ...
    @staticmethod
    def in_process(server: Server, name: str, timeout_s: float) -> Client: ...
    def set_timeout(self, timeout_s: float) -> None: ...
    def ping_us(self, payload_bytes: int) -> float: ...
    def open_table(self, spec: TableSpec) -> int: ...
    def writer(
        self,
        table: int,
        spec: TableSpec,
        streams: int,
        resume: Sequence[Lease],
        flush_rows: int,
        flush_interval_s: float,
        timeout_s: float,
    ) -> StreamWriter: ...
    def sample(
        self,
        table: int,
        batch: int | BatchLayout,
        destination: NDArray[np.uint8],
        timeout_s: float,
    ) -> None: ...
    def stream(
        self, table: int, layout: BatchLayout, buffers: Sequence[NDArray[np.uint8]]
    ) -> SampleStream: ...
    def read_items(
        self,
        table: int,
        layout: BatchLayout,
        keys: NDArray[np.uint64],
        memory: NDArray[np.uint8],
        timeout_s: float,
    ) -> None: ...
    def new_priorities(
        self, table: int, since: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.float32], int, int, bool]: ...
    def update_priorities(
        self,
        table: int,
        keys: NDArray[np.uint64],
        priorities: NDArray[np.float32],
        wait: bool,
    ) -> tuple[int, int]: ...
    def publish(self, params: bytes) -> int: ...
    def fetch(self, newer_than: int) -> tuple[int, bytes]: ...
    def stats(self) -> Metrics: ...
    def own_stats(self) -> Metrics: ...
    def report(self, values: dict[str, int | float | str]) -> None: ...

class RingPair:
    def __init__(self, fd: int) -> None: ...
    @staticmethod
    def file_bytes() -> int: ...
    def echo(self, for_s: float) -> int: ...
    def pings(
        self, payload_bytes: int, latencies_ns: NDArray[np.uint64], budget_s: float
    ) -> int: ...

class UdpSender:
    port: int
    def __init__(self, poll: str, row_bytes: int = 0, rows: int = 0) -> None: ...
    def serve(self, for_s: float) -> int: ...

class UdpReceiver:
    def __init__(self, port: int, poll: str) -> None: ...
    def transfers(self, bytes: int, latencies_ns: NDArray[np.uint64], budget_s: float) -> int: ...

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
    def draws(self, batch: int, latencies_ns: NDArray[np.uint64], budget_s: float) -> int: ...
    def updates(self, batch: int, latencies_ns: NDArray[np.uint64], budget_s: float) -> int: ...

class FullTable:
    def __init__(self, spec: TableSpec) -> None: ...
    def samples(self, batch: int, latencies_ns: NDArray[np.uint64], budget_s: float) -> int: ...

class Replay:
    expired: int
    def sample(self, batch: int, out: NDArray[np.uint8]) -> None: ...
    def update(self, keys: NDArray[np.uint64], priorities: NDArray[np.float32]) -> None: ...
    def samples(
        self, batch: int, out: NDArray[np.uint8], latencies_ns: NDArray[np.uint64], budget_s: float
    ) -> int: ...
    def cycles(
        self, batch: int, out: NDArray[np.uint8], latencies_ns: NDArray[np.uint64], budget_s: float
    ) -> int: ...

class InNetworkReplay(Replay):
    def __init__(self, client: Client, table: int, spec: TableSpec) -> None: ...

class StoreReplay(Replay):
    def __init__(self, client: Client, table: int, spec: TableSpec) -> None: ...

class LocalReplay(Replay):
    def __init__(self, server: Server, spec: TableSpec) -> None: ...

class FrameSender:
    address: str
    def __init__(self, address: str, poll: str) -> None: ...
    def serve(self, for_s: float) -> int: ...

class FrameReceiver:
    def __init__(self, address: str, poll: str) -> None: ...
    def transfers(self, size: int, latencies_ns: NDArray[np.uint64], budget_s: float) -> int: ...

def measure_pings(
    client: Client, payload_bytes: int, latencies_ns: NDArray[np.uint64], budget_s: float
) -> int: ...
def measure_appends(
    writer: StreamWriter,
    row: NDArray[np.uint8],
    latencies_ns: NDArray[np.uint64],
    budget_s: float,
    interval_s: float = 0.0,
) -> int: ...
def measure_reads(
    client: Client,
    table: int,
    keys: NDArray[np.uint64],
    destination: NDArray[np.uint8],
    latencies_ns: NDArray[np.uint64],
    budget_s: float,
) -> int: ...
def measure_samples(
    client: Client,
    table: int,
    batch: int,
    destination: NDArray[np.uint8],
    latencies_ns: NDArray[np.uint64],
    budget_s: float,
) -> int: ...
def measure_updates(
    client: Client,
    table: int,
    keys: NDArray[np.uint64],
    priorities: NDArray[np.float32],
    latencies_ns: NDArray[np.uint64],
    budget_s: float,
) -> int: ...
def measure_fetches(client: Client, latencies_ns: NDArray[np.uint64], budget_s: float) -> int: ...
def measure_streamed_samples(
    client: Client,
    table: int,
    batch: int,
    buffers: Sequence[NDArray[np.uint8]],
    latencies_ns: NDArray[np.uint64],
    budget_s: float,
) -> int: ...
def measure_copies(
    row_bytes: int, rows: int, batch: int, latencies_ns: NDArray[np.uint64], budget_s: float
) -> int: ...
def core_round_trip_ns(core: int) -> int | None: ...
def kernel_names() -> list[str]: ...
def transport_names() -> list[str]: ...
def sampler_names() -> list[str]: ...
def check_sampler(name: str, options: Mapping[str, float]) -> None: ...
def is_loopback(address: str) -> bool: ...
def shard_address(address: str, shard: int) -> str: ...
