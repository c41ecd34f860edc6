"""What benchmarks time in native code. The only importer of their extension module."""

from __future__ import annotations

from drlnet.errors import ConfigError

try:
    from drlnet._measure import *  # noqa: F403
except ImportError as error:
    raise ConfigError(
        f"this drlnet was built without its benchmarks ({error})",
        "install it with them: pip install --force-reinstall --no-deps .",
    ) from error
