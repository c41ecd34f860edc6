"""What a run leaves of its readings: metrics.jsonl, latency.json, TensorBoard's event files."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from drlnet.errors import RunFolderError
from drlnet.metrics.plain import plain
from drlnet.metrics.run_folder import RunFolder

if TYPE_CHECKING:
    from drlnet.metrics.tensorboard import EventFile


class RunRecords:
    """The one writer of a run's readings. Threading: not thread-safe.

    Files come into being with the first reading. Where one cannot be written (a full disk), the
    records end and the run goes on: `failure` is why.
    """

    def __init__(self, folder: RunFolder, *, tensorboard: bool = True) -> None:
        self._folder, self._tensorboard = folder, tensorboard
        self._events: EventFile | None = None
        self._last: Mapping[str, Any] = {}
        self.failure: RunFolderError | None = None

    def add(self, learner: Mapping[str, Any], server: Mapping[str, Any]) -> None:
        """Keeps what the learner reported, and the server's reading with all others' reports."""
        self._last = server
        if self.failure is not None:
            return
        now = time.time()
        try:
            self._folder.record(plain({"role": "learner", **learner}), now)
            self._folder.record(plain({"role": "server", **server}), now)
            if self._tensorboard:
                self._add_event(server, int(learner["env_steps"]), now)
        except RunFolderError as error:
            self.failure = error

    def close(self) -> None:
        """Writes the newest reading's histograms whole, and ends the event file."""
        histograms = {
            name: {**plain(value), "buckets": [[us, count] for us, count in value.buckets]}
            for name, value in self._last.items()
            if hasattr(value, "buckets")
        }
        if not histograms:
            return
        try:
            self._folder.latency_path.write_text(json.dumps(histograms) + "\n", encoding="utf-8")
            if self._events is not None:
                self._events.close()
        except OSError as error:
            self.failure = self.failure or self._unwritable(error)

    def _add_event(self, reading: Mapping[str, Any], env_steps: int, time_s: float) -> None:
        from drlnet.metrics.tensorboard import EventFile

        try:
            if self._events is None:
                self._events = EventFile(self._folder.tensorboard_path)
            self._events.add(reading, env_steps, time_s)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> RunFolderError:
        return RunFolderError(
            f"cannot write in {self._folder.path}: {error.strerror}", "make room or check rights"
        )
