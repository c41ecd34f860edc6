"""The settings of everything: one frozen tree, each leaf with its default, help and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from drlnet.config.fields import setting, setting_from

APPEND_BURST_FLOOR = 512


@dataclass(frozen=True)
class EnvConfig:
    """Which environment, and how it is stepped."""

    id: str = setting("CartPole-v1", "gymnasium id of the environment")
    kwargs: dict[str, Any] = setting_from(dict, "keyword arguments for gymnasium.make_vec")
    vectorization: Literal["sync", "async", "vector_entry_point"] = setting(
        "sync", "how gymnasium steps an actor's environments: in its process or one process each"
    )


@dataclass(frozen=True)
class AlgoConfig:
    """What every algorithm has. The algorithm's own section is chosen by its name."""

    name: str = setting("dqn", "the algorithm")

    @property
    def horizon(self) -> int:
        """Steps behind its anchor that an item reads at most, 0 for none."""
        return 0


@dataclass(frozen=True)
class DqnConfig(AlgoConfig):
    """Deep Q-learning: double, dueling, n-step, prioritized."""

    n_step: int = setting(3, "steps of reward before the bootstrap", low=1, high=1000)
    gamma: float = setting(0.99, "discount per step", low=0, high=1)
    double: bool = setting(True, "choose the next action by the online network")
    dueling: bool = setting(True, "separate value and advantage streams")
    hidden_sizes: tuple[int, ...] = setting((128, 128), "units of each hidden layer", low=1)
    learning_rate: float = setting(5e-4, "Adam's learning rate", above=0)
    adam_epsilon: float = setting(1e-8, "Adam's epsilon", above=0)
    max_grad_norm: float = setting(10.0, "gradients are scaled down to this norm", above=0)
    target_period: int = setting(100, "learner steps between copies to the target net", low=1)

    @property
    def horizon(self) -> int:
        """Those of its return."""
        return self.n_step


@dataclass(frozen=True)
class ReplayConfig:
    """The replay table at the server."""

    capacity: int = setting(50_000, "rows (steps) that the table holds", low=1, high=2**30)
    sampler: str = setting("prioritized", "how items are drawn; the server names its samplers")
    sampler_options: dict[str, float] = setting_from(
        dict, "the sampler's own settings; amper-*: {groups = 20, scale = 0.5}"
    )
    priority_exponent: float = setting(0.6, "alpha: stored priority is p^alpha", low=0, high=4)
    importance_exponent_start: float = setting(0.4, "beta at the first learner step", low=0)
    importance_exponent_end: float = setting(1.0, "beta at the end of its annealing", low=0)
    importance_anneal_steps: int | None = setting(
        None, "learner steps over which beta goes to its end; none: run.max_learner_steps", low=1
    )
    min_size: int = setting(1_000, "live items before the first draw", low=1)
    samples_per_insert: float = setting(
        0.0, "draws of items per item inserted, held by the server's limiter; 0: no limit", low=0
    )
    error_buffer: float | None = setting(
        None, "draws by which that ratio may be off either way; none: what cannot deadlock", low=0
    )
    batch_size: int = setting(128, "items in a learner's batch", low=1)
    prefetch: int = setting(2, "batches that the learner asks for ahead", low=0, high=64)


@dataclass(frozen=True)
class ActorConfig:
    """The actors."""

    num_actors: int = setting(1, "actor processes", low=1)
    envs_per_actor: int = setting(8, "environments that one actor steps together", low=1)
    epsilon_base: float = setting(0.4, "epsilon = base^(1 + exponent x u)", low=0, high=1)
    epsilon_exponent: float = setting(7.0, "the spread of the exploration ladder", low=0)
    ladder: Literal["radical", "apex"] = setting(
        "radical", "u: radical inverse of the stream's ordinal, or index / total as in Ape-X"
    )
    fetch_period_steps: int = setting(50, "vector steps between looks for newer params", low=1)
    flush_rows: int = setting(8, "vector steps that one append carries", low=1, high=4096)
    torch_threads: int = setting(1, "threads of torch in an actor", low=1)
    max_env_steps: int | None = setting(None, "stop an actor after so many steps", low=1)


