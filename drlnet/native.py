"""The native core as Python sees it. The only importer of the extension."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

try:
    from drlnet._native import (
        BatchLayout,
        BatchStream,
        Client,
        HistogramReading,
        Mirror,
        NStepErrors,
        Server,
        StreamWriter,
        TableSpec,
        build_commit,
        check_sampler,
        importance_weights,
        is_loopback,
        least_error_buffer,
        max_request_bytes,
        may_sample,
        most_items,
        operation_names,
        printable,
        public_key,
        read_state,
        sampler_names,
        shard_address,
        transport_names,
    )
except ImportError as error:
    _here = Path(__file__).parent
    _packages = [str(Path(entry, _here.name)) for entry in sys.path]
    _found = PathFinder.find_spec("drlnet._native", _packages)
    if _found is not None and _found.origin and Path(_found.origin).parent != _here:
        raise ImportError(
            f"the folder {_here} hides the drlnet that is installed in {Path(_found.origin).parent}"
            "; start Python in another folder, or install this one in place: pip install -e ."
        ) from error
    raise ImportError(
        "drlnet's native extension is not built for this Python "
        f"({error}); install the package: pip install ."
    ) from error

__all__ = [
    "BatchLayout",
    "BatchStream",
    "Client",
    "HistogramReading",
    "Mirror",
    "NStepErrors",
    "Server",
    "StreamWriter",
    "TableSpec",
    "build_commit",
    "check_sampler",
    "importance_weights",
    "is_loopback",
    "least_error_buffer",
    "max_request_bytes",
    "may_sample",
    "most_items",
    "operation_names",
    "printable",
    "public_key",
    "read_state",
    "sampler_names",
    "shard_address",
    "transport_names",
]
