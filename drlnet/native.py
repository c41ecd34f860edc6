"""The native core as Python sees it. The only importer of the extension."""

from __future__ import annotations

try:
    from drlnet._native import (
        BareClient,
        BareServer,
        BatchLayout,
        BulkReceiver,
        BulkSender,
        Client,
        FullTable,
        HistogramReading,
        InNetworkReplay,
        LiveSampler,
        LocalReplay,
        Replay,
        RingPair,
        SampleStream,
        Server,
        StoreReplay,
        StreamWriter,
        TableSpec,
        check_sampler,
        is_loopback,
        kernel_names,
        measure_appends,
        measure_copies,
        measure_fetches,
        measure_pings,
        measure_reads,
        measure_samples,
        measure_streamed_samples,
        measure_updates,
        sampler_names,
        transport_names,
    )
except ImportError as error:
    raise ImportError(
        "drlnet's native extension is not built for this Python "
        f"({error}); install the package: pip install ."
    ) from error

__all__ = [
    "BareClient",
    "BareServer",
    "BatchLayout",
    "BulkReceiver",
    "BulkSender",
    "Client",
    "FullTable",
    "HistogramReading",
    "InNetworkReplay",
    "LiveSampler",
    "LocalReplay",
    "Replay",
    "RingPair",
    "SampleStream",
    "Server",
    "StoreReplay",
    "StreamWriter",
    "TableSpec",
    "check_sampler",
    "is_loopback",
    "kernel_names",
    "measure_appends",
    "measure_copies",
    "measure_fetches",
    "measure_pings",
    "measure_reads",
    "measure_samples",
    "measure_streamed_samples",
    "measure_updates",
    "sampler_names",
    "transport_names",
]
