"""What benchmarks time in native code. The only importer of their extension module."""

from __future__ import annotations

try:
    from drlnet._measure import (
        Appender,
        FrameReceiver,
        FrameSender,
        FullTable,
        InNetworkReplay,
        LiveSampler,
        LocalReplay,
        Replay,
        RingPair,
        Session,
        StoreReplay,
        UdpReceiver,
        UdpSender,
        copies,
        core_round_trip_ns,
        kernel_names,
    )
except ImportError as error:
    raise ImportError(
        f"drlnet is built without its benchmarks ({error}); install the package without "
        "-DDRLNET_MEASURE=OFF: pip install ."
    ) from error

__all__ = [
    "Appender",
    "FrameReceiver",
    "FrameSender",
    "FullTable",
    "InNetworkReplay",
    "LiveSampler",
    "LocalReplay",
    "Replay",
    "RingPair",
    "Session",
    "StoreReplay",
    "UdpReceiver",
    "UdpSender",
    "copies",
    "core_round_trip_ns",
    "kernel_names",
]
