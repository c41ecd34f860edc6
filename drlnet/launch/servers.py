"""The live servers of this user on this machine: a file for each in the user's runtime folder."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from drlnet.errors import ConfigError, cannot_write
from drlnet.metrics.live import live_file, read_live

_REMEDY = "set XDG_RUNTIME_DIR to a folder of your own, or name the server with --server"


@dataclass(frozen=True)
class LiveServer:
    """A server that runs. run: the folder of the run whose own it is, absolute; else None."""

    addresses: Sequence[str]
    run: str | None
    pid: int
    started_s: float  # since the epoch
    network: int  # the inode of its network namespace

    @property
    def address(self) -> str:
        """The one for a command of this machine: over UDP, where it listens there."""
        return min(self.addresses, key=lambda one: not one.startswith("udp:"))


@contextmanager
def announced(addresses: Sequence[str], run: Path | None) -> Iterator[None]:
    """Lets commands of this user find this process's server while the block runs.

    Raises ConfigError where no folder for that can be had.
    """
    server = LiveServer(
        list(addresses),
        None if run is None else str(run.absolute()),
        os.getpid(),
        time.time(),
        _network(),
    )
    folder = _folder()
    if folder is None:
        raise ConfigError("this user has no folder to announce the server in", _REMEDY)
    path = folder / f"{os.getpid()}-{time.time_ns()}.json"
    with ExitStack() as stack:
        try:
            stack.enter_context(live_file(path, asdict(server)))
        except OSError as error:
            raise cannot_write(path, error, _REMEDY) from error
        yield


def live_servers() -> list[LiveServer]:
    """Those of this network namespace, the oldest first. Removes what dead ones have left."""
    folder = _folder()
    found = []
    for path in folder.glob("*.json") if folder is not None else ():
        values = read_live(path)
        if values is None:
            path.unlink(missing_ok=True)  # no other server ever has its name
        elif values["network"] == _network():
            found.append(LiveServer(**values))
    return sorted(found, key=lambda server: server.started_s)


def _network() -> int:
    return Path("/proc/self/ns/net").stat().st_ino


def _folder() -> Path | None:
    """Where this user's servers are announced; None without a private place.

    Beside the meeting place of dpdk:local (native/dpdk/rendezvous.cc), and not in it: a link may
    have any name there. A session may name a XDG_RUNTIME_DIR that is not there, as under `su`.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folders = [Path(runtime) / "drlnet-servers"] if runtime else []
    for folder in [*folders, Path(f"/tmp/drlnet-{os.geteuid()}-servers")]:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            continue
        if _is_private(folder):
            return folder
    return None


def _is_private(folder: Path) -> bool:
    facts = folder.lstat()
    own = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()
    return own and not facts.st_mode & 0o077
