"""The settings of everything: one frozen tree, each leaf with its default, help and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from drlnet.config import plugins
from drlnet.config.fields import setting, setting_from

APPEND_BURST_FLOOR = 512

# In words: `--help` does not wait for what knows them. A test holds them against it.
SAMPLERS = "prioritized, uniform, curriculum, fifo, amper-k, amper-fr, amper-fr-prefix"
TRANSPORTS = "udp, dpdk:local, dpdk:memif, dpdk:virtio-user"


@dataclass(frozen=True)
class EnvConfig:
    """Which environment, and how it is stepped."""

    id: str = setting("CartPole-v1", "gymnasium id of the environment")
    kwargs: dict[str, Any] = setting_from(dict, "keyword arguments for the environment")
    vectorization: Literal["sync", "async", "vector_entry_point"] = setting(
        "sync", "how gymnasium steps an actor's environments: in its process or one process each"
    )
    wrappers: tuple[str, ...] = setting(
        (), "gymnasium wrappers, innermost first: module:Name, as in my_module:MyWrapper"
    )
    max_steps_per_second: float | None = setting(
        None, "each of an actor's environments is slowed to this; none: as fast as it goes", above=0
    )


@dataclass(frozen=True)
class AlgoSettings:
    """What every algorithm has; each adds its own (see drlnet.algos)."""

    name: str = setting_from(
        lambda: plugins.names("algos")[0], "the algorithm, or your own: module:Name", flag="--algo"
    )

    @property
    def horizon(self) -> int:
        """Steps behind its anchor that an item reads at most, 0 for none."""
        return 0

    @property
    def period(self) -> int:
        """Steps between the anchors of a stream's items."""
        return 1

    def require_installed(self) -> None:
        """Raises NotInstalled where the learner needs a package that is missing."""


@dataclass(frozen=True)
class NetSettings:
    """What every network has; each adds its own (see drlnet.nets)."""

    name: str = setting_from(
        lambda: plugins.names("nets")[0], "the network, or your own: module:Name"
    )
    frame_stack: int = setting(
        1, "observations that the network sees together: the newest and those before it", low=1
    )


@dataclass(frozen=True)
class PolicySettings:
    """How an agent explores; each policy has its own settings (see drlnet.policies)."""

    where: Literal["actor", "central", "learner"] = setting(
        "actor",
        "where actions come from: each actor's own params, `drlnet infer` for all, or a thread of "
        "the learner",
    )


@dataclass(frozen=True)
class ReplayConfig:
    """The replay table at the server."""

    capacity: int = setting(
        50_000,
        "rows (steps) that the table holds; 0: in a queue, two unrolls of each environment",
        low=0,
        high=2**30,
    )
    sampler: str = setting("prioritized", f"how items are drawn: {SAMPLERS}")
    sampler_options: dict[str, float] = setting_from(
        dict,
        "the sampler's own settings; amper-*: {groups = 20, scale = 0.5}; "
        "curriculum: {fresh = 0.25, coverage = 0.5, useless = 0}",
    )
    min_size: int = setting(1_000, "live items before the first draw", low=1)
    samples_per_insert: float = setting(
        0.0, "draws of items per item inserted, held by the server's limiter; 0: no limit", low=0
    )
    max_times_sampled: int = setting(
        0,
        "draws after which an item retires; appends wait for them; 0: no limit",
        low=0,
        high=65535,
    )
    error_buffer: float | None = setting(
        None, "draws by which that ratio may be off either way; none: what cannot deadlock", low=0
    )
    batch_size: int = setting(128, "items in a learner's batch", low=1)
    prefetch: int = setting(2, "batches that the learner asks for ahead", low=0, high=64)
    rows: Literal["server", "learner", "device"] = setting(
        "server",
        "where a batch's rows lie: in the server's reply, or in the learner's mirror of the table, "
        "to which each row travels once; device: on learner.device, too",
    )


@dataclass(frozen=True)
class ActorConfig:
    """The actors."""

    num_actors: int = setting(1, "actor processes", low=1)
    envs_per_actor: int = setting(8, "environments that one actor steps together", low=1)
    fetch_period_steps: int = setting(50, "vector steps between looks for newer params", low=1)
    params_lag: int = setting(
        0,
        "versions by which an actor lags behind the newest params, to study that; 0: none",
        low=0,
        high=1000,
    )
    flush_rows: int = setting(8, "vector steps that one append carries", low=1, high=4096)
    device: str = setting(
        "cpu", "torch device of the inference role, which acts for all of them: cpu, cuda, cuda:1"
    )
    torch_threads: int = setting(1, "threads of torch in an actor", low=1)
    max_env_steps: int | None = setting(None, "steps after which an actor stops", low=1)
    max_wait_s: float | None = setting(
        None,
        "end an actor after its append has waited this long for the limiter; none: it waits",
        above=0,
    )


