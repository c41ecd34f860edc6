"""The pictures that a run can leave: the dashboard during training, and the learning curve."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drlnet.errors import RunFolderError

_KEPT = 600  # readings: five minutes, more than any trend on a screen shows
_WIDTH, _HEIGHT = 110, 34


class Pictures:
    """Keeps what a run shows of its training, and draws it at the end."""

    def __init__(self, into: Path) -> None:
        self._into = into
        self._readings: deque[Mapping[str, Any]] = deque(maxlen=_KEPT)

    def show(self, reading: Mapping[str, Any]) -> None:
        """Takes a reading of the run; those of other phases are passed over."""
        if reading.get("run.phase") == "training" and "server.uptime_s" in reading:
            self._readings.append(reading)

    def save(self, run: Path) -> list[Path]:
        """Draws dashboard.svg and learning.svg; returns the paths.

        run: its folder. Raises RunFolderError (ConfigError) when one cannot be drawn or written.
        """
        from drlnet.dashboard import picture
        from drlnet.plots.learning import learning
        from drlnet.plots.runs import read_run

        curve = self._into / "learning.svg"
        learning([read_run(run)]).save(curve)
        if not self._readings:  # a serial run: no server is read
            return [curve]
        dashboard = self._into / "dashboard.svg"
        try:
            picture(list(self._readings), dashboard, _WIDTH, _HEIGHT)
        except OSError as error:
            raise RunFolderError(
                f"cannot write the picture {dashboard}: {error.strerror}", "choose another folder"
            ) from error
        return [dashboard, curve]
