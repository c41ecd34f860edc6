"""What can go wrong, one tree: a cause, a remedy, and an exit code of its own for each.

The command line alone catches these; everything below it lets them pass. Exit codes are part of the
interface: scripts tell failures apart by them. Append new ones, never renumber. 0 is success, 1 an
internal error, 2 wrong usage of a command, 130 an interruption.
"""

from __future__ import annotations

import errno
import re
import shlex
import sys
import sysconfig
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
MUTED = (errno.EIO, *DISK_FULL)  # of words: the terminal was closed, or the disk of a log is full


class DrlnetError(Exception):
    """The root: `cause` is one line that says what happened, `remedy` one that says what to do."""

    exit_code = 10

    def __init__(self, cause: str, remedy: str = "") -> None:
        # Both go to Exception so that an error survives pickling between processes.
        super().__init__(cause, remedy)
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.cause}\n{self.remedy}" if self.remedy else self.cause


class ConfigError(DrlnetError):
    """Settings that cannot work: a wrong value, a wrong type, two that contradict each other."""

    exit_code = 3


class UserCodeError(ConfigError):
    """A user's module, environment, network or algorithm raised an error, or broke its contract."""

    exit_code = 28

    def __init__(self, cause: str, remedy: str = "", trace: str = "") -> None:
        """trace: the traceback, for the role's log; "" where it is in another process's."""
        super().__init__(cause, remedy)
        self.trace = trace

    @classmethod
    def of(cls, what: str, error: BaseException) -> UserCodeError:
        """The error that a user's code raised. what: begins the cause."""
        place = user_place(error)
        cause = f"{what}{one_line(error)}{f', in {place}' if place else ''}"
        trace = "".join(traceback.format_exception(error))
        return cls(cause, "the traceback shows the way there", trace)


class TransportError(DrlnetError):
    """The network: no such address, no route, a port in use, no answer within the deadline."""

    exit_code = 4


class ProtocolError(DrlnetError):
    """Versions or bytes that do not fit together."""

    exit_code = 5


class ReplayTimeout(DrlnetError):
    """A deadline passed; the cause says what was waited for: the limiter, server or network."""

    exit_code = 6


class TableMismatch(ConfigError):
    """Columns, item or settings disagree with those of the table at the server."""

    exit_code = 7


class UnknownTable(DrlnetError):
    """The server holds no table of that name."""

    exit_code = 8


class TableDropped(DrlnetError):
    """A client has dropped the table: what waited for it, and every later call, fails."""

    exit_code = 29


class SampleExpired(DrlnetError):
    """A sample's rows were overwritten before they had all been fetched."""

    exit_code = 9


class StreamGap(DrlnetError):
    """An append did not start at the next step that the server expects of that stream."""

    exit_code = 11


class UnknownLease(DrlnetError):
    """A stream's lease is not, or no longer, held by this client."""

    exit_code = 12


class BadPriority(DrlnetError):
    """A priority that is NaN, infinite or negative, or a loss that is NaN or infinite."""

    exit_code = 13


class ServerFull(DrlnetError):
    """The server has no room for another peer, table or stream."""

    exit_code = 14


class SessionLost(DrlnetError):
    """The server restarted, or forgot this client: what it held for it is gone."""

    exit_code = 15


class BadRequest(ProtocolError):
    """A request that a correct client does not send."""

    exit_code = 16


class AnotherPublisher(DrlnetError):
    """Another client publishes params at this server."""

    exit_code = 26


class Forbidden(DrlnetError):
    """The server does not know this client's key, or its role may not do this."""

    exit_code = 31


class ServerLoading(ReplayTimeout):
    """The server reads its state, and opens no session before it has; the cause says how far."""

    exit_code = 32


class CheckpointMismatch(DrlnetError):
    """A checkpoint, or published params, of another architecture or format."""

    exit_code = 17


class UnknownEnvironment(ConfigError):
    """No environment of that id is registered, or it cannot be used with this algorithm."""

    exit_code = 18


class UnknownKey(ConfigError):
    """A config key that does not exist."""

    exit_code = 19


class Deadlock(ConfigError):
    """Settings of the limiter with which actors and learner would wait for each other."""

    exit_code = 20


class Insecure(ConfigError):
    """Listening beyond this machine was not asked for with --insecure."""

    exit_code = 21


class RunFolderError(DrlnetError):
    """A run's folder is missing, cut short, or cannot be written."""

    exit_code = 22


class RoleFailed(DrlnetError):
    """A process that this one started ended before its time; the cause quotes its last words."""

    exit_code = 23


class NotInstalled(DrlnetError):
    """A package that this command needs is not installed."""

    exit_code = 27


class StateDamaged(DrlnetError):
    """A server's state on disk has bytes other than those that were written."""

    exit_code = 30


# What `drlnet doctor` ends with where something would not work: a finding, not an error of its own.
RUN_UNFIT_EXIT_CODE = 24
DPDK_UNFIT_EXIT_CODE = 25

