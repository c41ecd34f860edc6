"""Where a command's words go: people read lines, scripts read the last line of stdout."""

from __future__ import annotations

import errno
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

from drlnet.errors import DISK_FULL, ConfigError, DrlnetError, cannot_write, not_installed

_USUAL_BYTES = 1 << 18  # of results


class Output:
    """Results on standard output; notes there too, or on standard error with --json."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.notes: TextIO = sys.stderr if as_json else sys.stdout

    def note(self, line: str) -> None:
        """A line for a person."""
        try:
            print(line, file=self.notes, flush=True)
        except OSError as error:
            # The terminal was closed: SIGHUP says so, too, and then what was measured is kept.
            if error.errno != errno.EIO:
                raise

    def hint(self, command: str, what: str) -> None:
        """A command that may come next; nothing with --json."""
        if self.as_json:
            return
        dim, plain = ("\x1b[2m", "\x1b[0m") if coloured(self.notes) else ("", "")
        self.note(f"{dim}  {command}  # {what}{plain}")

    def event(self, name: str, **values: Any) -> None:
        """A JSON line for the process that watches this one; nothing without --json."""
        if self.as_json:
            print(json.dumps({"event": name, **values}), flush=True)

    def result(self, line: str) -> None:
        """The JSON object that ends the command; nothing without --json."""
        if self.as_json:
            print(line, flush=True)


def typed(path: Path | str) -> str:
    """A path as it can be typed here: relative to the working directory, where it lies below."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)


def coloured(file: TextIO) -> bool:
    """Whether it is a terminal whose user allows colours."""
    return file.isatty() and "NO_COLOR" not in os.environ


def require_writable(out: Path, option: str = "--out") -> None:
    """Raises ConfigError where results cannot be written: before they are measured, not after."""
    from tempfile import TemporaryFile

    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out) as tried:
            tried.write(bytes(_USUAL_BYTES))
    except OSError as error:
        raise cannot_write(f"to {out}", error, f"choose another folder with {option}") from error


def require_writable_file(out: Path | None) -> None:
    """As require_writable, of a file, if one is named."""
    if out is None:
        return
    if out.is_dir():
        raise ConfigError(f"{out} is a folder", "name a file in it with --out")
    if not out.exists() or out.is_file():  # it is replaced as a whole, by one beside it
        require_writable(out.resolve().parent)
    elif not os.access(out, os.W_OK):
        raise ConfigError(f"cannot write to {out}", "choose another file with --out")


def _place_of(error: BaseException) -> tuple[str, str]:
    """Cause and remedy of an error that is not of drlnet's tree: a user's code, or a fault here."""
    what = f"{type(error).__name__}: {error}"
    package, installed = Path(__file__).resolve().parents[1], Path(sys.prefix).resolve()
    trace = error.__traceback__
    own = ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_file() and not {package, installed} & {*file.resolve().parents}:
            own = f"{file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    if own:
        return f"{what}, in {own}", "the traceback shows the way there"
    return f"internal error: {what}", "this is a fault of drlnet itself; the traceback shows where"


def report_and_exit(error: BaseException, *, as_json: bool, debug: bool) -> NoReturn:
    """One line of cause, one of remedy on stderr (and as JSON on stdout), its own exit code."""
    if debug:
        import traceback

        traceback.print_exception(error)
    error = not_installed(error) or error
    if isinstance(error, DrlnetError):
        cause, remedy, code = error.cause, error.remedy, error.exit_code
    elif isinstance(error, OSError) and error.errno in DISK_FULL:
        where = f" {error.filename}" if error.filename else ""
        cause = f"cannot write{where}: {error.strerror}"
        remedy, code = "make room, or write elsewhere", ConfigError.exit_code
    else:
        if not debug:  # of any other error the place is what counts, and the role's log keeps it
            import traceback

            traceback.print_exception(error)
        cause, remedy, code = *_place_of(error), 1
    label = "\x1b[1;31merror:\x1b[0m" if coloured(sys.stderr) else "error:"
    try:
        print(f"{label} {cause}", file=sys.stderr)
        if remedy:
            print(f"  try: {remedy}", file=sys.stderr, flush=True)
    except BrokenPipeError:  # the reader is gone; the error keeps its exit code
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    if as_json:
        said = {
            "type": type(error).__name__,
            "cause": cause,
            "remedy": remedy,
            "exit_code": code,
        }
        with suppress(OSError):  # it may be standard output that cannot be written
            print(json.dumps({"error": said}), flush=True)
    sys.exit(code)
