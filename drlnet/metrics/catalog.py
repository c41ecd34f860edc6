"""Every metric, declared once: what a name in a reading means, its unit, where it is measured.

A reading is one flat dict from dotted names to numbers, texts and histograms. The table of
docs/metrics.md, the names for Prometheus and TensorBoard, and what plots read come from this list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

Kind = Literal["counter", "gauge", "histogram", "text"]
NAMES_KEPT = 1 << 18  # in caches: each actor has 63, and all names come up with every reading

# What may stand for a part of a name in angle brackets. Clients, tables and transports have the
# names that they were given, dots included; "op" stands for an operation of the protocol.
_LABELS = {
    "client": ".+",
    "table": ".+",
    "transport": ".+",
    "reason": "[a-z_]+",
    "limit": "[a-z_]+",
    "shard": "[0-9]+",
    "stage": "[a-z]+",
    "size": "[0-9]+",
}


@dataclass(frozen=True)
class Metric:
    """One kind of name. Counters only grow while their process lives; a histogram is of durations.

    pattern: a dotted name, in which <client> and the like stand for any.
    """

    pattern: str
    kind: Kind
    unit: str  # s, us, bytes, a share (of 1), or what is counted
    meaning: str
    where: str

    @property
    def labels(self) -> tuple[str, ...]:
        """The parts of the pattern in angle brackets."""
        return tuple(re.findall(r"<(\w+)>", self.pattern))


_Row = tuple[str, Kind, str, str]


def _section(prefix: str, where: str, *rows: _Row) -> list[Metric]:
    return [Metric(prefix + name, kind, unit, meaning, where) for name, kind, unit, meaning in rows]


_TRAFFIC: tuple[_Row, ...] = (
    ("frames_received", "counter", "frames", "packets of any kind received"),
    ("frames_sent", "counter", "frames", "packets sent"),
    ("bytes_received", "counter", "bytes", "bytes of these packets, with drlnet's headers"),
    ("bytes_sent", "counter", "bytes", "bytes of these packets, with drlnet's headers"),
)
_TIMES: tuple[_Row, ...] = (
    ("<op>.handling", "histogram", "us", "how long the server worked on a request"),
    ("<op>.queueing", "histogram", "us", "how long a whole request waited for the server's work"),
    ("<op>.latency", "histogram", "us", "from a call to its answer, as clients reported it"),
)
_LIMITER: _Row = (
    "limiter_wait_s.<reason>",
    "counter",
    "s",
    "time that requests waited for the limiter, up to now",
)
_PROCESS: tuple[_Row, ...] = (
    (
        "cpu_s",
        "counter",
        "s",
        "CPU time of all threads; an actor's includes its environments' processes",
    ),
    ("resident_bytes", "gauge", "bytes", "the process's memory in RAM"),
)

CATALOG: tuple[Metric, ...] = (
    *_section(
        "server.",
        "server",
        ("version", "text", "", "drlnet's version"),
        ("uptime_s", "gauge", "s", "time since the server started"),
        *_PROCESS,
        ("memory_bytes", "gauge", "bytes", "memory of all tables"),
        ("busy_s", "counter", "s", "time of the poll loop in rounds with work"),
        ("shard_busy_s.<shard>", "counter", "s", "the same of each shard, where there are several"),
        ("polls", "counter", "rounds", "rounds of the poll loop"),
        ("waits", "counter", "rounds", "rounds after which the poll loop slept"),
        ("clients", "gauge", "clients", "clients with a session"),
        ("reports_left_out", "gauge", "clients", "clients whose figures are missing: too many"),
        ("params_version", "gauge", "version", "version of the newest params; 0: none yet"),
        ("params_bytes", "gauge", "bytes", "size of the newest params"),
        ("shards_lost", "gauge", "shards", "shards of other hosts, lost with all they held"),
        ("blobs", "gauge", "blobs", "blobs that clients keep there: a run's settings, progress"),
        ("blob_bytes", "gauge", "bytes", "size of these blobs"),
        ("publishes_refused", "counter", "requests", "publications refused, of a second client"),
        ("publishers_replaced", "counter", "clients", "publishers that another client replaced"),
        ("waiting_requests", "gauge", "requests", "requests that wait for the limiter now"),
        ("expired_pulls", "counter", "pulls", "pulls of rows that were overwritten first"),
        ("half_open", "gauge", "clients", "clients that have only said hello"),
        ("request_bytes", "gauge", "bytes", "memory for requests that come in parts or wait"),
        ("put_off", "counter", "requests", "requests beyond a client's share, which waited a turn"),
        ("strangers_dropped", "counter", "frames", "frames of no session, beyond their share"),
        ("refused.<limit>", "counter", "times", "times that this limit refused or ended something"),
        ("sealed", "gauge", "0 or 1", "1: the server has keys and encrypts sessions over networks"),
        ("insecure", "gauge", "0 or 1", "1: it has no keys, and other machines can reach it"),
        ("handshakes", "counter", "sessions", "sessions of clients with a key that it knows"),
        ("handshakes_refused", "counter", "hellos", "hellos of clients with another key"),
        (
            "handshakes_deferred",
            "counter",
            "hellos",
            "hellos beyond 4 a turn or 4,096 a second, to be sent again",
        ),
        ("rights_refused", "counter", "requests", "requests that the key's role may not make"),
        ("drops.<reason>", "counter", "frames", "frames dropped, by what was wrong with them"),
        *_TIMES,
    ),
    *_section(
        "run.",
        "learner; drlnet stats adds it",
        ("name", "text", "", "name of the run's folder"),
        ("env", "text", "", "the run's environment"),
        ("algo", "text", "", "the run's algorithm"),
    ),
    *_section(
        "state.",
        "server that keeps its state (--state)",
        ("incarnation", "gauge", "starts", "starts of a server with this state"),
        ("record", "gauge", "records", "number of the newest record on disk"),
        ("behind_s", "gauge", "s", "age of the oldest change that is not on disk; 0: all is"),
        ("trouble", "text", "", "what the disk refuses at present; empty: nothing"),
        ("bytes_written", "counter", "bytes", "bytes written to disk"),
        ("rows_written", "counter", "rows", "rows written to disk, each once"),
        ("records", "counter", "records", "records written since the server started"),
        ("snapshots", "counter", "records", "those of them that hold all and begin a file"),
        ("failures", "counter", "attempts", "writes that the disk refused"),
        ("last_write_ms", "gauge", "ms", "from the cut of the newest record until it was on disk"),
        ("rows_to_load", "gauge", "rows", "rows of an earlier life whose columns are not read yet"),
    ),
    *_section(
        "inference.",
        "server, where policy.where is central",
        ("clients", "gauge", "clients", "connected clients that have asked for actions"),
        ("questions", "counter", "questions", "questions that they asked"),
        ("batches", "counter", "batches", "batches of questions that the inference role took"),
        ("waiting", "gauge", "questions", "questions that the inference role has not taken yet"),
        ("unanswered", "counter", "questions", "questions refused for want of an inference role"),
        ("straggler_s", "gauge", "s", "time since the answer to the client silent the longest"),
    ),
    *_section(
        "transport.<transport>.",
        "server, its listeners of a kind",
        ("clients", "gauge", "clients", "clients with a session over it"),
        ("frames_handed_over", "counter", "frames", "frames that came on another shard's queue"),
        *_TRAFFIC,
        *_TIMES,
    ),
    *_section(
        "table.<table>.",
        "server, its tables",
        ("rows", "gauge", "rows", "rows (steps) held"),
        ("capacity", "gauge", "rows", "rows that fit"),
        ("fill", "gauge", "share", "rows / capacity"),
        ("ring_bytes", "gauge", "bytes", "memory of the rows"),
        ("saved_bytes", "gauge", "bytes", "memory that server.index_only saves"),
        ("env_steps", "counter", "steps", "steps stored, without reset steps"),
        ("rows_ignored", "counter", "rows", "rows sent again that were held already"),
        ("rows_moved", "counter", "rows", "rows of a queue moved because they were still needed"),
        ("streams_leased", "gauge", "streams", "streams held by a client"),
        ("streams_orphaned", "gauge", "streams", "streams to be resumed: their client is gone"),
        ("live_items", "gauge", "items", "items that can be drawn"),
        ("pending_items", "gauge", "items", "items whose rows have not all come"),
        ("items_created", "counter", "items", "items created, those that wait for rows included"),
        ("items_drawn", "counter", "items", "items drawn into batches"),
        ("items_ignored", "counter", "items", "items of a resent append that were there already"),
        ("items_refused", "counter", "items", "items refused: rows gone, off the period, on LAST"),
        (
            "items_retired",
            "counter",
            "items",
            "items that ended: rows lost, draws used up, useless",
        ),
        ("samples_per_insert", "gauge", "draws per item", "draws per item since the table opened"),
        ("limiter_waits.<reason>", "counter", "requests", "requests that waited for the limiter"),
        _LIMITER,
        ("effective_items", "gauge", "items", "Kish's effective sample size of the priorities"),
        ("sampled_age", "histogram", "us", "age of a drawn item's row; one item a round"),
        ("sampled_versions_behind", "gauge", "versions", "params versions since then, recent mean"),
        ("priority_mass", "gauge", "priority", "sum of the stored priorities, p^alpha"),
        ("priority_maximum", "gauge", "priority", "largest priority so far, which a new item gets"),
        ("applied_updates", "counter", "priorities", "priorities updated"),
        ("stale_updates", "counter", "priorities", "updates ignored because their items were gone"),
    ),
    *_section(
        "peer.<client>.",
        "server, its side of a session",
        ("transport", "text", "", "transport that the client uses"),
        ("endpoint", "text", "", "the client's address"),
        ("role", "text", "", "role of its key; empty: the session is not sealed"),
        ("silent_s", "gauge", "s", "time since the server last heard the client"),
        ("frame_bytes", "gauge", "bytes", "size of the largest packet on this path"),
        *_TRAFFIC,
        ("duplicate_requests", "counter", "requests", "parts of unanswered ones that came again"),
        ("outstanding_reply_bytes", "gauge", "bytes", "bytes of replies requested, not yet sent"),
        ("waiting_for", "text", "", "why its oldest waiting request waits; empty: none does"),
        ("waiting_s", "gauge", "s", "how long that request has waited"),
        _LIMITER,
    ),
    *_section(
        "client.<client>.",
        "client, its side of a session",
        *_TRAFFIC,
        ("retransmissions", "counter", "frames", "frames sent again for want of an answer"),
        ("repulls", "counter", "pulls", "pulls repeated because part of a reply was lost"),
        ("probes", "counter", "frames", "those of these two that ask how things stand"),
        ("timeouts", "counter", "calls", "calls that lost 20 ms or more before a loss was noticed"),
        ("reconnects", "counter", "sessions", "sessions opened anew"),
        ("server_restarts", "counter", "starts", "restarts of the server with its state"),
        ("dropped_frames", "counter", "frames", "frames that made no sense to the client"),
        ("altered_frames", "counter", "frames", "frames dropped because of their checksum"),
        ("sealed", "gauge", "0 or 1", "1: its session is encrypted and authenticated"),
        ("forged_frames", "counter", "frames", "frames dropped: the server had not sealed them so"),
        ("replayed_frames", "counter", "frames", "frames dropped because they had come before"),
        ("duplicate_frames", "counter", "frames", "frames of replies that it had already"),
        ("frame_bytes", "gauge", "bytes", "size of the largest packet on this path"),
        ("smoothed_round_trip_us", "gauge", "us", "its estimate of the round trip"),
        ("window_bytes", "gauge", "bytes", "bytes of requests that may be under way"),
        ("credit_bytes", "gauge", "bytes", "bytes that the server granted it"),
        ("pull_window_bytes", "gauge", "bytes", "bytes of replies that it requests ahead"),
        ("window_waits", "counter", "calls", "calls that had to wait for credit or window"),
        ("window_wait_s", "counter", "s", "time that these calls waited"),
        ("<op>.latency", "histogram", "us", "from a call to its answer"),
    ),
    *_section(
        "client.<client>.",
        "actor, inference role, learner (each of its ranks) and evaluator",
        ("role", "text", "", "actor, infer, learner, rank, evaluator or run"),
        ("pid", "gauge", "process", "its process number on its machine"),
        *_PROCESS,
        ("threads", "gauge", "threads", "threads of the process"),
        ("run_delay_s", "counter", "s", "time that its main thread was ready without a core"),
        ("env_steps", "counter", "steps", "an actor's own steps; the learner's: of all actors"),
        ("params_version", "gauge", "version", "version in use; the learner's: its newest"),
        (
            "stage.<stage>_s",
            "counter",
            "s",
            "time in a stage of its loop; the stages are all of it",
        ),
    ),
    *_section(
        "client.<client>.",
        "actor",
        ("env_steps_per_s", "gauge", "steps/s", "rate over its last report interval"),
        ("episodes", "counter", "episodes", "episodes that ended"),
        ("return_mean", "gauge", "return", "mean return of its last 100 episodes, exploring"),
        ("return_last", "gauge", "return", "return of its newest episode"),
        (
            "epsilon_min",
            "gauge",
            "probability",
            "probability of a random action in its greediest environment",
        ),
        (
            "policy_lag",
            "gauge",
            "versions",
            "versions that its params are behind, at its last look",
        ),
        ("env_crashes", "gauge", "crashes", "crashes in the minute up to the newest one"),
        ("late_steps", "counter", "vector steps", "steps later than env.max_steps_per_second"),
    ),
    *_section(
        "client.<client>.",
        "inference role",
        ("actors", "gauge", "actors", "actors that it acts for"),
        ("questions_per_s", "gauge", "questions/s", "rate over its last report interval"),
        (
            "batches.<size>",
            "counter",
            "batches",
            "batches of up to that many actors, and more than half as many",
        ),
    ),
    *_section(
        "client.<client>.",
        "learner; with learner.processes each rank, too",
        ("run", "text", "", "name of its run's folder"),
        ("learner_steps", "counter", "steps", "learner steps so far"),
        ("learner_steps_per_s", "gauge", "steps/s", "rate over its last report interval"),
        ("loss", "gauge", "loss", "loss of its newest batch"),
        ("q_mean", "gauge", "return", "mean value of the actions in its newest batch"),
        ("importance_exponent", "gauge", "exponent", "beta of the importance weights"),
        ("consolidation", "gauge", "loss", "loss by the target network, of its newest batch"),
        ("consolidation_weight", "gauge", "factor", "lambda of that loss"),
        ("learning_rate", "gauge", "rate", "the optimizer's rate now"),
        ("updates", "counter", "updates", "gradient steps, if a learner step takes several"),
        ("frozen", "gauge", "0 or 1", "1: its lower layers are frozen"),
        ("value_error", "gauge", "loss", "mean squared error of the values in its newest batch"),
        ("entropy", "gauge", "nats", "entropy of the policy, mean over its newest batch"),
        ("ratio_mean", "gauge", "ratio", "learner's probability over the actor's, newest batch"),
        ("ratio_clipped_share", "gauge", "share", "share of these ratios above algo.rho_clip"),
        (
            "batch_policy_lag",
            "gauge",
            "steps",
            "learner steps since the params that played its newest batch, mean over its rows",
        ),
        ("sample_wait_share", "gauge", "share", "share of its time spent waiting for batches"),
        ("batch_size", "gauge", "items", "items in a batch; a rank's: in its part"),
        (
            "mirror.rows",
            "counter",
            "rows",
            "rows that came to its mirror, unless replay.rows = server",
        ),
        ("mirror.rows_behind", "gauge", "rows", "rows at the server that have not come yet"),
        ("mirror.memory_bytes", "gauge", "bytes", "memory of all rows of its mirror"),
        ("mirror.device_bytes", "gauge", "bytes", "memory of the rows on the learner's GPU"),
        ("mirror.drawn", "counter", "items", "items gathered from it"),
        ("mirror.replaced", "counter", "items", "items drawn anew because a row was overwritten"),
        ("mirror.wait_s", "counter", "s", "time that draws waited for rows on their way to it"),
        ("gpu_utilization", "gauge", "share", "share of time in which its GPU works"),
        ("gpu_memory_bytes", "gauge", "bytes", "GPU memory that the learner holds"),
    ),
    *_section(
        "client.<client>.",
        "drlnet run",
        ("phase", "text", "", "what the run is doing"),
        ("progress", "text", "", "how far it has come with that"),
        ("actor_restarts", "counter", "actors", "restarts of actors that a signal ended"),
        ("learner_restarts", "counter", "learners", "restarts of learners that a signal ended"),
    ),
    *_section(
        "client.<client>.",
        "evaluator, and learner",
        ("eval_return", "gauge", "return", "mean of greedy episodes with the newest params"),
        ("eval_return_best", "gauge", "return", "return of the best params: the checkpoint's"),
        ("eval_learner_steps", "gauge", "steps", "learner steps of the params evaluated last"),
    ),
    *_section(
        "client.<client>.",
        "evaluator",
        ("goal_reached", "gauge", "", "1: the newest params reached run.goal, twice"),
    ),
)


def _regex(pattern: str, labels: Mapping[str, str]) -> re.Pattern[str]:
    parts = re.split(r"<(\w+)>", pattern)  # literal, label, literal, label, ...
    return re.compile(
        "".join(
            f"(?P<{part}>{labels[part]})" if i % 2 else re.escape(part)
            for i, part in enumerate(parts)
        )
    )


@cache
def _regexes() -> list[tuple[re.Pattern[str], Metric]]:
    # Not above: `drlnet doctor` works without the extension, and says that it is missing.
    from drlnet.native import operation_names

    labels = {**_LABELS, "op": "|".join(operation_names())}
    return [(_regex(metric.pattern, labels), metric) for metric in CATALOG]


def matches(name: str) -> Iterator[tuple[Metric, dict[str, str]]]:
    """Yields the metric whose pattern a name fits (there is only one), with its labels' values."""
    for regex, metric in _regexes():
        found = regex.fullmatch(name)
        if found is not None:
            yield metric, found.groupdict()


@lru_cache(NAMES_KEPT)
def find(name: str) -> tuple[Metric, dict[str, str]] | None:
    """The metric of a name, with its labels; None for a figure that a client made up itself."""
    return next(matches(name), None)


def as_table() -> str:
    """The catalog in Markdown, as it stands in docs/metrics.md."""
    rows = ["| name | kind | unit | meaning | measured by |", "| --- | --- | --- | --- | --- |"]
    rows += [
        f"| `{one.pattern}` | {one.kind} | {one.unit} | {one.meaning} | {one.where} |"
        for one in CATALOG
    ]
    return "\n".join(rows)
