"""What a run leaves of its readings: metrics.jsonl, latency.json, and its curves in the sinks.

A day of eight actors stays under 50 MB: the server's lines hold what has changed of the main
figures, their interval grows from the learner's reports' to 10 s within ten minutes, and a whole
one comes every ten minutes and at the end. `run.record = "all"` keeps every figure each time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from drlnet.config import Config
from drlnet.errors import RunFolderError
from drlnet.metrics.curves import curves, every_curve, is_main
from drlnet.metrics.plain import plain
from drlnet.metrics.run_folder import RunFolder
from drlnet.metrics.sinks import Sink, check_installed, open_sink
from drlnet.metrics.whole import write_whole

_Reading = Mapping[str, Any]

_LONGEST_GAP_S = 10.0
_GAP_SHARE = 1 / 60  # of the time since the first reading
_WHOLE_EVERY_S = 600.0


class RunRecords:
    """The one writer of a run's readings. Threading: not thread-safe.

    Files and sinks come into being with the first reading. Where one cannot be written (a full
    disk, a service that is gone), the records end and the run goes on: `failure` is why. Raises
    ConfigError when a sink's package is missing.
    """

    def __init__(self, folder: RunFolder, config: Config) -> None:
        for name in config.run.sinks:
            check_installed(name)
        self._folder, self._config = folder, config
        self._every = config.run.record == "all"
        self._sinks: list[Sink] | None = None
        self._pending: tuple[float, _Reading, _Reading] | None = None
        self._last: _Reading = {}
        self._written: dict[str, _Reading] = {}
        self._first_s: float | None = None
        self._recorded_s = self._whole_s = float("-inf")
        self._evaluated: Any = None
        self.failure: RunFolderError | None = None

    def add(
        self,
        learner: _Reading,
        server: _Reading,
        time_s: float | None = None,
        *,
        last: bool = False,
    ) -> None:
        """Keeps what the learner reported, and the server's reading with all others' reports.

        Both are passed over where the ones before were kept a short while ago; an evaluation never,
        nor the last ones, which are kept whole. time_s: seconds since the epoch; None: now.
        """
        now = time.time() if time_s is None else time_s
        at_s = time.monotonic() if time_s is None else time_s  # the clock may be set back
        self._first_s = at_s if self._first_s is None else self._first_s
        self._last = server
        evaluated = learner.get("eval_learner_steps")
        gap_s = min(_LONGEST_GAP_S, (at_s - self._first_s) * _GAP_SHARE)
        if last or at_s - self._recorded_s >= gap_s:
            self._pending = None
            whole = last or at_s - self._whole_s >= _WHOLE_EVERY_S
            self._keep(now, learner, server, whole=whole)
            self._recorded_s = at_s
            self._whole_s = at_s if whole else self._whole_s
        else:
            self._pending = (now, learner, server)
            if evaluated != self._evaluated:
                names = ("learner_steps", "env_steps")
                look = {k: v for k, v in learner.items() if k in names or k.startswith("eval_")}
                self._keep(now, look, {}, whole=False)
        self._evaluated = evaluated

    def close(self) -> None:
        """Keeps the newest reading, its histograms whole, and ends the sinks."""
        if self._pending is not None:
            self._keep(*self._pending, whole=True)
        histograms = {
            name: {**plain(value), "buckets": [[us, count] for us, count in value.buckets]}
            for name, value in self._last.items()
            if hasattr(value, "buckets")
        }
        if histograms:
            try:
                text = json.dumps(histograms) + "\n"
                write_whole(self._folder.latency_path, text.encode())
            except OSError as error:
                why = f"cannot write in {self._folder.path}: {error.strerror}"
                self.failure = self.failure or RunFolderError(why, "make room or check rights")
        for sink in self._sinks or ():
            try:
                sink.close()
            except RunFolderError as error:
                self.failure = self.failure or error

    def _keep(self, now: float, learner: _Reading, server: _Reading, *, whole: bool) -> None:
        if self.failure is not None:
            return
        whole = whole or self._every
        try:
            self._write("learner", learner, now, whole=whole or bool(server))
            if server:
                self._write("server", server, now, whole=whole)
            if self._sinks is None:
                run = self._config.run
                self._sinks = [open_sink(name, self._folder, self._config) for name in run.sinks]
            drawn = every_curve(server) if self._every else {}
            drawn |= curves(learner, server)
            for sink in self._sinks:
                sink.add(drawn, int(learner["env_steps"]), now)
        except RunFolderError as error:
            self.failure = error

    def _write(self, role: str, reading: _Reading, now: float, *, whole: bool) -> None:
        """A whole line, or one of what has changed since the last one of this role."""
        before = self._written.get(role)
        if whole or before is None:
            told = plain(reading)
            self._folder.record({**told, "role": role}, now)
            self._written[role] = told
            return
        told = plain({k: v for k, v in reading.items() if role == "learner" or is_main(k)})
        changed = {k: v for k, v in told.items() if k not in before or before[k] != v}
        changed.pop("role", None)
        self._folder.record({"changes": role, **changed}, now)
        self._written[role] = {**before, **changed}
