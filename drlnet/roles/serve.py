"""The replay server: native poll loops, one for each shard, until they are asked to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from drlnet import __version__, native
from drlnet.config import ServerConfig
from drlnet.config.endpoint import Endpoint
from drlnet.config.keys import joining_key, server_keys
from drlnet.errors import ConfigError, Forbidden
from drlnet.roles.stop import Stop

_LOOK_INTERVAL_S = 1.0
_LOADING_TOLD_S = 1.0, 5.0  # when it is told first that a state is being read, and how often then

OnReady = Callable[[list[str], str | None], None]
OnLost = Callable[[int, str], None]

_TELL_S = 0.05
_ANSWER_S = 5.0  # in which the first shard's process answers: it gives others up after 3 s


def serve(
    config: ServerConfig,
    on_ready: OnReady,
    stop: Stop,
    note: Callable[[str], None],
    on_lost: OnLost = lambda *_: None,
) -> None:
    """Serves until `stop` is set. on_ready gets the addresses (the first shard's), their ports
    resolved, and the URL of the metrics where they are served. note gets lines for people: what of
    the state is damaged, what its disk refuses, that its keys were replaced, how far a large state
    is read. Clients that come meanwhile are told that, too, and `stop` leaves the state as it was.
    on_lost gets each shard of another host that was given up, and where it was.

    Does not import torch: it is start-up time and memory for nothing.
    Errors: TransportError for an address that cannot be listened on; ConfigError for a state that
    cannot be read or written; what ends the loop itself.
    """
    keys, joins = server_keys(), None
    if config.join is not None:
        joins = _join(config.join, keys, stop)
    servers = native.Server.shards(
        list(config.listen),
        config.shards,
        poll=config.poll,
        sampler=config.sampler or "",
        sampler_options=config.sampler_options,
        version=__version__,
        index_only=config.index_only,
        state=config.state or "",
        durability_s=config.durability,
        limits=config.limits,
        keys=keys,
        elsewhere=config.elsewhere,
        joins=joins,
        on_loading=_Loading(stop, note),
    )
    if not servers:  # stopped before the state was read
        return
    _require_reachable(config, servers[0].addresses)
    told = [0] * len(servers)  # lines of each
    _tell_damage(servers, told, note)
    with looping(servers, on_end=stop.set), _metrics(config, servers) as url:
        if joins is not None:
            servers[0].tell(joins)  # now clients find us
        on_ready(list(servers[0].addresses), url)
        if config.join is None or joins is None:
            _wait(servers, keys, stop, note, on_lost, told)
        else:
            _tell(servers, config.join, joins, keys, stop, note)


@contextmanager
def looping(
    servers: list[native.Server], on_end: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Keeps the loops of servers running while the block does, each in a thread; then their states
    are written. on_end: called by a loop that ends, in its thread.

    Raises what has ended a loop.
    """
    failures: list[BaseException] = []

    def loop(server: native.Server) -> None:
        try:
            server.run()
        except BaseException as error:
            failures.append(error)  # the caller's thread raises it
        finally:
            on_end()

    # The loop never returns to the interpreter, and handlers of signals run in the main thread
    # only: it stays free for them. (Blocking signals there would not do: threads of libraries
    # have masks of their own, and the kernel may choose any of them.)
    threads = [threading.Thread(target=loop, args=[one], name="server") for one in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server in servers:
            server.stop()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


class _Loading:
    """Is told often how far a state is read, and tells it to people now and then."""

    def __init__(self, stop: Stop, note: Callable[[str], None]) -> None:
        self._stop, self._note = stop, note
        self._due_s = time.monotonic() + _LOADING_TOLD_S[0]
        self._stopping = self._told = False

    def __call__(self, how_far: str) -> bool:
        """Whether reading is to go on."""
        if self._stopping and not self._told:  # the disk has not answered yet
            self._note("stopping; the state stays as it was")
            self._told = True
        self._stopping = self._stop.is_set()
        if not self._stopping and time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + _LOADING_TOLD_S[1]
            self._note(how_far)
        return not self._stopping


def _wait(
    servers: list[native.Server],
    keys: list[bytes],
    stop: Stop,
    note: Callable[[str], None],
    on_lost: OnLost,
    told_damage: list[int],
) -> None:
    """Until `stop` is set; takes keys that have been replaced, and tells when it does, of shards
    that are lost, of rows that prove damaged as they are read, and when a disk begins to refuse the
    state or takes it again."""
    told, wrong, lost_before = "", "", 0
    while not stop.wait(_LOOK_INTERVAL_S):
        if keys:
            keys, wrong = _renewed(servers, keys, wrong, note)
        _tell_damage(servers, told_damage, note)
        lost = servers[0].lost_shards
        for shard, address in lost[lost_before:]:
            on_lost(shard, address)
        lost_before = len(lost)
        trouble = next((text for text in (one.state_trouble for one in servers) if text), "")
        if trouble != told:
            cause, _, remedy = trouble.partition("\n")
            note(
                f"warning: appends wait: {cause}\n  try: {remedy}"
                if trouble
                else "the disk takes it"
            )
        told = trouble


def _join(address: str, keys: list[bytes], stop: Stop) -> native.Client:
    with stop.interrupts():
        return native.Client.of_first_shard(address, "shard", _ANSWER_S, joining_key(keys))


def _tell(
    servers: list[native.Server],
    address: str,
    joins: native.Client,
    keys: list[bytes],
    stop: Stop,
    note: Callable[[str], None],
) -> None:
    """Tells the first shard's process how these stand, until `stop` is set; takes keys that have
    been replaced, and joins anew by them once that process refuses those that it joined by."""
    wrong, due_s = "", time.monotonic() + _LOOK_INTERVAL_S
    while not stop.wait(_TELL_S):
        if keys and time.monotonic() >= due_s:
            keys, wrong = _renewed(servers, keys, wrong, note)
            due_s = time.monotonic() + _LOOK_INTERVAL_S
        try:
            servers[0].tell(joins)
        except Forbidden:
            keys, wrong = _renewed(servers, keys, wrong, note)
            joins = _join(address, keys, stop)


def _tell_damage(
    servers: list[native.Server], told: list[int], note: Callable[[str], None]
) -> None:
    """Tells what has been found damaged since, and counts in `told` the lines of each server."""
    for i, server in enumerate(servers):
        lines = server.state_notes
        for line in lines[told[i] :]:
            note(f"warning: the state is damaged: {line}")
        told[i] = len(lines)


def _renewed(
    servers: list[native.Server], keys: list[bytes], wrong: str, note: Callable[[str], None]
) -> tuple[list[bytes], str]:
    """The keys in the server's file, which it takes; and why it does not, told unless `wrong`."""
    try:
        found = server_keys()
    except ConfigError as error:  # the former ones hold
        if error.cause != wrong:
            note(f"warning: keys stay as they were: {error.cause}\n  try: {error.remedy}")
        return keys, error.cause
    if found != keys:
        servers[0].set_keys(found)  # the other shards have the same
        note("the keys were replaced")
    return found, ""


def _require_reachable(config: ServerConfig, addresses: list[str]) -> None:
    """Raises ConfigError for shards of another server that no client would find."""
    if config.join is None:
        return
    address = addresses[0]
    if not address.startswith("udp://") or "//0.0.0.0:" in address or "//[::]:" in address:
        raise ConfigError(
            f"--join with --listen {address}: clients on other hosts are told this address",
            "give the one by which they reach this host: --listen udp://ADDRESS:0",
        )


@contextmanager
def _metrics(config: ServerConfig, servers: list[native.Server]) -> Iterator[str | None]:
    """Serves the server's readings while it runs; the URL, or None when none was asked for."""
    if config.metrics is None:
        yield None
        return
    from drlnet.metrics.prometheus import Exporter
    from drlnet.metrics.shards import add_up

    def read() -> dict[str, Any]:
        return add_up([server.stats() for server in servers])

    with Exporter(Endpoint.parse(config.metrics), read) as exporter:
        yield exporter.url