@dataclass(frozen=True)
class LearnerConfig:
    """The learner."""

    publish_period: int = setting(20, "learner steps between publications of params", low=1)
    report_interval_s: float = setting(1.0, "seconds between reports", above=0)
    save_period_s: float = setting(
        60.0, "seconds after which the learner's state is saved for --resume", above=0
    )
    processes: int = setting(
        1,
        "processes that learn together: each from its part of a draw, by averaged gradients",
        low=1,
    )
    torch_threads: int = setting(1, "threads of torch in each of the learner's processes", low=1)
    device: str = setting(
        "cpu", "torch device of the learner: cpu, cuda, cuda:1; of several processes cuda: one each"
    )
    echo: int = setting(1, "times that the learner uses each item drawn: data echoing", low=1)
    echo_buffer: int = setting(
        1, "draws whose items echoing mixes into new batches; 1: batches are repeated whole", low=1
    )


@dataclass(frozen=True)
class EvalConfig:
    """Greedy evaluation: a gate that decides when to stop, and what is then reported."""

    period: int = setting(500, "learner steps between evaluations of the newest params", low=1)
    gate_episodes: int = setting(20, "episodes of the gate", low=1)
    report_episodes: int = setting(100, "episodes of the report, on other seeds", low=1)
    num_envs: int = setting(20, "environments; each plays the same number of episodes", low=1)
    max_report_seconds: float = setting(
        60.0, "the report ends after this long, with the episodes that have ended by then", above=0
    )
    max_episode_steps: int | None = setting(
        None,
        "steps after which an episode counts as never ended; none: the environment's, or 27000",
        low=1,
    )


@dataclass(frozen=True)
class ServerConfig:
    """The replay server."""

    listen: tuple[str, ...] = setting(
        ("udp://127.0.0.1:7447",),
        "where to listen; repeatable; port or name 0 picks a free one",
    )
    poll: Literal["busy", "adaptive", "block"] = setting(
        "adaptive", "how a process waits for packets: spin, spin briefly, or sleep"
    )
    shards: int = setting(
        1,
        "poll loops, each on its own thread with its part of every table; clients find the others "
        "by the first one's address",
        low=1,
        high=64,
    )
    elsewhere: int = setting(
        0, "shards beside these that other hosts bring, with server.join", low=0, high=63
    )
    join: str | None = setting(
        None, "ADDRESS of a server whose server.elsewhere these shards are, on another host"
    )
    sampler: str | None = setting(
        None, f"sampler of every table: {SAMPLERS}; none: the one that a table's clients ask for"
    )
    sampler_options: dict[str, float] = setting_from(dict, "that sampler's own settings")
    index_only: bool = setting(
        False,
        "keep keys, links and priorities, but no rows: for learners with replay.rows = learner",
    )
    limits: dict[str, int] = setting_from(
        dict,
        "how far clients may make something grow, by name: `drlnet help security`",
    )
    insecure: bool = setting(
        False, "allow addresses that other machines can reach, without keys as well"
    )
    metrics: str | None = setting(
        None, "HOST:PORT where Prometheus reads the metrics, at /metrics; port 0 picks a free one"
    )
    state: str | None = setting(
        None,
        "folder that keeps the server's state: replay, priorities, params, streams; none: nowhere",
    )
    durability: float = setting(
        1.0,
        "seconds after which what was acknowledged is on disk, with server.state; 0: before it is "
        "acknowledged",
        low=0,
        high=7 * 24 * 3600,
    )
    transport: str = setting("udp", f"what the processes of `drlnet run` talk over: {TRANSPORTS}")

    @property
    def all_shards(self) -> int:
        """Those of other hosts counted."""
        return self.shards + self.elsewhere


@dataclass(frozen=True)
class RunConfig:
    """When a run ends, and where it is kept."""

    seed: int = setting(0, "every random number follows from it", low=0, high=2**31 - 1)
    goal: float | None = setting(None, "stop at this mean greedy return")
    max_seconds: float | None = setting(
        None, "stop training this many seconds after the command began", above=0
    )
    max_env_steps: int | None = setting(None, "stop after this many steps of all actors", low=1)
    max_learner_steps: int | None = setting(None, "stop after this many learner steps", low=1)
    actor_restarts: int = setting(
        3, "restarts in a minute of actors that a signal ended (a crash, no memory)", low=0
    )
    learner_restarts: int = setting(
        3,
        "restarts in a minute of a learner, or a server that keeps its state, that a signal ended",
        low=0,
    )
    folder: str | None = setting(None, "the run's folder; none: runs/<env>-<time>-<seed>")
    keep_replay: bool = setting(
        False, "keep the replay in the run's folder, too, so that --resume goes on with it"
    )
    resume: bool = setting(False, "go on from the learner's state in run.folder: see --resume")
    sinks: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = setting(
        ("tensorboard",), "where the curves go beside metrics.jsonl: tensorboard, wandb, mlflow"
    )
    record: Literal["main", "all"] = setting(
        "main", "what metrics.jsonl and the sinks keep: the main curves, or every figure"
    )
    serial: bool = setting(
        False, "all in one process, reproducible bit by bit; wants a budget in steps"
    )


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    env: EnvConfig = setting_from(EnvConfig, "the environment")
    algo: AlgoSettings = setting_from(AlgoSettings, "the algorithm")
    net: NetSettings = setting_from(NetSettings, "the network")
    policy: PolicySettings = setting_from(PolicySettings, "exploration")
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
