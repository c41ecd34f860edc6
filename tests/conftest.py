"""Lets the tests meet the installed package, however they are started; says which are slow."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Torch's threads, of the tests and of the commands that they start, would wait for each other in
# loops; on cores that others want too, each turn at a small network then takes a time slice.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# `python -m pytest` puts the checkout first on the path. Without the extension built in place that
# package cannot work, and the installed one is meant, if there is one.
if not any((ROOT / "drlnet").glob("_native*.so")):
    _saved = list(sys.path)
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]
    if importlib.util.find_spec("drlnet") is None:
        sys.path[:] = _saved

# What starts the real commands or measures is slow, but for what is marked `fast`.
SLOW = ("system", "bench")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers, a file at a time each, for the whole suite; named files stay in this process."""
    return 0 if config.option.file_or_dir else 2


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        part = item.path.relative_to(ROOT / "tests").parts[0]
        of_a_slow_part = part in SLOW and not item.get_closest_marker("fast")
        if of_a_slow_part or item.get_closest_marker("exhaustive"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def own_runtime_folder() -> Iterator[None]:
    """Commands find the servers of this process's tests, and no others on this machine."""
    with (
        tempfile.TemporaryDirectory(prefix="drlnet-") as folder,
        pytest.MonkeyPatch.context() as on,
    ):
        on.setenv("XDG_RUNTIME_DIR", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def commands_that_heed_a_hangup() -> Iterator[None]:
    """Also where these tests run under nohup: programs start without a handler of their parent's,
    but with what it ignores."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    yield


@pytest.fixture
def address() -> Iterator[str]:
    """That of a server on a thread of this process."""
    from served import serving

    with serving(poll="adaptive") as found:
        yield found
