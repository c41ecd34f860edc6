"""The replay server: one native poll loop, until it is asked to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drlnet import __version__, native
from drlnet.config import ServerConfig
from drlnet.config.endpoint import Endpoint
from drlnet.roles.stop import Stop

OnReady = Callable[[list[str], str | None], None]


def serve(config: ServerConfig, on_ready: OnReady, stop: Stop) -> None:
    """Serves until `stop` is set. on_ready gets the addresses, their ports resolved, and the URL of
    the metrics where they are served.

    Does not import torch: it is start-up time and memory for nothing.
    Errors: TransportError for an address that cannot be listened on; what ends the loop itself.
    """
    server = native.Server(
        list(config.listen),
        poll=config.poll,
        sampler=config.sampler or "",
        sampler_options=config.sampler_options,
        version=__version__,
    )
    failures: list[BaseException] = []

    def loop() -> None:
        try:
            server.run()
        except BaseException as error:
            failures.append(error)  # the caller's thread raises it
        finally:
            stop.set()

    # The loop never returns to the interpreter, and handlers of signals run in the main thread
    # only: it stays free for them. (Blocking signals there would not do: threads of libraries
    # have masks of their own, and the kernel may choose any of them.)
    thread = threading.Thread(target=loop, name="server")
    thread.start()
    try:
        with _metrics(config, server) as url:
            on_ready(list(server.addresses), url)
            stop.wait()
    finally:
        server.stop()
        thread.join()
    if failures:
        raise failures[0]


@contextmanager
def _metrics(config: ServerConfig, server: native.Server) -> Iterator[str | None]:
    """Serves the server's readings while it runs; the URL, or None when nobody wants them."""
    if config.metrics is None:
        yield None
        return
    from drlnet.metrics.prometheus import Exporter

    with Exporter(Endpoint.parse(config.metrics), server.stats) as exporter:
        yield exporter.url
