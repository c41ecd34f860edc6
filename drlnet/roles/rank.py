"""A rank: one of several learner processes. Rank 0 is the learner role, which alone publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from drlnet.algos import make_algorithm, returned
from drlnet.client import Client
from drlnet.config import Config
from drlnet.envs import find_spaces
from drlnet.errors import BadPriority, RoleFailed
from drlnet.learning.feed import Feed
from drlnet.learning.ranks import Place, Ranks, meeting
from drlnet.metrics.stages import Rates, Stages
from drlnet.metrics.usage import gpu_figures, process_figures
from drlnet.nets.memory import keep_freed_memory
from drlnet.roles.divergence import refused
from drlnet.roles.reach import reach
from drlnet.roles.seeds import role_seed
from drlnet.roles.stop import Stop
from drlnet.roles.tables import open_tables


def learn_along(
    config: Config, server: str, place: Place, stop: Stop, note: Callable[[str], None]
) -> None:
    """Learns with rank 0 until any of the ranks ends.

    Errors: RoleFailed where one of them is gone; those of the learner role.
    """
    torch.set_num_threads(config.learner.torch_threads)
    keep_freed_memory()
    with (
        reach(
            server,
            f"rank-{place.rank}",
            config.server.poll,
            stop,
            note,
            kept=config.run.keep_replay,
        ) as client,
        meeting(place, stop.is_set, config.learner.device) as ranks,
    ):
        try:
            _learn(Rank(config, client, ranks), ranks, stop)
        except RoleFailed:
            if not stop.is_set():
                raise


def _learn(rank: Rank, ranks: Ranks, stop: Stop) -> None:
    while not (ranks.over or stop.is_set()):
        if not rank.feed.due:
            if not rank.step():
                return
            continue
        try:
            with stop.interrupts():
                rank.feed.draw()
        except KeyboardInterrupt:
            continue
    ranks.end()


class Rank:
    """The state of a rank and one step of it. Not thread-safe."""

    def __init__(self, config: Config, client: Client, ranks: Ranks):
        self._config, self._client, self._ranks = config, client, ranks
        self._stages = Stages("sample", "learn", "update")
        self._algorithm = algorithm = make_algorithm(config, find_spaces(config.env))
        # The seed of rank 0: what a learner draws for a whole batch is the same for all parts.
        seed = role_seed(config.run.seed, "learner")
        device = ranks.device(config)
        self._learner = returned.made(algorithm, "learner", device, seed)
        tables = open_tables(client, algorithm)
        echo_seed = role_seed(config.run.seed, "echo")
        self.feed = Feed(
            algorithm, tables, echo_seed, stats=client.stats,
            rank=ranks.rank, parts=ranks.count, device=device,
        )  # fmt: skip
        ranks.attach(self._learner, algorithm)
        self._figures: Mapping[str, float | torch.Tensor] = {}
        self._stages.ended("other")
        self._rates = Rates(steps=self._learner.steps)

    def step(self) -> bool:
        """Learns from the feed's next batches; False where the ranks end instead."""
        stages, batches = self._stages, self.feed.take()
        stages.ended("sample")
        if not self._ranks.agree(batches):
            return False
        learned = returned.stepped(self._algorithm, self._learner, batches)
        self._ranks.end_step()
        self._figures = learned.figures
        stages.ended("learn")
        try:
            for name, priorities in learned.priorities.items():
                self.feed.update(name, priorities)
        except BadPriority as error:
            raise refused(self._config, error) from error
        stages.ended("update")
        if self._rates.due(self._config.learner.report_interval_s):
            self._report()
        stages.ended("other")
        return True

    def _report(self) -> None:
        steps, stages = self._learner.steps, self._stages.read()
        per_s = self._rates.read(steps=steps, sample_s=stages["stage.sample_s"])
        own: dict[str, float | int | str] = {
            "role": "rank",
            "learner_steps": steps,
            "learner_steps_per_s": per_s["steps"],
            "sample_wait_share": per_s["sample_s"],
            "batch_size": sum(len(batch) for batch in self.feed.batches.values()),
            **self.feed.figures(),
            **stages,
            **process_figures(),
            **gpu_figures(self._ranks.device(self._config)),
        }
        self._client.report(returned.reading(self._algorithm, "step", own, self._figures))
