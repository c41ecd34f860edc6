"""MLflow: a run of the experiment that is named after the environment, over env_steps.

Where it goes is mlflow's own matter: MLFLOW_TRACKING_URI and the like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from drlnet.errors import RunFolderError
from drlnet.metrics.run_folder import RunFolder
from drlnet.metrics.sinks import Settings

_MOST_PARAMS = 100  # in one request: a limit of mlflow's


class MlflowRun:
    """One run."""

    def __init__(self, folder: RunFolder, settings: Settings) -> None:
        with _tracking():
            self._client = MlflowClient()
            name = str(settings["env.id"]).replace("/", "-")
            known = self._client.get_experiment_by_name(name)
            experiment = known.experiment_id if known else self._client.create_experiment(name)
            run = self._client.create_run(experiment, run_name=folder.path.name)
            self._id = run.info.run_id
            params = [Param(key, str(value)) for key, value in settings.items()]
            for first in range(0, len(params), _MOST_PARAMS):
                self._client.log_batch(self._id, params=params[first : first + _MOST_PARAMS])

    def add(self, scalars: Mapping[str, float], env_steps: int, time_s: float) -> None:
        """Sends the values in one request, and waits for its answer."""
        with _tracking():
            ms = int(time_s * 1000)
            metrics = [Metric(tag, value, ms, env_steps) for tag, value in scalars.items()]
            self._client.log_batch(self._id, metrics=metrics)

    def close(self) -> None:
        """Marks the run as finished."""
        with _tracking():
            self._client.set_terminated(self._id)


@contextmanager
def _tracking() -> Iterator[None]:
    try:
        yield
    except MlflowException as error:
        raise RunFolderError(f"mlflow: {error}", "see MLFLOW_TRACKING_URI") from error
