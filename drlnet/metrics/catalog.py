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

# What may stand for a part of a name in angle brackets. Clients, tables and transports have the
# names that they were given, dots included; "op" stands for an operation of the protocol.
_LABELS = {
    "client": ".+",
    "table": ".+",
    "transport": ".+",
    "reason": "[a-z_]+",
    "limit": "[a-z_]+",
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
    ("frames_received", "counter", "frames", "received packets of any kind"),
    ("frames_sent", "counter", "frames", "sent packets"),
    ("bytes_received", "counter", "bytes", "of these packets, with our headers"),
    ("bytes_sent", "counter", "bytes", "of these packets, with our headers"),
)
_TIMES: tuple[_Row, ...] = (
    ("<op>.handling", "histogram", "us", "how long the server worked on a request"),
    ("<op>.queueing", "histogram", "us", "from a whole request to the work on it"),
    ("<op>.latency", "histogram", "us", "from a call to its answer, as clients reported it"),
)
_LIMITER: _Row = (
    "limiter_wait_s.<reason>",
    "counter",
    "s",
    "time that requests waited for the limiter, up to now",
)
_PROCESS: tuple[_Row, ...] = (
    ("cpu_s", "counter", "s", "CPU time, all threads; an actor's: and its environments' processes"),
    ("resident_bytes", "gauge", "bytes", "memory of the process that is in RAM"),
)

