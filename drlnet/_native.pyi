"""Types of the extension module (native/bindings)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

build_commit: str | None  # of the checkout that it was built from
max_request_bytes: int
most_items: int  # of a batch
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

class TableDescription(TypedDict):
    columns: dict[str, tuple[str, list[int]]]  # dtype, shape
    views: dict[str, tuple[str, int, int, bool, bool]]  # column, lo, hi, pad_zero, from_end
    cross: bool
    period: int
    samples_per_insert: float

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
    def numbered(self, apart: Sequence[bool]) -> TableSpec: ...
    def describe(self) -> TableDescription: ...
    def layout(self, n: int) -> dict[str, object]: ...

class Server:
    addresses: list[str]
    state_notes: list[str]
    state_trouble: str
    def __init__(
        self,
        listen: Sequence[str],
        poll: str = "adaptive",
        memory_bytes: int = 0,
        sampler: str = "",
        sampler_options: Mapping[str, float] = ...,
        version: str = "",
        index_only: bool = False,
        limits: Mapping[str, int] = ...,
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
        index_only: bool = False,
        state: str = "",
        durability_s: float = 1.0,
        read_state_only: bool = False,
        limits: Mapping[str, int] = ...,
        keys: Sequence[bytes] = (),
        elsewhere: int = 0,
        joins: Client | None = None,
        on_loading: Callable[[str], bool] | None = None,
    ) -> list[Server]: ...
    @staticmethod
    def limits() -> list[tuple[str, int, int, str]]: ...  # name, default, highest, of what
    def tell(self, client: Client) -> None: ...
    lost_shards: list[tuple[int, str]]
    def run(self) -> None: ...
    def stop(self) -> None: ...
    def set_keys(self, keys: Sequence[bytes]) -> None: ...
    def poll_once(self) -> bool: ...
    def stats(self) -> Metrics: ...

class SavedShard(TypedDict):
    record: int
    params_version: int
    tables: list[dict[str, Any]]  # name, capacity, rows, items, env_steps
    notes: list[str]

class SavedState(TypedDict):
    lineage: int
    incarnation: int
    shards: list[SavedShard]

def read_state(path: str) -> SavedState: ...

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
    def align_views(self, memory: NDArray[np.uint8]) -> tuple[int, int, int, int, int, float]: ...

class BatchStream:
    def next(self, timeout_s: float) -> int: ...

class Mirror:
    def sample(self, layout: BatchLayout, memory: NDArray[np.uint8], timeout_s: float) -> None: ...
    def stream(self, layout: BatchLayout, buffers: Sequence[NDArray[np.uint8]]) -> BatchStream: ...
    places: int
    def copy_apart(self, to: Sequence[NDArray[np.uint8]]) -> tuple[int, int]: ...
    def has_shown(self, let_go: bool) -> bool: ...
    def stats(self) -> dict[str, int | float]: ...

class Client:
    shards: int
    def __init__(
        self,
        address: str,
        name: str,
        timeout_s: float,
        poll: str,
        key: bytes = b"",
        patient: bool = False,
    ) -> None: ...
    @staticmethod
    def in_process(server: Server, name: str, timeout_s: float) -> Client: ...
    @staticmethod
    def of_first_shard(address: str, name: str, timeout_s: float, key: bytes = b"") -> Client: ...
    def set_timeout(self, timeout_s: float) -> None: ...
    def ping_us(self, payload_bytes: int) -> float: ...
    def open_table(self, spec: TableSpec) -> int: ...
    def list_tables(self) -> list[TableSpec]: ...
    def empty_table(self, table: int) -> None: ...
    def drop_table(self, table: int) -> None: ...
    def writer(
        self,
        table: int,
        spec: TableSpec,
        streams: int,
        resume: Sequence[Lease],
        flush_rows: int,
        flush_interval_s: float,
        timeout_s: float,
        held: Callable[[float], None] | None,
    ) -> StreamWriter: ...
    def sample(
        self,
        table: int,
        layout: BatchLayout,
        memory: NDArray[np.uint8],
        timeout_s: float,
    ) -> None: ...
    def stream(
        self, table: int, layout: BatchLayout, buffers: Sequence[NDArray[np.uint8]]
    ) -> BatchStream: ...
    def mirror(self, spec: TableSpec, rank: int, world: int, apart: Sequence[bool]) -> Mirror: ...
    def read_items(
        self,
        table: int,
        shard: int,
        layout: BatchLayout,
        keys: NDArray[np.uint64],
        memory: NDArray[np.uint8],
        timeout_s: float,
    ) -> None: ...
    def new_priorities(
        self, table: int, shard: int, since: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.float32], int, int, bool]: ...
    def ask(self, question: bytes, patience_s: float) -> bytes: ...
    def answer(
        self, answers: list[tuple[int, int, bytes]], begins: bool, at_once: bool
    ) -> tuple[list[int], list[tuple[int, int, bytes]]]: ...
    def update_priorities(
        self,
        table: int,
        keys: NDArray[np.uint64],
        priorities: NDArray[np.float32],
        wait: bool,
    ) -> tuple[int, int]: ...
    def take_over(self) -> None: ...
    def put_blob(self, name: str, blob: bytes) -> int: ...
    def get_blob(self, name: str, newer_than: int) -> tuple[int, bytes]: ...
    def publish(self, params: bytes) -> int: ...
    def fetch(self, newer_than: int) -> tuple[int, bytes]: ...
    def stats(self) -> list[Metrics]: ...  # of each shard
    def own_stats(self) -> list[Metrics]: ...
    def report(self, values: dict[str, int | float | str]) -> None: ...

def transport_names() -> list[str]: ...
def sampler_names() -> list[str]: ...
def public_key(secret: bytes) -> bytes: ...
def operation_names() -> list[str]: ...
def check_sampler(name: str, options: Mapping[str, float]) -> None: ...
def is_loopback(address: str) -> bool: ...
def printable(text: str) -> str: ...  # escapes in place of what steers a terminal
def least_error_buffer(
    samples_per_insert: float, batch: int, prefetch: int, append_burst: int
) -> float: ...
def may_sample(
    min_size: int, samples_per_insert: float, created: int, drawn: int, batch: int
) -> bool: ...
def shard_address(address: str, shard: int) -> str: ...

class NStepErrors:
    def __init__(self, streams: int, n: int, gamma: float, reward_clip: float | None) -> None: ...
    def push(
        self,
        reward: NDArray[np.float32],
        discount: NDArray[np.float32],
        action: NDArray[np.int32],
        q: NDArray[np.float32],
        last: NDArray[np.bool_],
        steps: NDArray[np.int64],
        mask: NDArray[np.bool_] | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]: ...
