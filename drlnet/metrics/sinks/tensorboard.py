"""TensorBoard's event files in the run's folder, over env_steps and wall time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.summary import hparams

from drlnet.errors import RunFolderError
from drlnet.metrics.run_folder import RunFolder
from drlnet.metrics.sinks import Settings

_COMPARED = "eval/return_best"  # the figure beside the settings in the table of runs


class EventFile:
    """A file of events. Written by the caller's thread, an event for a reading: one event for each
    scalar, as SummaryWriter makes them, takes several times as long.
    """

    def __init__(self, folder: RunFolder, settings: Settings) -> None:
        self._folder = folder
        with self._writing():
            folder.tensorboard_path.mkdir(parents=True, exist_ok=True)
            self._writer = EventsWriter(str(folder.tensorboard_path / "events"))
            for summary in hparams(dict(settings), {_COMPARED: 0.0}):
                self._writer.write_event(Event(summary=summary))

    def add(self, scalars: Mapping[str, float], env_steps: int, time_s: float) -> None:
        """Adds one event."""
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        event = Event(wall_time=time_s, step=env_steps, summary=Summary(value=values))
        with self._writing():
            self._writer.write_event(event)

    def close(self) -> None:
        """Brings what was added to the disk."""
        with self._writing():
            self._writer.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunFolderError(
                f"cannot write in {self._folder.path}: {error.strerror}",
                "make room or check rights",
            ) from error