@dataclass(frozen=True)
class LearnerConfig:
    """The learner."""

    publish_period: int = setting(20, "learner steps between publications of params", low=1)
    eval_period: int = setting(500, "learner steps between looks at the goal", low=1)
    report_interval_s: float = setting(1.0, "seconds between reports", above=0)
    torch_threads: int = setting(1, "threads of torch in the learner", low=1)
    device: str = setting("cpu", "torch device of the learner: cpu, cuda, cuda:1")


@dataclass(frozen=True)
class EvalConfig:
    """Greedy evaluation: a gate that decides when to stop, and what is then reported."""

    gate_episodes: int = setting(20, "episodes of the gate", low=1)
    report_episodes: int = setting(100, "episodes of the report, on other seeds", low=1)
    num_envs: int = setting(20, "environments; each plays the same number of episodes", low=1)
    max_episode_steps: int | None = setting(
        None,
        "steps after which an episode counts as never ended; none: the environment's, or 27000 "
        "(vector_entry_point: only where it takes max_episode_steps)",
        low=1,
    )


@dataclass(frozen=True)
class ServerConfig:
    """The replay server."""

    listen: tuple[str, ...] = setting(("udp://127.0.0.1:7447",), "addresses to listen on")
    poll: Literal["busy", "adaptive", "block"] = setting(
        "adaptive", "how a process waits for packets: spin, spin briefly, or sleep"
    )
    shards: int = setting(
        1, "poll loops, each on its own thread with its part of every table", low=1, high=64
    )
    sampler: str | None = setting(
        None, "how items are drawn in every table; none: as the clients of a table ask"
    )
    sampler_options: dict[str, float] = setting_from(dict, "that sampler's own settings")
    insecure: bool = setting(False, "allow listening beyond this machine, unauthenticated")
    metrics: str | None = setting(
        None, "HOST:PORT where Prometheus reads the server's metrics; port 0 picks a free one"
    )
    transport: str = setting(
        "udp", "what the processes of `drlnet run` talk over: udp, dpdk:local, dpdk:memif, ..."
    )


@dataclass(frozen=True)
class RunConfig:
    """When a run ends, and where it is kept."""

    seed: int = setting(0, "every random number follows from it", low=0, high=2**31 - 1)
    goal: float | None = setting(None, "stop when the gate's mean return reaches it")
    max_seconds: float | None = setting(None, "stop after so many seconds", above=0)
    max_env_steps: int | None = setting(None, "stop after so many steps of all actors", low=1)
    max_learner_steps: int | None = setting(None, "stop after so many learner steps", low=1)
    folder: str | None = setting(None, "the run's folder; none: runs/<env>-<time>-<seed>")
    tensorboard: bool = setting(True, "keep TensorBoard's event files in the run's folder, too")
    serial: bool = setting(False, "everything in one process and reproducible bit by bit")


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    env: EnvConfig = setting_from(EnvConfig, "the environment")
    algo: AlgoConfig = setting_from(DqnConfig, "the algorithm")
    replay: ReplayConfig = setting_from(ReplayConfig, "the replay table")
    actor: ActorConfig = setting_from(ActorConfig, "the actors")
    learner: LearnerConfig = setting_from(LearnerConfig, "the learner")
    eval: EvalConfig = setting_from(EvalConfig, "the evaluation")
    server: ServerConfig = setting_from(ServerConfig, "the server")
    run: RunConfig = setting_from(RunConfig, "the run")

    @property
    def append_burst(self) -> int:
        """Items that one append may create: what the limiter must be able to let through.

        Rounded up to a common floor, so that actors started by hand with other counts than the
        learner's config still agree with it on the table's settings.
        """
        return max(APPEND_BURST_FLOOR, self.actor.envs_per_actor * self.actor.flush_rows)
