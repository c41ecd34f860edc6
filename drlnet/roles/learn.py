"""The learner: batches in, priorities and params out, until the goal or a budget is reached."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from drlnet.algos import Learner, Params, make_algorithm, returned
from drlnet.client import Client
from drlnet.config import Config
from drlnet.envs import find_spaces
from drlnet.errors import AnotherPublisher, BadPriority, RunFolderError
from drlnet.learning.feed import Feed
from drlnet.learning.ranks import Place, Ranks, meeting
from drlnet.metrics import RunFolder, RunRecords
from drlnet.metrics.stages import Rates, Stages
from drlnet.metrics.usage import gpu_figures, process_figures
from drlnet.nets.memory import keep_freed_memory
from drlnet.nets.params import load_state, pack, pack_state, save
from drlnet.roles.divergence import refused, require_finite
from drlnet.roles.evaluator import Evaluated, heard
from drlnet.roles.gate import Best, Gate, read_best, write_best
from drlnet.roles.infer import inferring
from drlnet.roles.reach import UNANSWERED, parting, reach
from drlnet.roles.run_at_server import progress, tell_progress, tell_settings
from drlnet.roles.seeds import role_seed
from drlnet.roles.stop import Stop
from drlnet.roles.tables import open_tables

Reason = Literal["goal", "budget", "interrupted"]
_LISTEN_S = 0.2  # between looks at what the evaluator reports
_SILENT_S, _RETRY_S = 4.0, 0.2  # a publisher that was killed has lost its place by then


@dataclass(frozen=True)
class LearnResult:
    """What a learner did. Its checkpoint holds the params that the gate found best."""

    stopped: Reason
    learner_steps: int
    env_steps: int
    gate_return_mean: float  # of these params; NaN when they were not evaluated
    gate_episodes: int  # that it is the mean of
    best_learner_steps: int  # that made these params
    wall_clock_s: float
    params: Params  # those of the checkpoint
    report_seconds: float | None = None  # what is left for the report; None: as long as it takes
    failure: RunFolderError | None = None  # why the run's folder does not hold all of it


def learn(
    config: Config,
    server: str,
    run: RunFolder,
    stop: Stop,
    note: Callable[[str], None],
    *,
    take_over: bool = False,
    place: Place | None = None,
) -> LearnResult:
    """The learner process. Errors: ReplayTimeout when no batch comes; RoleFailed; the client's own.

    What was learned until then is kept in the run's folder. KeyboardInterrupt when stopped before
    there is anything to keep. note: told that the server is waited for. take_over: publishing, from
    another learner. place: that of rank 0, where other processes learn along.
    """
    torch.set_num_threads(config.learner.torch_threads)
    keep_freed_memory()
    with (
        reach(
            server, "learner", config.server.poll, stop, note, kept=config.run.keep_replay
        ) as client,
        meeting(place, stop.is_set, config.learner.device) as ranks,
    ):
        with stop.interrupts():
            if take_over:
                client.take_over()
            learning = Learning(config, client, run, stop, ranks)
        with inferring(config, server, stop, note):
            try:
                _learn(learning, stop)
                return learning.close()
            except Exception as error:  # its algorithm may be a user's
                learning.keep(sound=not isinstance(error, BadPriority))
                raise


def _learn(learning: Learning, stop: Stop) -> None:
    feed = learning.feed
    while not learning.finished(stop.is_set()):
        try:
            if not feed.due:
                learning.step()
                continue
            with stop.interrupts():
                feed.draw()
        except KeyboardInterrupt:
            continue
        except UNANSWERED:
            if not stop.is_set():
                raise  # else the server has ended first


class Learning:
    """The learner's state and one step of it. Not thread-safe."""

    def __init__(
        self,
        config: Config,
        client: Client,
        run: RunFolder,
        stop: Stop,
        ranks: Ranks | None = None,
    ):
        self._config, self._client, self._run, self._stop = config, client, run, stop
        self._ranks = ranks or Ranks()
        self._started = time.monotonic()
        self._stages = Stages("sample", "learn", "update", "publish", "evaluate")
        self.algorithm = make_algorithm(config, find_spaces(config.env))
        seed = role_seed(config.run.seed, "learner")
        device = self._ranks.device(config)
        self._learner: Learner = returned.made(self.algorithm, "learner", device, seed)
        tables = open_tables(client, self.algorithm)
        sizes = [table.batch_size for table in self.algorithm.tables().values()]
        self._batch_size = max(sizes) if self.algorithm.splits_rows else sum(sizes)
        echo_seed = role_seed(config.run.seed, "echo")
        self.feed = Feed(
            self.algorithm, tables, echo_seed, self._learner, client.stats,
            parts=self._ranks.count, device=device,
        )  # fmt: skip
        self._env_steps_before = self._env_steps = 0  # before: of the run that it goes on from
        self._stopped: Reason | None = None
        # In this start of the run: a --resume, or another goal, is to be reached anew.
        self._goal = f"{config.run.goal} since {run.started_s}"
        if config.run.resume:
            self._restore()
        self._ranks.attach(self._learner, self.algorithm, over=self._stopped is not None)
        best = read_best(run, self.algorithm.architecture)
        # A serial run evaluates its params itself; else an evaluator does, and reports.
        self._gate = Gate(config, stop, best) if config.run.serial else None
        self._saved_s = self._listened_s = self._started
        self._unsaved: RunFolderError | None = None
        self._evaluated = Evaluated()
        self._evaluated_steps = 0
        self._figures: Mapping[str, float | torch.Tensor] = {}
        self._params_version = self._first_version = 0
        self._records = RunRecords(run, config)
        self._stages.ended("other")
        self._rates = Rates(steps=self._learner.steps)
        self._begin_publishing()  # actors wait for the first params
        tell_settings(client, config)
        self._tell_progress()
        self._first_version = self._params_version

    def step(self) -> None:
        """Learns from the feed's next batches; publishes and reports when it is time to."""
        config, stages, batches = self._config, self._stages, self.feed.take()
        stages.ended("sample")
        spent = self._spent()
        for batch in batches.values():
            batch.env_steps += self._env_steps_before
            batch.spent = spent
        if not self._ranks.agree(batches):
            self._stopped = "interrupted"
            return
        learned = returned.stepped(self.algorithm, self._learner, batches)
        self._ranks.end_step()
        self._figures = learned.figures
        stages.ended("learn")
        try:
            for name, priorities in learned.priorities.items():
                self.feed.update(name, priorities)
        except BadPriority as error:
            raise refused(config, error) from error
        stages.ended("update")
        self._env_steps = max(batch.env_steps for batch in batches.values())
        if learned.save:
            self._save_state()
        if self._learner.steps % config.learner.publish_period == 0:
            self._publish()
        self._evaluate()
        saves = time.monotonic() - self._saved_s >= config.learner.save_period_s
        reports = self._rates.due(config.learner.report_interval_s)
        if saves or reports:
            require_finite(config.env.id, self._figures)
        if saves:
            self._save_state()
        if reports:
            self._report()
        stages.ended("other")

    def finished(self, interrupted: bool) -> bool:
        """Whether the goal or a budget is reached, or the stop flag was set."""
        if self._stopped is None and (interrupted or self._spent() >= 1):
            self._stopped = "interrupted" if interrupted else "budget"
        return self._stopped is not None

    def _spent(self) -> float:
        """The share of the run's budget that is spent: of seconds or of steps, the larger."""
        run = self._config.run
        seconds = run.max_seconds and self._run.age_s() / run.max_seconds
        env_steps = run.max_env_steps and self._env_steps / run.max_env_steps
        learner_steps = run.max_learner_steps and self._learner.steps / run.max_learner_steps
        return max(seconds or 0.0, env_steps or 0.0, learner_steps or 0.0)

    def close(self) -> LearnResult:
        """Evaluates the newest params where a budget ended the run; saves the best; sums up."""
        self._ranks.end()
        require_finite(self._config.env.id, self._figures)
        limit = None if self._config.run.serial else self._config.eval.max_report_seconds
        begun = time.monotonic()
        best = self._best()
        if self._stopped == "budget" and self._evaluated_steps != self._learner.steps:
            looked = self._last_look(best, None if limit is None else limit / 2)
            best = max(looked, self._best(), key=lambda one: one.key)  # the evaluator went on, too
        try:
            if self._learner.steps or self._stopped != "interrupted":
                self._save(best)
                self._save_state()
        except RunFolderError as error:  # the result can be told all the same
            self._unsaved = error
        with parting(self._client):
            self.feed.flush()
            self._report(last=True)
        self._records.close()
        return LearnResult(
            stopped=self._stopped or "interrupted",
            learner_steps=self._learner.steps,
            env_steps=self._env_steps,
            gate_return_mean=best.mean,
            gate_episodes=best.episodes(self._config.eval),
            best_learner_steps=best.learner_steps,
            wall_clock_s=time.monotonic() - self._started,
            params=best.params,
            report_seconds=None if limit is None else limit - (time.monotonic() - begun),
            failure=self._unsaved or self._records.failure,
        )

    def keep(self, *, sound: bool = True) -> None:
        """Saves what was learned until an error. sound: else the newest params are not worth it."""
        try:
            if sound and self._learner.steps:
                self._save(self._best())
                self._save_state()  # last: a user's state may be what cannot be stored
            elif best := self._found():
                self._save(best)
        finally:
            self._records.close()

    def _save(self, best: Best) -> None:
        facts = self._facts(best.learner_steps)
        write_best(self._run.checkpoint_path, best, self.algorithm.architecture, facts)
        self._run.best_path.unlink(missing_ok=True)  # the checkpoint has them now

    def _save_state(self) -> None:
        """Keeps all that the learner goes on from; the server's rows are the server's to keep.

        Where it cannot be written, the run goes on, and its result says so.
        """
        state = {"learner": self._learner.state_dict(), "torch_rng": torch.get_rng_state()}
        state["env_steps"] = self.feed.env_steps
        facts = {**self._facts(self._learner.steps), "run_dir": str(self._run.path)}
        facts["reached"] = self._goal if self._stopped == "goal" else ""
        self._saved_s = time.monotonic()
        try:
            save(self._run.learner_path, pack_state(state, self.algorithm.architecture, facts))
        except RunFolderError as error:
            self._unsaved = self._unsaved or error

    def _restore(self) -> None:
        path = self._run.learner_path
        state, facts = load_state(path, self.algorithm.architecture)
        self._learner.load_state_dict(state["learner"])
        torch.set_rng_state(state["torch_rng"])
        told = progress(self._client)
        # A server that has counted the run's steps until now goes on to count them, wherever
        # the run's folder is by now.
        counted = told.get("run_dir", "") in (facts.get("run_dir"), str(self._run.path))
        if counted:
            self.feed.env_steps.update(state.get("env_steps", {}))
        before = told["env_steps_before"] if counted else facts["env_steps"]
        self._env_steps_before, self._env_steps = int(before), int(facts["env_steps"])
        if facts.get("reached") == self._goal:
            self._stopped = "goal"  # nothing plays any more

    def _best(self) -> Best:
        """The params that the gate found best, or the newest ones before it has evaluated any."""
        newest = Best(self._learner.params(), self._learner.steps, math.nan, False)
        return self._found() or newest

    def _found(self) -> Best | None:
        if self._gate is not None:
            return self._gate.best
        return read_best(self._run, self.algorithm.architecture)

    def _last_look(self, best: Best, max_seconds: float | None) -> Best:
        """The newest params may be the best."""
        known = None if math.isnan(best.mean) else best
        gate = self._gate or Gate(self._config, self._stop, known)
        try:
            if gate.evaluate(self._learner.params(), self._learner.steps, max_seconds):
                self._stopped = "goal"
        except KeyboardInterrupt:
            return best  # it is kept without that look
        self._stages.ended("evaluate")
        best_mean = gate.best.mean if gate.best else math.nan
        self._evaluated = Evaluated(gate.last_mean, best_mean, self._learner.steps)
        return gate.best or best

    def _evaluate(self) -> None:
        """Learns what is known of the newest params; the goal may be reached."""
        steps = self._learner.steps
        if self._gate is None:
            if time.monotonic() - self._listened_s >= _LISTEN_S:
                self._listened_s = time.monotonic()
                self._evaluated = heard(self._client, self._first_version) or self._evaluated
                self._evaluated_steps = self._evaluated.learner_steps
        elif steps % self._config.eval.period == 0:
            self._evaluated_steps = steps
            try:
                reached = self._gate.evaluate(self._learner.params(), steps)
            except KeyboardInterrupt:
                reached = False  # what was learned is kept without that look
            best = self._gate.best
            self._evaluated = Evaluated(
                self._gate.last_mean, best.mean if best else math.nan, steps, reached
            )
            self._stages.ended("evaluate")
        if self._evaluated.goal_reached:
            self._stopped = "goal"

    def _begin_publishing(self) -> None:
        """Publishes; AnotherPublisher where another client that lives does."""
        given_up_s = time.monotonic() + _SILENT_S
        while True:
            try:
                return self._publish()
            except AnotherPublisher:
                if time.monotonic() > given_up_s or self._stop.wait(_RETRY_S):
                    raise

    def _publish(self) -> None:
        actor = self._config.actor
        own = {
            "run": self._run.path.name,
            "env_steps_before": str(self._env_steps_before),
            "streams": str(actor.num_actors * actor.envs_per_actor),
        }
        facts = {**self._facts(self._learner.steps), **own}
        self._params_version = self._client.publish(
            pack(self._learner.params(), self.algorithm.architecture, facts)
        )
        self._stages.ended("publish")

    def _tell_progress(self) -> None:
        told = {
            **self._facts(self._learner.steps),
            "run_dir": str(self._run.path),
            "env_steps_before": self._env_steps_before,
            "eval_return_best": self._evaluated.best_mean,
        }
        tell_progress(self._client, self._config, self._run.path.name, told)

    def _facts(self, learner_steps: int) -> dict[str, str]:
        return {
            "env": self._config.env.id,
            "learner_steps": str(learner_steps),
            "env_steps": str(self._env_steps),
        }

    def _report(self, *, last: bool = False) -> None:
        steps, stages = self._learner.steps, self._stages.read()
        per_s = self._rates.read(steps=steps, sample_s=stages["stage.sample_s"])
        own: dict[str, float | int | str] = {
            "role": "learner",
            "run": self._run.path.name,
            "learner_steps": steps,
            "learner_steps_per_s": per_s["steps"],
            "env_steps": self._env_steps,
            "eval_return": self._evaluated.mean,
            "eval_return_best": self._evaluated.best_mean,
            "eval_learner_steps": self._evaluated.learner_steps,
            "sample_wait_share": per_s["sample_s"],
            "params_version": self._params_version,
            "batch_size": self._batch_size,
            **self.feed.figures(),
            **stages,
            **process_figures(),
            **gpu_figures(self._ranks.device(self._config)),
        }
        values = returned.reading(self.algorithm, "step", own, self._figures)
        self._client.report(values)
        self._tell_progress()
        self._records.add(values, self._client.stats(), last=last)