CATALOG: tuple[Metric, ...] = (
    *_section(
        "server.",
        "server",
        ("version", "text", "", "of drlnet"),
        ("uptime_s", "gauge", "s", "since it started"),
        *_PROCESS,
        ("memory_bytes", "gauge", "bytes", "of all tables"),
        ("busy_s", "counter", "s", "of the poll loop, in rounds that had something to do"),
        ("polls", "counter", "rounds", "of the poll loop"),
        ("waits", "counter", "rounds", "after which the poll loop slept"),
        ("clients", "gauge", "clients", "with a session"),
        ("reports_left_out", "gauge", "clients", "whose figures are missing here: too many"),
        ("params_version", "gauge", "version", "of the newest params; 0: none yet"),
        ("params_bytes", "gauge", "bytes", "of the newest params"),
        ("shards_lost", "gauge", "shards", "of other hosts, given up with all that they held"),
        ("blobs", "gauge", "blobs", "that clients keep there: their run's settings, progress"),
        ("blob_bytes", "gauge", "bytes", "of these blobs"),
        ("publishes_refused", "counter", "requests", "of a second client that would publish"),
        ("publishers_replaced", "counter", "clients", "by one that took over"),
        ("waiting_requests", "gauge", "requests", "that wait for the limiter now"),
        ("expired_pulls", "counter", "pulls", "for rows that were overwritten before they came"),
        ("half_open", "gauge", "clients", "that have said hello and nothing else"),
        ("request_bytes", "gauge", "bytes", "of memory for requests that come in parts or wait"),
        (
            "put_off",
            "counter",
            "requests",
            "beyond a client's share: they waited a turn",
        ),
        (
            "strangers_dropped",
            "counter",
            "frames",
            "of no session, beyond their share: not answered",
        ),
        (
            "refused.<limit>",
            "counter",
            "times",
            "that a limit refused or ended something",
        ),
        ("sealed", "gauge", "0 or 1", "the server has keys: sessions over networks are encrypted"),
        ("insecure", "gauge", "0 or 1", "it has none, and other machines can reach it"),
        ("handshakes", "counter", "sessions", "of clients that have shown a key which it knows"),
        ("handshakes_refused", "counter", "hellos", "of clients that have shown another one"),
        (
            "handshakes_deferred",
            "counter",
            "hellos",
            "beyond 4 a turn or 4,096 a second: sent again",
        ),
        ("rights_refused", "counter", "requests", "that the role of the client's key may not make"),
        ("drops.<reason>", "counter", "frames", "dropped, by what was wrong with them"),
        *_TIMES,
    ),
    *_section(
        "run.",
        "learner; drlnet stats adds it",
        ("name", "text", "", "of the run's folder"),
        ("env", "text", "", "its environment"),
        ("algo", "text", "", "its algorithm"),
    ),
    *_section(
        "state.",
        "server that keeps its state (--state)",
        ("incarnation", "gauge", "starts", "of the server with this state"),
        ("record", "gauge", "records", "the number of the newest one on disk"),
        ("behind_s", "gauge", "s", "since the oldest change that is not on disk; 0: all is"),
        ("trouble", "text", "", "what the disk refuses at present; empty: nothing"),
        ("bytes_written", "counter", "bytes", "to disk"),
        ("rows_written", "counter", "rows", "to disk, each once"),
        ("records", "counter", "records", "written since it started"),
        ("snapshots", "counter", "records", "of them, those that tell all and begin a file"),
        ("failures", "counter", "attempts", "that the disk refused"),
        ("last_write_ms", "gauge", "ms", "from the newest record's cut until it was on disk"),
        ("rows_to_load", "gauge", "rows", "of an earlier life, whose columns are not read yet"),
    ),
    *_section(
        "inference.",
        "server, where policy.where is central",
        ("clients", "gauge", "clients", "that have asked for actions and are there"),
        ("questions", "counter", "questions", "that they asked"),
        ("batches", "counter", "batches", "of questions that the inference role took"),
        ("waiting", "gauge", "questions", "that the inference role has not taken yet"),
        ("unanswered", "counter", "questions", "refused, as no inference role was heard"),
        ("straggler_s", "gauge", "s", "since the answer to the client that has asked least lately"),
    ),
    *_section(
        "transport.<transport>.",
        "server, its listeners of a kind",
        ("clients", "gauge", "clients", "with a session over it"),
        ("frames_handed_over", "counter", "frames", "that came on another shard's queue"),
        *_TRAFFIC,
        *_TIMES,
    ),
    *_section(
        "table.<table>.",
        "server, its tables",
        ("rows", "gauge", "rows", "held (steps)"),
        ("capacity", "gauge", "rows", "that fit"),
        ("fill", "gauge", "share", "rows / capacity"),
        ("ring_bytes", "gauge", "bytes", "of the rows' memory"),
        ("saved_bytes", "gauge", "bytes", "that the rows would take besides: server.index_only"),
        ("env_steps", "counter", "steps", "stored, reset steps left out"),
        ("rows_ignored", "counter", "rows", "that were sent again and held already"),
        ("rows_moved", "counter", "rows", "of a queue, still needed when their place was"),
        ("streams_leased", "gauge", "streams", "held by a client"),
        ("streams_orphaned", "gauge", "streams", "resumable: their client is gone"),
        ("live_items", "gauge", "items", "that can be drawn"),
        ("pending_items", "gauge", "items", "that still miss rows"),
        ("items_created", "counter", "items", "that became live"),
        ("items_drawn", "counter", "items", "drawn into batches"),
        ("items_ignored", "counter", "items", "that were there already: a resent append"),
        ("items_refused", "counter", "items", "refused: rows gone, off the period, on LAST"),
        ("items_retired", "counter", "items", "that lost rows they need, or that a crash broke"),
        ("samples_per_insert", "gauge", "draws per item", "since the table was opened"),
        ("limiter_waits.<reason>", "counter", "requests", "that had to wait for the limiter"),
        _LIMITER,
        ("effective_items", "gauge", "items", "Kish's effective sample size of the priorities"),
        ("sampled_age", "histogram", "us", "how long ago a drawn item's row had come; one a round"),
        ("sampled_versions_behind", "gauge", "versions", "of params since then, recent mean"),
        ("priority_mass", "gauge", "priority", "sum of the stored priorities, p^alpha"),
        ("priority_maximum", "gauge", "priority", "largest so far: what a new item gets"),
        ("applied_updates", "counter", "priorities", "updated"),
        ("stale_updates", "counter", "priorities", "for items that were gone: ignored"),
    ),
    *_section(
        "peer.<client>.",
        "server, its side of a session",
        ("transport", "text", "", "that the client uses"),
        ("endpoint", "text", "", "the client's address"),
        ("role", "text", "", "of its key; empty where the session is not sealed"),
        ("silent_s", "gauge", "s", "since the client was last heard"),
        ("frame_bytes", "gauge", "bytes", "largest packet on this path"),
        *_TRAFFIC,
        ("duplicate_requests", "counter", "requests", "sent again, not applied again"),
        ("outstanding_reply_bytes", "gauge", "bytes", "of replies asked for and not yet sent"),
        ("waiting_for", "text", "", "why its oldest waiting request waits; empty: none does"),
        ("waiting_s", "gauge", "s", "how long that request has waited"),
        _LIMITER,
    ),
    *_section(
        "client.<client>.",
        "client, its side of a session",
        *_TRAFFIC,
        ("retransmissions", "counter", "frames", "sent again for want of an answer"),
        ("repulls", "counter", "pulls", "asked for again: part of a reply was lost"),
        ("probes", "counter", "frames", "of these two: a millisecond or so after the last news"),
        ("timeouts", "counter", "calls", "lost 20 ms or more: nothing told sooner what was lost"),
        ("reconnects", "counter", "sessions", "opened anew"),
        ("server_restarts", "counter", "starts", "of the server, which came back with its state"),
        ("dropped_frames", "counter", "frames", "that made no sense to the client"),
        ("altered_frames", "counter", "frames", "whose checksum told that they were; dropped"),
        ("sealed", "gauge", "0 or 1", "its session is encrypted and authenticated"),
        ("forged_frames", "counter", "frames", "that the server has not sealed so; dropped"),
        ("replayed_frames", "counter", "frames", "that had come before; dropped"),
        ("duplicate_frames", "counter", "frames", "of replies that it had already"),
        ("frame_bytes", "gauge", "bytes", "largest packet on this path"),
        ("smoothed_round_trip_us", "gauge", "us", "its estimate, for retransmission"),
        ("window_bytes", "gauge", "bytes", "of requests that may be under way"),
        ("credit_bytes", "gauge", "bytes", "that the server granted it"),
        ("pull_window_bytes", "gauge", "bytes", "of replies that it asks for ahead"),
        ("window_waits", "counter", "calls", "that had to wait for credit or window"),
        ("window_wait_s", "counter", "s", "time that these calls waited"),
        ("<op>.latency", "histogram", "us", "from a call to its answer"),
    ),
    *_section(
        "client.<client>.",
        "actor, inference role, learner (each of its ranks) and evaluator",
        ("role", "text", "", "actor, infer, learner, rank, evaluator or run"),
        ("pid", "gauge", "process", "its process number on its machine"),
        *_PROCESS,
        ("threads", "gauge", "threads", "of the process"),
        ("run_delay_s", "counter", "s", "time that its main thread was ready without a core"),
        ("env_steps", "counter", "steps", "an actor's own; the learner's: of all actors"),
        ("params_version", "gauge", "version", "in use; the learner's: its newest"),
        (
            "stage.<stage>_s",
            "counter",
            "s",
            "spent in a stage of its loop; they add up to its time",
        ),
    ),
    *_section(
        "client.<client>.",
        "actor",
        ("env_steps_per_s", "gauge", "steps/s", "over its last report interval"),
        ("episodes", "counter", "episodes", "that ended"),
        ("return_mean", "gauge", "return", "of its last 100 episodes, exploring"),
        ("return_last", "gauge", "return", "of its newest episode"),
        ("epsilon_min", "gauge", "probability", "of a random action in its greediest environment"),
        ("policy_lag", "gauge", "versions", "that its params were behind when it last looked"),
        ("env_crashes", "gauge", "crashes", "of its environments, in the minute up to the newest"),
        ("late_steps", "counter", "vector steps", "later than env.max_steps_per_second wants them"),
    ),
    *_section(
        "client.<client>.",
        "inference role",
        ("actors", "gauge", "actors", "that it acts for"),
        ("questions_per_s", "gauge", "questions/s", "over its last report interval"),
        (
            "batches.<size>",
            "counter",
            "batches",
            "of that many actors, or fewer, and more than half of it",
        ),
    ),
    *_section(
        "client.<client>.",
        "learner; with learner.processes each rank, too",
        ("run", "text", "", "name of its run's folder"),
        ("learner_steps", "counter", "steps", "batches learned from"),
        ("learner_steps_per_s", "gauge", "steps/s", "over its last report interval"),
        ("loss", "gauge", "loss", "of its newest batch"),
        ("q_mean", "gauge", "return", "mean value of the actions in its newest batch"),
        ("importance_exponent", "gauge", "exponent", "beta"),
        ("consolidation", "gauge", "loss", "of its newest batch, by the target network"),
        ("consolidation_weight", "gauge", "factor", "lambda"),
        ("learning_rate", "gauge", "rate", "of the optimizer now"),
        ("updates", "counter", "updates", "gradient steps, where a learner step takes several"),
        ("frozen", "gauge", "0 or 1", "whether its lower layers are frozen"),
        ("value_error", "gauge", "loss", "mean squared error of the values in its newest batch"),
        ("entropy", "gauge", "nats", "of the policy, mean over its newest batch"),
        ("ratio_mean", "gauge", "ratio", "learner's probability over the actor's, newest batch"),
        ("ratio_clipped_share", "gauge", "share", "of these ratios that exceed algo.rho_clip"),
        (
            "batch_policy_lag",
            "gauge",
            "steps",
            "learner steps since the params that played its newest batch, mean over its rows",
        ),
        ("sample_wait_share", "gauge", "share", "of its time spent waiting for batches"),
        ("batch_size", "gauge", "items", "in a batch; a rank's: in its part of it"),
        (
            "mirror.rows",
            "counter",
            "rows",
            "that came to its mirror, where replay.rows is not server",
        ),
        ("mirror.rows_behind", "gauge", "rows", "that the server had besides"),
        ("mirror.memory_bytes", "gauge", "bytes", "that all rows of its mirror take"),
        ("mirror.device_bytes", "gauge", "bytes", "that rows take on the learner's GPU, too"),
        ("mirror.drawn", "counter", "items", "that were gathered from it"),
        ("mirror.replaced", "counter", "items", "drawn anew: a row of theirs was overwritten"),
        ("mirror.wait_s", "counter", "s", "that draws waited for rows on their way to it"),
        ("gpu_utilization", "gauge", "share", "of the GPU's time, where there is one"),
        ("gpu_memory_bytes", "gauge", "bytes", "of the GPU that the learner holds"),
    ),
    *_section(
        "client.<client>.",
        "drlnet run",
        ("phase", "text", "", "what the run is doing"),
        ("progress", "text", "", "how far it has come with that"),
        ("actor_restarts", "counter", "actors", "started again, as a signal had ended them"),
        ("learner_restarts", "counter", "learners", "started again, as a signal had ended them"),
    ),
    *_section(
        "client.<client>.",
        "evaluator, and learner",
        ("eval_return", "gauge", "return", "mean of greedy episodes with the params newest then"),
        ("eval_return_best", "gauge", "return", "of the best params, which the checkpoint holds"),
        ("eval_learner_steps", "gauge", "steps", "that made the params evaluated last"),
    ),
    *_section(
        "client.<client>.",
        "evaluator",
        (
            "goal_reached",
            "gauge",
            "",
            "1 where the newest params reached run.goal, twice",
        ),
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


@lru_cache(maxsize=4096)
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
