"""The folder of a run: its config, the facts it was made under, its metrics, its checkpoint."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO

from drlnet import __version__
from drlnet.config import Config, dump, load_file
from drlnet.errors import RunFolderError
from drlnet.metrics.host import host_facts
from drlnet.metrics.live import NO_LOCKS, live_file, read_live
from drlnet.metrics.whole import write_whole

_RANK_LOG = "rank-{}.log"
_TAIL_BYTES = 1 << 20  # of metrics.jsonl: many readings of few actors


class RunFolder:
    """Paths and files of one run. Threading: one writer of metrics.jsonl."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_path = path / "config.toml"
        self.facts_path = path / "facts.json"
        self.metrics_path = path / "metrics.jsonl"
        self.latency_path = path / "latency.json"
        self.tensorboard_path = path / "tensorboard"
        self.checkpoint_path = path / "checkpoint.safetensors"
        self.learner_path = path / "learner.safetensors"  # all that the learner goes on from
        self.replay_path = path / "replay"  # the server's state, with run.keep_replay
        self.best_path = path / "best.safetensors"  # the evaluator's, while the run goes on
        self.evaluator_log_path = path / "evaluator.log"
        self.result_path = path / "result.json"
        self.live_path = path / "live.json"  # the command's, while the run goes on
        # Whether create() made them; the command that planned the run, or the user, may have.
        self._wrote_config = self._made_folder = False
        self._began_s: float | None = None
        self._former: dict[Path, bytes] = {}  # files of a run that goes on, as they were
        self._former_steps: object = None

    def rank_log_path(self, rank: int) -> Path:
        """The log of one of the learner's other processes."""
        return self.path / _RANK_LOG.format(rank)

    @staticmethod
    def name(config: Config) -> Path:
        """The name of our choosing for a run that begins now."""
        env = config.env.id.replace("/", "-").replace(":", "-")
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        return Path("runs") / f"{env}-{stamp}-{config.run.seed}"

    @staticmethod
    def plan(config: Config) -> Config:
        """The config with `run.folder` filled in, absolute.

        A name of our choosing is made at once: two runs of one second do not get the same.
        """
        if config.run.folder is not None:
            path = Path(config.run.folder).absolute()
        else:
            path = RunFolder.name(config).absolute()
            try:
                path = reserve(path)
            except OSError as error:
                raise _unwritable(path, error) from error
        return replace(config, run=replace(config.run, folder=str(path)))

    @staticmethod
    def create(config: Config) -> RunFolder:
        """Makes the folder that `config.run.folder` names (see plan) and writes what is known.

        A folder made for this very config is taken over: `run` makes it, its learner fills it.
        Raises RunFolderError when it holds another run or cannot be written; ConfigError for a
        setting that config.toml cannot hold.
        """
        dump(config)  # what it cannot hold is refused before there is a folder
        given = config.run.folder
        config = RunFolder.plan(config)
        folder = RunFolder(Path(str(config.run.folder)))
        folder._wrote_config = not folder.config_path.exists()
        folder._made_folder = given is None or not folder.path.exists()
        if (folder.checkpoint_path.exists() and not config.run.resume) or (
            folder.config_path.exists() and folder.read_config() != config
        ):
            raise RunFolderError(
                f"{folder.path} already holds a run", "name another with --set run.folder=PATH"
            )
        facts = _facts(config)
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.config_path.write_text(dump(config), encoding="utf-8")
            if not folder.facts_path.exists():  # a run's start is when it was planned
                folder.facts_path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            folder.metrics_path.touch()
        except (OSError, UnicodeEncodeError) as error:
            with suppress(OSError):  # what cannot even be taken back is not what went wrong
                folder.discard_unused()
            raise _unwritable(folder.path, error) from error
        return folder

    @staticmethod
    def reopen(config: Config, *, again: bool = False) -> RunFolder:
        """The folder that `config.run.folder` names, for a learner that goes on from its state.

        Half a line that a full disk has left at the end of its readings is taken away. again: in
        the run that goes on, its learner alone was started again. Raises RunFolderError.
        """
        folder = RunFolder.unfinished(Path(str(config.run.folder)), again=again)
        kept = (folder.config_path, folder.facts_path, folder.result_path)
        try:
            folder._former = {path: path.read_bytes() for path in kept if path.is_file()}
            # What is taken away comes last: on a full disk all stays as it was.
            write_whole(folder.config_path, dump(config).encode())
            if not again:  # else it is as old as it was
                facts = _facts(config)
                with suppress(RunFolderError):  # else this start is the first one known
                    facts["earlier_starts_s"] = folder.starts_s()
                write_whole(folder.facts_path, (json.dumps(facts, indent=2) + "\n").encode())
            folder.result_path.unlink(missing_ok=True)
            if folder.metrics_path.is_file():
                _end_at_whole_line(folder.metrics_path)
                folder._former_steps = folder._learner_steps()
        except (OSError, UnicodeEncodeError) as error:
            raise _unwritable(folder.path, error, "make room or check rights") from error
        return folder

    def put_back(self) -> bool:
        """Has all as it was before the run went on, where that took no learner step. Says whether
        the result of before is there again."""
        with suppress(OSError):  # what has ended the run is what to tell
            if self._former and self._learner_steps() == self._former_steps:
                for path, content in self._former.items():
                    write_whole(path, content)
                return self.result_path in self._former
        return False

    def put_back_result(self) -> None:
        """Does as put_back(); after a step for the result alone, where there is none by now."""
        former = None if self.put_back() else self._former.get(self.result_path)
        if former is not None and not self.result_path.is_file():
            with suppress(OSError):
                write_whole(self.result_path, former)

    def _learner_steps(self) -> object:
        return self.last_reading("learner").get("learner_steps")

    def discard_unused(self) -> None:
        """Takes back what create() has made, unless something of a run has come into it since."""
        made = {
            *(self.config_path, self.facts_path, self.metrics_path, self.path / "run.sbatch"),
            *(self.evaluator_log_path, self.live_path, *self.path.glob(_RANK_LOG.format("*"))),
        }
        there = set(self.path.iterdir())
        recorded = self.metrics_path in there and self.metrics_path.stat().st_size
        if there - made or recorded or not self._wrote_config:
            return
        for path in made:
            path.unlink(missing_ok=True)
        if self._made_folder:
            self.path.rmdir()

    @staticmethod
    def open(path: Path) -> RunFolder:
        """The folder of a finished run. Raises RunFolderError when something of it is missing."""
        folder = RunFolder(path)
        for needed in (folder.config_path, folder.checkpoint_path):
            if not needed.is_file():
                raise RunFolderError(
                    f"{path} is not the folder of a finished run: {needed.name} is missing",
                    "name a folder that `drlnet run` or `drlnet learn` printed",
                )
        return folder

    @staticmethod
    def unfinished(path: Path, *, again: bool = False) -> RunFolder:
        """The folder of a run that a learner can go on from. again: it need not be over.

        Raises RunFolderError.
        """
        folder = RunFolder(path)
        if not again:
            folder._require_over()
        for needed in (folder.config_path, folder.learner_path):
            if not needed.is_file():
                raise RunFolderError(
                    f"{path} cannot be resumed: {needed.name} is missing",
                    "name the folder of a run that took a learner step, or start a new run",
                )
        return folder

    @contextmanager
    def going_on(self, server: str | None, server_key: str | None = None) -> Iterator[None]:
        """Says while the block runs that the run goes on, and at which server, if at any.

        server_key: the fingerprint of that server's key, where it has one.

        Raises RunFolderError where it goes on already.
        """
        self._require_over()
        with ExitStack() as stack:
            try:
                values = {"pid": os.getpid(), "server": server, "server_key": server_key}
                stack.enter_context(live_file(self.live_path, values))
            except OSError as error:
                if error.errno not in NO_LOCKS:  # there the run goes on all the same, unseen
                    raise _unwritable(self.path, error) from error
            yield

    def live(self) -> dict[str, Any] | None:
        """{"pid", "server", "server_key"} of the command whose run this is, as of its start; None
        where it does not go on."""
        return read_live(self.live_path)

    def _require_over(self) -> None:
        if (live := self.live()) is not None:
            raise RunFolderError(
                f"{self.path} is still running, in process {live['pid']}",
                f"end that process, or watch it: drlnet watch {self.path}",
            )

    def read_config(self) -> Config:
        """The resolved config of the run."""
        return load_file(self.config_path)

    def age_s(self) -> float:
        """Seconds since the command whose run this is began, or went on with it."""
        return time.time() - self.started_s

    @property
    def started_s(self) -> float:
        """When the command whose run this is began, or went on with it, in seconds since the epoch.

        Raises RunFolderError where the folder does not say.
        """
        if self._began_s is None:
            self._began_s = self.starts_s()[-1]
        return self._began_s

    def starts_s(self) -> list[float]:
        """When the run began and, of one that went on, each time that it did, as started_s."""
        try:
            facts = json.loads(self.facts_path.read_text(encoding="utf-8"))
            last_s = datetime.fromisoformat(facts["started"]).timestamp()
            return [*map(float, facts.get("earlier_starts_s", ())), last_s]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{self.facts_path} does not say when the run began",
                "name a folder that `drlnet run` or `drlnet learn` printed",
            ) from error

    def record(self, values: Mapping[str, Any], time_s: float | None = None) -> None:
        """Appends one reading to metrics.jsonl, with `time`, seconds since the epoch: now."""
        when = time.time() if time_s is None else time_s
        line = json.dumps({"time": round(when, 3), **values})
        try:
            with self.metrics_path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise RunFolderError(
                f"cannot write {self.metrics_path}: {error.strerror}", "make room or check rights"
            ) from error

    def write_result(self, line: str) -> None:
        """Keeps the result's JSON line beside the checkpoint."""
        try:
            write_whole(self.result_path, f"{line}\n".encode())
        except OSError as error:
            raise RunFolderError(
                f"cannot write {self.result_path}: {error.strerror}", "make room or check rights"
            ) from error

    def read_result(self) -> dict[str, Any]:
        """What write_result kept; empty when the run was interrupted."""
        if not self.result_path.is_file():
            return {}
        try:
            values = json.loads(self.result_path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RunFolderError(
                f"{self.result_path} is cut short or not JSON", "remove that file"
            ) from error
        return dict(values)

    def readings(self) -> Iterator[dict[str, Any]]:
        """The readings recorded so far, in order; a line cut short ends them.

        A line of changes comes with what the lines of its role before it said. RunFolderError for
        a line that is something else.
        """
        last: dict[str, dict[str, Any]] = {}
        with self.metrics_path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    return
                try:
                    reading = json.loads(line)
                except ValueError as error:
                    raise self._unparsed(number) from error
                if not isinstance(reading, dict) or "time" not in reading:
                    raise self._unparsed(number)
                if "changes" in reading:
                    role = reading.pop("changes")
                    reading = {**last.get(role, {"role": role}), **reading}
                last[reading.get("role", "")] = reading
                yield reading

    def last_reading(self, role: str) -> dict[str, Any]:
        """The newest reading of that role ("learner", "server"), whole; empty before the first."""
        marks = [f'"{kind}": "{role}"'.encode() for kind in ("role", "changes")]
        found: dict[str, Any] = {}
        with self.metrics_path.open("rb") as file:
            for start, tail in _tails(file):
                found = {}
                for line in reversed(tail.split(b"\n")[1 if start else 0 : -1]):
                    if any(mark in line for mark in marks):
                        found = {**json.loads(line), **found}
                        if found.pop("changes", None) is None:
                            return found
        return found

    def cut_short(self) -> bool:
        """Whether the last reading is only half there."""
        with self.metrics_path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            if file.tell() == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"

    def _unparsed(self, line: int) -> RunFolderError:
        return RunFolderError(
            f"{self.metrics_path}: line {line} cannot be parsed",
            "remove that line, or leave this run out",
        )


def _facts(config: Config) -> dict[str, Any]:
    return {
        "seed": config.run.seed,
        "version": __version__,
        "started": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "host": host_facts(),
    }


def _end_at_whole_line(path: Path) -> None:
    """Takes away half a line at the end, which the next one would be appended to."""
    with path.open("rb+") as file:
        for start, tail in _tails(file):
            if b"\n" in tail or not start:
                file.truncate(start + tail.rfind(b"\n") + 1)
                return


def _tails(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Ever more of the file's end, with where that begins, up to all of it: a line of the server's
    has 3 kB for each actor."""
    size, wanted = file.seek(0, os.SEEK_END), _TAIL_BYTES
    while True:
        start = max(0, size - wanted)
        file.seek(start)
        yield start, file.read(size - start)
        if not start:
            return
        wanted *= 2


def reserve(base: Path) -> Path:
    """Makes the folder, or the first of base-2, base-3, ... that does not exist. Raises OSError."""
    for path in chain([base], (base.with_name(f"{base.name}-{n}") for n in count(2))):
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise AssertionError("names do not run out")


def _unwritable(
    path: Path,
    error: OSError | UnicodeEncodeError,
    remedy: str = "make room, or choose another with --set run.folder=PATH",
) -> RunFolderError:
    if isinstance(error, UnicodeEncodeError):
        return RunFolderError(
            f"cannot write the run's folder {str(path)!r}: its name, or a setting, is not UTF-8",
            "train in a folder whose name is UTF-8",
        )
    return RunFolderError(f"cannot write the run's folder {path}: {error.strerror}", remedy)
