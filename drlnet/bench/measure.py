"""What benchmarks time in native code. The only importer of their extension module."""

from __future__ import annotations

try:
    from drlnet._measure import *  # noqa: F403
except ImportError as error:
    raise ImportError(
        f"drlnet is built without its benchmarks ({error}); install the package without "
        "-DDRLNET_MEASURE=OFF: pip install ."
    ) from error
