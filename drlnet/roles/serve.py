"""The replay server: native poll loops, one for each shard, until they are asked to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from drlnet import __version__, native
from drlnet.config import ServerConfig
from drlnet.config.endpoint import Endpoint
from drlnet.roles.stop import Stop

OnReady = Callable[[list[str], str | None], None]


def serve(config: ServerConfig, on_ready: OnReady, stop: Stop) -> None:
    """Serves until `stop` is set. on_ready gets the addresses (the first shard's), their ports
    resolved, and the URL of the metrics where they are served.

    Does not import torch: it is start-up time and memory for nothing.
    Errors: TransportError for an address that cannot be listened on; what ends the loop itself.
    """
    servers = native.Server.shards(
        list(config.listen),
        config.shards,
        poll=config.poll,
        sampler=config.sampler or "",
        sampler_options=config.sampler_options,
        version=__version__,
        index_only=config.index_only,
    )
    failures: list[BaseException] = []

    def loop(server: native.Server) -> None:
        try:
            server.run()
        except BaseException as error:
            failures.append(error)  # the caller's thread raises it
        finally:
            stop.set()

    # The loop never returns to the interpreter, and handlers of signals run in the main thread
    # only: it stays free for them. (Blocking signals there would not do: threads of libraries
    # have masks of their own, and the kernel may choose any of them.)
    threads = [threading.Thread(target=loop, args=[one], name="server") for one in servers]
    for thread in threads:
        thread.start()
    try:
        with _metrics(config, servers) as url:
            on_ready(list(servers[0].addresses), url)
            stop.wait()
    finally:
        for server in servers:
            server.stop()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


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
