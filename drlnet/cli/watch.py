"""`drlnet watch`: the progress of a run that goes on elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drlnet.cli import completion, options
from drlnet.cli.output import Output, typed
from drlnet.cli.stopping import until_stopped

if TYPE_CHECKING:
    from drlnet.launch.signals import Stop
    from drlnet.metrics import RunFolder

RunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        autocompletion=completion.runs,
        help="the run's folder [dim](default: the newest)[/dim]",
    ),
]

_ANSWER_DEADLINE_S = 3.0


def watch(
    run: RunArgument = None,
    eal: options.EalOption = None,
    key: options.KeyOption = None,
    json: options.JsonOption = False,
    debug: options.DebugOption = False,
) -> None:
    """Show the progress of a run that goes on in the background or in another terminal.

    It is what `drlnet run` and `drlnet learn` show. When the run ends this
    prints its result, of a run that has ended already at once. Ctrl-C ends the
    watching; the run does not notice.

    [bold]Examples[/bold]

    drlnet watch

    drlnet watch runs/CartPole-v1-20260101-120000-0
    """
    from drlnet.cli.which import newest_that_goes_on, run_named, server_of

    folder = newest_that_goes_on() if run is None else run_named(run)
    output = Output(json)
    with until_stopped() as stop:
        if folder.live() is not None:
            address = server_of(folder)
            options.require_dpdk(eal, [address])
            _follow(folder, address, output, stop)
        if not stop.is_set():
            _tell_end(folder, output)


def _follow(folder: RunFolder, address: str, output: Output, stop: Stop) -> None:
    """Shows the run until it ends or the stop flag is set."""
    from drlnet.cli.training import READING_INTERVAL_S
    from drlnet.client import Client
    from drlnet.dashboard import ProgressView
    from drlnet.errors import ReplayTimeout, SessionLost, TransportError

    config, name = folder.read_config(), typed(folder.path)
    with (
        ProgressView(
            f"{name} · {config.env.id} · seed {config.run.seed}",
            goal=config.run.goal,
            file=output.notes,
            min_size=config.replay.min_size,
            run=folder.path.name,
            hint=f"drlnet stats {name}",
            elapsed_s=folder.age_s(),
        ) as view,
        stop.interrupts(),
    ):
        client: Client | None = None
        while folder.live() is not None:
            try:
                if client is None:
                    client = Client(address, name="watch", timeout=_ANSWER_DEADLINE_S)
                view.show(_with_phase(client.stats()))
            except (TransportError, ReplayTimeout, SessionLost):
                client = None  # it ends, perhaps, and its lock will tell
            stop.wait(READING_INTERVAL_S)


def _with_phase(reading: Mapping[str, Any]) -> dict[str, Any]:
    """The phase as `drlnet run` reports it; of `drlnet learn` by whether its learner is there."""
    own = {
        key.removeprefix("client."): value
        for key, value in reading.items()
        if key.startswith("client.run.")
    }
    learns = any(key.startswith("peer.learner") for key in reading)
    return {**reading, "run.phase": "training" if learns else "evaluating", **own}


def _tell_end(folder: RunFolder, output: Output) -> None:
    """The result of a run that has ended. Raises RunFolderError where it left none."""
    from drlnet.cli.training import announce
    from drlnet.errors import RunFolderError
    from drlnet.metrics import RunResult

    values = folder.read_result()
    if not values or values["stopped"] == "failed":
        how = f"failed: {values['failure']}" if values else "ended without a result"
        logs = ", ".join(sorted(path.name for path in folder.path.glob("*.log")))
        raise RunFolderError(
            f"{typed(folder.path)} has {how}",
            f"see its logs: {logs}" if logs else "see what its terminal says",
        )
    announce(RunResult.of(values), output)
