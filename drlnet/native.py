"""The native core as Python sees it. The only importer of the extension."""

from __future__ import annotations

try:
    from drlnet._native import (
        BatchLayout,
        BatchStream,
        Client,
        HistogramReading,
        NStepErrors,
        Server,
        StreamWriter,
        TableSpec,
        build_commit,
        check_sampler,
        importance_weights,
        is_loopback,
        least_error_buffer,
        may_sample,
        operation_names,
        sampler_names,
        shard_address,
        transport_names,
    )
except ImportError as error:
    raise ImportError(
        "drlnet's native extension is not built for this Python "
        f"({error}); install the package: pip install ."
    ) from error

__all__ = [
    "BatchLayout",
    "BatchStream",
    "Client",
    "HistogramReading",
    "NStepErrors",
    "Server",
    "StreamWriter",
    "TableSpec",
    "build_commit",
    "check_sampler",
    "importance_weights",
    "is_loopback",
    "least_error_buffer",
    "may_sample",
    "operation_names",
    "sampler_names",
    "shard_address",
    "transport_names",
]
