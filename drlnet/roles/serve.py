"""The replay server: native poll loops, one for each shard, until they are asked to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from drlnet import __version__, native
from drlnet.config import ServerConfig
from drlnet.config.endpoint import Endpoint
from drlnet.config.keys import server_keys
from drlnet.errors import ConfigError
from drlnet.roles.stop import Stop

_LOOK_INTERVAL_S = 1.0

OnReady = Callable[[list[str], str | None], None]


def serve(config: ServerConfig, on_ready: OnReady, stop: Stop, note: Callable[[str], None]) -> None:
    """Serves until `stop` is set. on_ready gets the addresses (the first shard's), their ports
    resolved, and the URL of the metrics where they are served. note gets lines for people: what of
    the state is damaged, what its disk refuses, that its keys were replaced.

    Does not import torch: it is start-up time and memory for nothing.
    Errors: TransportError for an address that cannot be listened on; ConfigError for a state that
    cannot be read or written; what ends the loop itself.
    """
    keys = server_keys()
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
    )
    for server in servers:
        for line in server.state_notes:
            note(f"warning: the state is damaged: {line}")
    with looping(servers, on_end=stop.set), _metrics(config, servers) as url:
        on_ready(list(servers[0].addresses), url)
        _wait(servers, keys, stop, note)


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


def _wait(
    servers: list[native.Server], keys: list[bytes], stop: Stop, note: Callable[[str], None]
) -> None:
    """Until `stop` is set; takes keys that have been replaced, and tells when it does, and when a
    disk begins to refuse the state or takes it again."""
    told = wrong = ""
    while not stop.wait(_LOOK_INTERVAL_S):
        if keys:
            keys, wrong = _renewed(servers, keys, wrong, note)
        trouble = next((text for text in (one.state_trouble for one in servers) if text), "")
        if trouble != told:
            cause, _, remedy = trouble.partition("\n")
            note(
                f"warning: appends wait: {cause}\n  try: {remedy}"
                if trouble
                else "the disk takes it"
            )
        told = trouble


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
