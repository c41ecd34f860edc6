"""The figures of a window: what the panels show and the rules of the bottleneck ask about.

Everything is NaN, empty or None where the server or a client does not tell it. Shares are of time,
from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from drlnet.dashboard.client_figures import GONE, LIVE, ClientFigures
from drlnet.dashboard.reading import (
    add,
    average,
    capped,
    clients,
    operations,
    peers,
    tables,
    transports,
)
from drlnet.dashboard.window import Window

LIMITER_REASONS = ("min_size", "samples_limit", "inserts_limit")


class TableFigures:
    """One table at the server."""

    def __init__(self, name: str, window: Window) -> None:
        self.name = name
        self._window = window
        self._prefix = f"table.{name}."

    def latest(self, key: str) -> float:
        """The newest value of one of its figures."""
        return self._window.latest(self._prefix + key)

    def rate(self, key: str) -> float:
        """The growth per second of one of its counters."""
        return self._window.rate(self._prefix + key)

    def histogram(self, key: str) -> Any:
        """What one of its histograms recorded, or None."""
        return self._window.histogram(self._prefix + key)

    @property
    def effective_share(self) -> float:
        """The effective sample size of the priorities as a share of the live items."""
        items = self.latest("live_items")
        return self.latest("effective_items") / items if items > 0 else math.nan

    @property
    def stale_share(self) -> float:
        """The share of priority updates that came too late."""
        stale, applied = self.rate("stale_updates"), self.rate("applied_updates")
        return stale / (stale + applied) if stale + applied > 0 else math.nan

    def limiter_share(self, reason: str) -> float:
        """The share of the time in which a request waited for the limiter for that reason."""
        return capped(self.rate(f"limiter_wait_s.{reason}"))


class Figures:
    """All of a window. Made once per reading; each figure is computed when first asked for."""

    def __init__(self, window: Window, gone: Iterable[tuple[str, ClientFigures]] = ()) -> None:
        """gone: clients that were there lately and are not in the newest reading."""
        self.window = window
        after = clients(window.after)
        before = None if window.before is None else clients(window.before)
        found = dict.fromkeys([*peers(window.after), *after])
        self.clients = {
            name: ClientFigures(
                name,
                window,
                after.get(name, {}),
                None if before is None else before.get(name, {}),
            )
            for name in found
        }
        self.gone = {name: client for name, client in gone if name not in self.clients}
        for client in self.gone.values():
            client.leave()
        self.tables = [TableFigures(name, window) for name in tables(window.after)]
        self.transports = transports(window.after)

    def role(self, role: str) -> list[ClientFigures]:
        """The clients of that role that are there."""
        return [c for c in self.clients.values() if c.role == role and c.state != GONE]

    @cached_property
    def learners(self) -> list[ClientFigures]:
        return self.role("learner")

    @cached_property
    def actors(self) -> list[ClientFigures]:
        return self.role("actor")

    # Throughput.

    @cached_property
    def env_steps_per_s(self) -> float:
        return add(table.rate("env_steps") for table in self.tables)

    @cached_property
    def items_per_s(self) -> float:
        return add(table.rate("items_created") for table in self.tables)

    @cached_property
    def draws_per_s(self) -> float:
        return add(table.rate("items_drawn") for table in self.tables)

    @cached_property
    def learner_steps_per_s(self) -> float:
        return add(learner.steps_per_s for learner in self.learners)

    @cached_property
    def received_bytes_per_s(self) -> float:
        """Bytes that come to the server."""
        return self._over_links("bytes_received")

    @cached_property
    def publishers_per_s(self) -> float:
        """Second learners that would publish, and ones that took over."""
        return add(
            self.window.rate(f"server.{key}")
            for key in ("publishes_refused", "publishers_replaced")
        )

    @cached_property
    def sent_bytes_per_s(self) -> float:
        """Bytes that the server sends."""
        return self._over_links("bytes_sent")

    def _over_links(self, key: str) -> float:
        # Clients that leave take their counters along; those of a transport stay.
        scopes = [f"transport.{kind}" for kind in self.transports]
        scopes = scopes or [f"peer.{name}" for name in peers(self.window.after)]
        return add(self.window.rate(f"{scope}.{key}") for scope in scopes)

    # Latency.

    @cached_property
    def operations(self) -> list[str]:
        """Those that the server has answered, as it lists them."""
        return operations(self.window.after)

    def latency(self, operation: str, what: str = "latency") -> Any:
        """latency (as clients see it), queueing or handling of an operation, or None."""
        return self.window.histogram(f"server.{operation}.{what}")

    def _over_operations(self, what: str) -> Any:
        merged = None
        for operation in self.operations:
            recorded = self.latency(operation, what)
            if recorded is not None and recorded.count:
                merged = recorded if merged is None else merged.merged(recorded)
        return merged

    # The server.

    @cached_property
    def server_busy(self) -> float:
        """The share of the time in which the server's loop had something to do; of several shards
        the busiest one's."""
        shards = [key for key in self.window.after if key.startswith("server.shard_busy_s.")]
        return capped(max(map(self.window.rate, shards or ["server.busy_s"])))

    @cached_property
    def server_cpu(self) -> float:
        """Cores that the server uses."""
        return self.window.rate("server.cpu_s")

    @cached_property
    def queueing_us(self) -> float:
        """Median time that a request waited for the server's turn, over all operations."""
        return median_us(self._over_operations("queueing"))

    @cached_property
    def handling_us(self) -> float:
        """Median time that the server worked on a request, over all operations."""
        return median_us(self._over_operations("handling"))

    @cached_property
    def drops_per_s(self) -> float:
        """Frames that the server dropped because they failed a check or came late."""
        keys = [key for key in self.window.after if key.startswith("server.drops.")]
        return add(self.window.rate(key) for key in keys)

    # Which role waits, and for what.

    @cached_property
    def learner_waits(self) -> float:
        """Share of the learner's time in which it waits for a batch."""
        return average(learner.waits for learner in self.learners)

    @cached_property
    def actors_wait(self) -> float:
        """Share of the actors' time in which they wait to append."""
        return average(actor.waits for actor in self.actors)

    def held(self, role: list[ClientFigures], *reasons: str) -> float:
        """Share of their time in which the limiter held a request of theirs for these reasons."""
        return average(add(client.held(reason) for reason in reasons) for client in role)

    @cached_property
    def unexplained_wait(self) -> float:
        """The larger share of waiting, learner's or actors', that is not the limiter's doing."""
        learners = _or_zero(self.learner_waits) - _or_zero(
            self.held(self.learners, *LIMITER_REASONS)
        )
        actors = _or_zero(self.actors_wait) - _or_zero(self.held(self.actors, *LIMITER_REASONS))
        return max(0.0, learners, actors)

    def stage(self, role: list[ClientFigures], name: str) -> float:
        """The mean share of their time that one of their stages takes."""
        return average(client.stages.get(name, math.nan) for client in role)

    @cached_property
    def lost_share(self) -> float:
        """Frames that had to be sent or asked for again, of all frames of the clients.

        Without those that had arrived after all: they were late, not lost.
        """
        # A request that the limiter holds is repeated to keep it alive.
        free = [client for client in self._all if not client.waiting_for]
        frames = add(client.grew_of("frames_sent", "frames_received") for client in free)
        again = add(client.grew_of("retransmissions", "repulls") for client in free)
        late = add(client.duplicates for client in free)
        return max(0.0, again - _or_zero(late)) / frames if frames > 0 else math.nan

    @cached_property
    def window_wait(self) -> float:
        """The largest share of time in which a client waited for credit or window."""
        return max((_or_zero(client.window_wait) for client in self._all), default=math.nan)

    @cached_property
    def cores(self) -> float:
        """Cores that server and clients may use; NaN where they are on other machines."""
        return self.window.latest("host.cores")

    @cached_property
    def cores_used(self) -> float:
        """Cores that server and clients use together."""
        return add([self.server_cpu, *(client.cpu for client in self._all)])

    @cached_property
    def cores_of_others(self) -> float:
        """Cores that other processes of the machine use; NaN where they are not ours to see."""
        idle, ours = self.window.rate("host.idle_s"), [self.server_cpu]
        if not idle >= 0:
            return math.nan
        for client in self._all:
            # With what it took to start, which stands in its first report and was no other's.
            rates = [client.cpu, client.grew_of("cpu_s") / self.window.seconds]
            ours.append(max((rate for rate in rates if not math.isnan(rate)), default=math.nan))
        return max(0.0, self.cores - idle - add(ours))

    @cached_property
    def idle_share(self) -> float:
        """The share of the cores' time in which nothing ran."""
        return capped(self.window.rate("host.idle_s") / self.cores)

    @cached_property
    def run_delay(self) -> float:
        """The largest share of time in which a client was ready and had no core; where none tells
        it, the share in which some process of the machine was.
        """
        delays = [client.process_rate("run_delay_s") for client in self._all]
        known = [delay for delay in delays if not math.isnan(delay)]
        return capped(max(known) if known else self.window.rate("host.pressure_s"))

    @property
    def silent_learners(self) -> list[ClientFigures]:
        """Those that were not heard lately."""
        return [c for c in self.clients.values() if c.role == "learner" and c.state != LIVE]

    @property
    def smallest_credit(self) -> float:
        """The least that the server grants a client, in bytes."""
        known = [client.latest("credit_bytes") for client in self.clients.values()]
        return min((value for value in known if not math.isnan(value)), default=math.nan)

    @cached_property
    def policy_lag(self) -> float:
        """Versions by which the params that act were behind at the last look: the mean."""
        acting = [*self.actors, *self.role("infer")]
        return average(one.latest("policy_lag") for one in acting)

    @cached_property
    def batch_bytes(self) -> float:
        """Bytes that a batch brings to the learner, all of its processes together."""
        learning = [*self.learners, *self.role("rank")]
        received = add(one.rate("bytes_received") for one in learning)
        return received / self.learner_steps_per_s if self.learner_steps_per_s > 0 else math.nan

    # Mirrors, where replay.rows is learner.

    @property
    def mirror_wait(self) -> float:
        """The share of the learners' time in which draws wait for rows on their way."""
        return average(learner.rate("mirror.wait_s") for learner in self.learners)

    @property
    def mirrored_per_s(self) -> float:
        """Rows that come to them; NaN where there is none."""
        return add(learner.rate("mirror.rows") for learner in self.learners)

    @property
    def mirror_bytes(self) -> float:
        """Memory that all rows of theirs take."""
        return add(learner.latest("mirror.memory_bytes") for learner in self.learners)

    @property
    def replaced_share(self) -> float:
        """The share of drawn items that were replaced by another draw."""
        replaced = add(learner.rate("mirror.replaced") for learner in self.learners)
        drawn = add(learner.rate("mirror.drawn") for learner in self.learners)
        return replaced / (replaced + drawn) if replaced + drawn > 0 else math.nan

    @property
    def rows_behind(self) -> float:
        """Rows that the server has and mirrors have not."""
        return add(learner.latest("mirror.rows_behind") for learner in self.learners)

    @property
    def _all(self) -> list[ClientFigures]:
        return [client for client in self.clients.values() if client.state != GONE]


def median_us(histogram: Any) -> float:
    """The median of a histogram, NaN of none or an empty one."""
    return math.nan if histogram is None or not histogram.count else histogram.percentile_us(0.5)


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
