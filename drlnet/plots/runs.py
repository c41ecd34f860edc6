"""Runs as plots need them: their readings, what sets them apart, which are seeds of one setting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drlnet.config import Config
from drlnet.config.fields import walk
from drlnet.errors import RunFolderError
from drlnet.metrics import RunFolder

Numbers = npt.NDArray[np.float64]

# What may differ between runs that are seeds of one setting.
_NOT_SETTINGS = {
    *("run.seed", "run.folder", "run.resume", "run.sinks", "run.record"),
    *("server.listen", "server.metrics", "server.insecure"),
}
_MOST_NAMED = 3  # settings in a label


@dataclass(frozen=True)
class Run:
    """One run's folder, read. Readings are in the order of time, each with `time`, s since 1970,
    less the pauses before each time that the run went on."""

    path: Path
    config: Config
    started_s: float
    learner: Sequence[Mapping[str, Any]]
    server: Sequence[Mapping[str, Any]]
    latency: Mapping[str, Any]  # histograms by name; empty when the learner did not end in order
    cut_short: bool  # the last reading was only half there

    def settings(self) -> dict[str, Any]:
        """Settings by key, without those that differ in every run (seed, folder)."""
        values = {key: value for key, value, _ in walk(self.config)}
        return {key: value for key, value in values.items() if key not in _NOT_SETTINGS}


def read_run(path: Path) -> Run:
    """Raises RunFolderError (ConfigError) where there is no run that can be read, or nothing to
    show yet."""
    try:
        return _read_run(path)
    except OSError as error:
        raise RunFolderError(
            f"cannot read the run's folder {path}: {error.strerror}",
            "check rights, or leave this run out",
        ) from error


def _read_run(path: Path) -> Run:
    folder = RunFolder(path)
    if not folder.config_path.is_file() or not folder.metrics_path.is_file():
        raise RunFolderError(
            f"{path} is not a run's folder",
            "name a folder that `drlnet run` or `drlnet learn` printed",
        )
    config = folder.read_config()
    readings = list(folder.readings())
    if not readings:
        raise RunFolderError(
            f"{path} holds no readings yet",
            "plot it once training has gone on for a report interval (a second)",
        )
    return Run(
        path,
        config,
        _without_pauses(folder, readings),
        [reading for reading in readings if reading.get("role") == "learner"],
        [reading for reading in readings if reading.get("role") == "server"],
        _latency(folder),
        folder.cut_short(),
    )


def series(readings: Sequence[Mapping[str, Any]], name: str) -> Numbers:
    """A figure in every reading; NaN where it is absent or no number. Shape (readings,)."""
    values = [reading.get(name) for reading in readings]
    return np.array(
        [float(value) if isinstance(value, (int, float)) else np.nan for value in values]
    )


def grouped(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ by their seeds alone are one group; labels say by what groups differ.

    The label of the only group is "".
    """
    groups: list[tuple[dict[str, Any], list[Run]]] = []
    for run in runs:
        settings = run.settings()
        same = next((members for known, members in groups if known == settings), None)
        if same is None:
            groups.append((settings, [run]))
        else:
            same.append(run)
    labels: dict[str, list[Run]] = {}
    for settings, members in groups:
        label = _label(settings, [known for known, _ in groups])
        if label in labels:  # the settings that tell them apart are not among those named
            named = f"{label}, {members[0].path.name}"
            label = f"{label}, {members[0].path}" if named in labels else named
        labels[label] = members
    return labels


def _label(settings: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]) -> str:
    env = settings["env.id"]
    parts = [str(env)] if any(group["env.id"] != env for group in groups) else []
    # Two environments have two recipes: that is one difference and not twenty.
    rivals = [group for group in groups if group["env.id"] == env]
    differing = [
        key for key, value in settings.items() if any(group.get(key) != value for group in rivals)
    ]
    named = [f"{key.rpartition('.')[2]} {_words(settings[key])}" for key in differing]
    parts += named[:_MOST_NAMED]
    if len(named) > _MOST_NAMED:
        parts.append(f"{len(named) - _MOST_NAMED} more")
    return ", ".join(parts)


def _words(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "-".join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{name} {part}" for name, part in value.items()) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _without_pauses(folder: RunFolder, readings: Sequence[dict[str, Any]]) -> float:
    """When the run began. Puts the readings after a pause where they were without it."""
    try:
        starts_s = folder.starts_s()
    except RunFolderError:  # then time counts from the first reading
        starts_s = [readings[0]["time"]]
    if readings[0]["time"] < starts_s[0]:  # it went on when folders told of the last start alone
        starts_s.insert(0, readings[0]["time"])
    pauses_s, last_s, ahead = 0.0, starts_s[0], starts_s[1:]
    for reading in readings:
        while ahead and reading["time"] >= ahead[0]:
            pauses_s += ahead[0] - last_s
            last_s = ahead.pop(0)
        last_s = max(last_s, reading["time"])
        reading["time"] -= pauses_s
    return starts_s[0]


def _latency(folder: RunFolder) -> Mapping[str, Any]:
    if not folder.latency_path.is_file():
        return {}
    try:
        return dict(json.loads(folder.latency_path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise RunFolderError(
            f"{folder.latency_path} is cut short or not JSON", "remove that file"
        ) from error
