"""The native core as Python sees it. The only importer of the extension."""

from __future__ import annotations

try:
    from drlnet._native import (
        Client,
        HistogramReading,
        SampleStream,
        Server,
        StreamWriter,
        TableSpec,
        is_loopback,
        sampler_names,
        transport_names,
    )
except ImportError as error:
    raise ImportError(
        "drlnet's native extension is not built for this Python "
        f"({error}); install the package: pip install ."
    ) from error

__all__ = [
    "Client",
    "HistogramReading",
    "SampleStream",
    "Server",
    "StreamWriter",
    "TableSpec",
    "is_loopback",
    "sampler_names",
    "transport_names",
]