# Status numbers of native/src/base/error.h.
_BY_STATUS: dict[int, type[DrlnetError]] = {
    1: ConfigError,
    2: TransportError,
    3: ProtocolError,
    4: ReplayTimeout,
    5: TableMismatch,
    6: UnknownTable,
    7: SampleExpired,
    8: StreamGap,
    9: UnknownLease,
    10: BadPriority,
    11: ServerFull,
    12: SessionLost,
    13: BadRequest,
    14: AnotherPublisher,
    15: TableDropped,
    16: Forbidden,
    17: ServerLoading,
    18: StateDamaged,
}


_named: set[Path] = set()  # the packages of count_as_users()


def one_line(error: BaseException) -> str:
    """An error of someone else's code: its kind and its text."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    return f"{kind}: {text}" if text else kind


def user_place(error: BaseException) -> str:
    """Where a user's code last was in a traceback: "file.py:12, step()"; "" where it never was.

    A user's is what neither drlnet nor Python nor an installed package has brought, but for a
    package that a setting names (count_as_users).
    """
    if isinstance(error, SyntaxError) and error.filename and _is_users(error.filename):
        return f"{Path(error.filename).name}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_users(frame.filename):
            function = "" if frame.name.startswith("<") else f", {frame.name}()"
            return f"{Path(frame.filename).name}:{frame.lineno}{function}"
    return ""


def _is_users(name: str) -> bool:
    file = Path(name)
    if file.suffix != ".py" or not file.is_file():  # scripts that pip makes have no suffix
        return False
    ours, pythons = Path(__file__).resolve().parent, Path(sysconfig.get_path("stdlib")).resolve()
    file = file.resolve()
    if ours in file.parents:
        return False
    if {"site-packages", "dist-packages"} & {*file.parts}:
        return bool(_named & {file, *file.parents})
    return pythons not in file.parents


def count_as_users(module: ModuleType) -> None:
    """Has user_place() take what a setting names for a user's, installed or not: all of its
    package."""
    top = sys.modules[module.__name__.partition(".")[0]]
    found = getattr(top, "__file__", None)  # a notebook has none, nor a namespace one of its own
    if found is not None:
        file = Path(found).resolve()
        _named.add(file.parent if file.name == "__init__.py" else file)


def cannot_write(path: object, error: OSError, remedy: str = "choose another path") -> ConfigError:
    """Makes the error of a path that was named. remedy: for other causes than a full disk."""
    if error.errno in DISK_FULL:
        remedy = f"make room, or {remedy}"
    return ConfigError(f"cannot write {path}: {error.strerror}", remedy)


def not_installed(error: BaseException) -> NotInstalled | None:
    """The error of an import that misses one of drlnet's own dependencies; None of any other error.

    Its remedy installs all that are missing, as training needs them together.
    """
    from importlib.metadata import requires
    from importlib.util import find_spec

    if not isinstance(error, ModuleNotFoundError):
        return None
    # By the name that it is imported by, too. What has a marker is for an extra or an older Python.
    needed = {
        re.split(r"[^\w-]", line)[0]: line for line in requires("drlnet") or () if ";" not in line
    }
    if error.name not in needed:
        return None
    missing = [line for name, line in needed.items() if find_spec(name) is None]
    return NotInstalled(f"{error.name} is not installed", f"pip install {shlex.join(missing)}")


def from_status(status: int, cause: str, remedy: str = "") -> DrlnetError:
    """The error of a native status number; DrlnetError itself for a number that is not known."""
    return _BY_STATUS.get(status, DrlnetError)(cause, remedy)


@dataclass(frozen=True)
class Told:
    """An error in words, as a command ends with it and a role tells it to what started the role."""

    type: str
    cause: str
    remedy: str
    exit_code: int
    trace: str  # "" where the cause says it all

    def said(self) -> dict[str, Any]:
        """What JSON has of it; the trace is for a log."""
        return {key: value for key, value in asdict(self).items() if key != "trace"}


def tell(error: BaseException) -> Told:
    """Any error in words: one of this tree, a disk that is full, a path that this user may not
    use, a user's code, else a fault of drlnet.
    """
    error = not_installed(error) or error
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        where = f" {error.filename}" if error.filename else ""
        error = ConfigError(
            f"cannot write{where}: {error.strerror}", "make room, or write elsewhere"
        )
    elif not isinstance(error, DrlnetError) and user_place(error):
        error = UserCodeError.of("", error)
    elif isinstance(error, PermissionError) and error.filename:
        error = ConfigError(
            f"cannot use {error.filename}: {error.strerror}",
            "choose another path, or run this as its owner",
        )
    kind = type(error).__name__
    if isinstance(error, DrlnetError):
        trace = error.trace if isinstance(error, UserCodeError) else ""
        return Told(kind, error.cause, error.remedy, error.exit_code, trace)
    remedy = "this is a fault of drlnet itself; the traceback shows where"
    trace = "".join(traceback.format_exception(error))
    return Told(kind, f"internal error: {one_line(error)}", remedy, 1, trace)


def all_errors() -> list[type[DrlnetError]]:
    """Every class of the tree, by exit code."""
    found: list[type[DrlnetError]] = []
    pending: list[type[DrlnetError]] = [DrlnetError]
    while pending:
        current = pending.pop()
        found.append(current)
        pending.extend(current.__subclasses__())
    return sorted(found, key=lambda error: error.exit_code)
