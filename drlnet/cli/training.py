"""What `learn` and `run` share: the progress view and the final evaluation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from drlnet.cli.options import DEFAULT_ADDRESS
from drlnet.cli.output import Output, typed
from drlnet.dashboard import ProgressView
from drlnet.errors import (
    CheckpointMismatch,
    ConfigError,
    DrlnetError,
    ReplayTimeout,
    RunFolderError,
    SessionLost,
    TransportError,
    tell,
)
from drlnet.metrics import EvalSummary, RunFolder, RunResult, seconds_since_start

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.launch.signals import Stop
    from drlnet.roles.evaluate import Evaluation
    from drlnet.roles.learn import LearnResult

READING_INTERVAL_S = 0.5
_LINE_INTERVAL_S = 5.0
_ATTEMPT_S = 0.5  # to find a server that may start later
_ANSWER_DEADLINE_S = 5.0
_FIXED = ("env.id", "algo.name", "algo.optimizer")  # of a run that goes on


def settings_of(env: str | None, resume: Path | None, **layers: Any) -> Config:
    """The settings of a new run of `env`, or of one that goes on: those of its folder, under what
    is given now (see config.load)."""
    from drlnet.config import load

    if resume is None:
        if env is None:
            raise typer.BadParameter("ENV is missing: which environment?")
        return load(env, **layers)
    if env is not None or layers["file"] is not None:
        raise ConfigError(
            "--resume RUN with ENV or --config: the run's folder has both",
            "leave them out; flags and --set change single settings",
        )
    return _changed(RunFolder.unfinished(resume.absolute()), **layers)


def _changed(folder: RunFolder, fixed: Sequence[str] = _FIXED, **layers: Any) -> Config:
    """The settings of a folder's run, under what is given now.

    Raises CheckpointMismatch where that changes what is fixed, by default environment, algorithm
    and optimizer: what was learned is of no use to others.
    """
    from drlnet.config import load
    from drlnet.config.load import layers as by_source
    from drlnet.config.load import merged

    now = {"flags": layers["flags"], "sets": layers["sets"]}
    found = by_source(file=folder.config_path, **now)
    own, given = found.pop("file"), merged(found)
    for key in fixed:
        if key in given and given[key] != own.get(key, given[key]):
            raise CheckpointMismatch(
                f"{folder.path} was trained with {key} = {own[key]!r}, "
                f"and {given[key]!r} cannot go on from it",
                f"leave {key} as it was, or start a new run (without --resume, in another folder)",
            )
    flags = {**layers["flags"], "run.folder": str(folder.path), "run.resume": True}
    return load(file=folder.config_path, flags=flags, sets=layers["sets"])


def require_trainable(settings: Config) -> None:
    """Raises what keeps these settings from being trained, before anything is started."""
    from drlnet.algos import require_fit

    spaces = require_fit(settings)
    if settings.learner.processes > 1:
        from drlnet.learning.ranks import require_ranks

        require_ranks(settings, spaces)


def going_on(settings: Config, **layers: Any) -> Config | None:
    """The settings of the run in run.folder, where a learner has left its state there; else None.

    Raises ConfigError where no folder is named, CheckpointMismatch where it is another run's, such
    as one with another seed.
    """
    if settings.run.folder is None:
        raise ConfigError(
            "--again without run.folder: it is where the learner's state would be",
            "name it: --set run.folder=PATH",
        )
    folder = RunFolder(Path(settings.run.folder).absolute())
    if not (folder.learner_path.is_file() and folder.config_path.is_file()):
        return None
    flags = {**layers["flags"], "env.id": settings.env.id, "run.seed": settings.run.seed}
    return _changed(folder, (*_FIXED, "run.seed"), flags=flags, sets=layers["sets"])


def note_no_end(config: Config, output: Output) -> None:
    """Says so where nothing but a signal ends the training."""
    run = config.run
    if (run.goal, run.max_seconds, run.max_env_steps, run.max_learner_steps) == (None,) * 4:
        output.note(
            f"{config.env.id} has neither goal nor budget here: Ctrl-C ends it, "
            "or give run.goal or run.max_seconds"
        )


def resumed(config: Config, *, again: bool = False) -> RunFolder:
    """The folder of the run that goes on; again: with a learner that is started anew.

    Raises CheckpointMismatch where these settings make another network than the run's, or this
    version of drlnet does, or other tables than those of the replay that it kept; RunFolderError
    where there is nothing to go on from.
    """
    import torch

    from drlnet.algos import make_algorithm
    from drlnet.config import changes, repeatable
    from drlnet.envs import find_spaces
    from drlnet.nets.params import load_state

    folder, spaces = RunFolder(Path(str(config.run.folder))), find_spaces(config.env)
    # Not the number format that a learner would measure first: the params are the same in each.
    algorithm = make_algorithm(repeatable(config), spaces)
    kept, _ = load_state(folder.learner_path, algorithm.architecture)
    if config.run.keep_replay and folder.replay_path.is_dir():
        before = folder.read_config()
        if algorithm.tables() != make_algorithm(repeatable(before), spaces).tables():
            now, then = changes(config, before), changes(before, config)
            changed = [
                f"{key} = {then.get(key)!r}, not {value!r}"
                for key, value in now.items()
                if not key.startswith("run.")
            ]
            raise CheckpointMismatch(
                f"the replay that {folder.path} has kept was made with {'; '.join(changed)}",
                f"leave that out, or begin with an empty replay: remove {folder.replay_path}",
            )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a process that has started others cannot be forked
    try:
        algorithm.learner("cpu", 0).load_state_dict(kept["learner"])
    finally:
        torch.set_num_threads(threads)
    return RunFolder.reopen(config, again=again)


@contextmanager
def learn_view(folder: RunFolder, server: str, output: Output) -> Iterator[None]:
    """Shows the progress of a learner while it runs, by readings of its server.

    A client of its own on a thread of its own: the learner's loop knows nothing of it.
    """
    ended, config = threading.Event(), folder.read_config()
    title = f"drlnet learn {config.env.id} · seed {config.run.seed}"
    where = "" if server == DEFAULT_ADDRESS else f" --server {server}"
    view = ProgressView(
        title,
        goal=config.run.goal,
        file=output.notes,
        min_size=config.replay.min_size,
        actor_command=f"drlnet actor {config.env.id}{where}",
        run=folder.path.name,
        hint=f"drlnet stats {typed(folder.path)}",
    )

    def follow() -> None:
        from drlnet.client import Client

        client: Client | None = None
        while not ended.is_set():
            try:
                if client is None:
                    client = Client(server, name="view", timeout=_ATTEMPT_S)
                    client.set_timeout(_ANSWER_DEADLINE_S)
                view.show({**client.stats(), "run.phase": "training"})
            except (TransportError, ReplayTimeout, SessionLost):
                client = None  # it may start later, or come back: the learner waits longer
            except DrlnetError:
                return  # the learner meets the same error, and it is the one to report it
            ended.wait(READING_INTERVAL_S)

    thread = threading.Thread(target=follow, name="view", daemon=True)
    with view:
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(timeout=5.0)


def finish(
    config: Config, folder: RunFolder, learned: LearnResult, output: Output, stop: Stop
) -> None:
    """Plays the report's episodes with the checkpoint's params, prints and keeps the result.

    When it was or is interrupted, the result is what the gate found best. Raises RunFolderError at
    the end where the folder does not hold everything.
    """
    if learned.stopped == "interrupted" and not learned.learner_steps:
        output.note("interrupted before the first learner step; there is no checkpoint")
        return
    from drlnet.roles.evaluate import Evaluation, evaluate

    episodes = config.eval.report_episodes
    try:
        with stop.interrupts():
            output.note(f"evaluating {episodes} greedy episodes")
            played = evaluate(
                config,
                learned.params,
                episodes,
                max_seconds=learned.report_seconds,
                told=_Told(episodes, output),
            )
        stopped: str = learned.stopped
    except KeyboardInterrupt:
        played, stopped = Evaluation([], 0, episodes), "interrupted"
    made_by = {
        "env_steps": learned.env_steps,
        "learner_steps": learned.learner_steps,
        "eval_learner_steps": learned.best_learner_steps,
    }
    result = result_of(config, folder, played, made_by, stopped)
    if stopped == "interrupted":
        result = replace(
            result,
            eval_return_mean=learned.gate_return_mean,
            eval_episodes=learned.gate_episodes,
        )
    announce(result, output)
    keep_result(folder, result, learned.failure)


def keep_result(folder: RunFolder, result: RunResult, failure: DrlnetError | None) -> None:
    """Writes the result; then raises what has kept the folder from holding everything, if any."""
    try:
        folder.write_result(result.to_json())
    except RunFolderError as error:
        raise failure or error from error
    if failure is not None:
        raise failure


@contextmanager
def failure_kept(
    config: Config, folder: RunFolder, outlived: Callable[[], dict[str, Any]] = dict
) -> Iterator[None]:
    """Keeps an error of the block as the result of the run, and passes it on. A run that went on,
    and took no learner step, is left as it was.

    outlived: what the run went on after until then, as fields of the result.

    Where an actor fails, the learner is told to end: the result that it has kept then says
    "interrupted", and is corrected here.
    """
    try:
        yield
    except Exception as error:
        # A disk that is full takes no result; the run's own error is the one to report.
        with suppress(RunFolderError, OSError):
            if not folder.put_back():  # nothing was learned since that result
                _keep_failure(config, folder, tell(error).cause, outlived())
        raise


def _keep_failure(
    config: Config, folder: RunFolder, cause: str, outlived: Mapping[str, Any]
) -> None:
    from drlnet.roles.evaluate import Evaluation

    known, nothing = folder.read_result(), Evaluation([], 0, 0)
    result = (
        RunResult.of(known)
        if known
        else result_of(config, folder, nothing, folder.last_reading("learner"), "failed")
    )
    result = replace(result, stopped="failed", failure=cause, **outlived)
    folder.write_result(result.to_json())


def note_failures(failures: Sequence[str], output: Output) -> None:
    """Lists what has failed in a run that went on."""
    if failures:
        count = "1 failure" if len(failures) == 1 else f"{len(failures)} failures"
        output.note(f"{count}, after which the run went on:")
    for failure in failures:
        output.note(f"  {failure}")


class _Told:
    """Says now and then how many episodes have been played."""

    def __init__(self, planned: int, output: Output) -> None:
        self._planned, self._output = planned, output
        self._event_s = self._line_s = time.monotonic()

    def __call__(self, played: int) -> None:
        now, progress = time.monotonic(), f"{played} of {self._planned}"
        if now >= self._event_s + READING_INTERVAL_S:
            self._event_s = now
            self._output.event("evaluating", progress=progress)
        if now >= self._line_s + _LINE_INTERVAL_S:
            self._line_s = now
            self._output.note(f"evaluating {progress}")


def result_of(
    config: Config, folder: RunFolder, played: Evaluation, made_by: Mapping[str, Any], stopped: str
) -> RunResult:
    """What was played, and how many steps it took to learn that."""
    summary = EvalSummary.of(played.returns)
    return RunResult(
        env=config.env.id,
        seed=config.run.seed,
        eval_return_mean=summary.mean,
        eval_return_std=summary.std,
        eval_return_median=summary.median,
        eval_episodes=summary.episodes,
        eval_planned_episodes=played.planned,
        eval_never_ended=played.never_ended,
        wall_clock_s=round(seconds_since_start(), 2),
        env_steps=int(made_by.get("env_steps") or 0),
        learner_steps=int(made_by.get("learner_steps") or 0),
        run_dir=str(folder.path),
        stopped=stopped,
        env_settings=asdict(config.env),
        eval_learner_steps=int(made_by.get("eval_learner_steps") or 0),
    )


def announce(result: RunResult, output: Output) -> None:
    """The result, for people and for scripts."""
    name = f"{result.env} seed {result.seed}"
    if result.stopped == "interrupted":
        best = "no greedy evaluation yet"
        if result.eval_episodes:
            best = (
                f"best greedy return {result.eval_return_mean:.1f} over {result.eval_episodes} "
                f"episodes, at learner step {result.eval_learner_steps:,}"
            )
        output.note(f"{name}: {best} (interrupted, {result.wall_clock_s:.1f} s)")
        note_failures(result.failures, output)
        output.note(f"the checkpoint is in {result.run_dir}")
        output.hint(f"drlnet eval {typed(result.run_dir)}", "plays it")
        output.result(result.to_json())
        return
    spread = f"{result.eval_return_mean:.1f} +- {result.eval_return_std:.1f}"
    planned = result.eval_planned_episodes
    played = f"{result.eval_episodes}"
    if result.eval_episodes < planned:
        played = f"{played} of {planned} planned (eval.max_report_seconds)"
    output.note(
        f"{name}: greedy return {spread} over {played} episodes "
        f"({result.stopped}, {result.wall_clock_s:.1f} s)"
    )
    if result.stopped == "budget" and not result.learner_steps:
        output.note("nothing was learned: the budget ended before the first learner step")
    note_failures(result.failures, output)
    output.note(f"run folder: {result.run_dir}")
    if result.stopped != "evaluated":
        folder = typed(result.run_dir)
        output.hint(f"drlnet plot {folder}", "its learning curve, latency and throughput")
        output.hint(f"drlnet eval {folder}", "its policy again, on other seeds with --seed")
        output.hint(f"drlnet sweep {result.env} --seeds 5", "the same with five seeds")
    output.result(result.to_json())
