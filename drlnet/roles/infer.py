"""The inference role: acts for the actors that ask, and stores what they see (SEED RL).

Source: Espeholt et al., "SEED RL: Scalable and Efficient Deep-RL with Accelerated Central
Inference", ICLR 2020, arXiv 1910.06591. Actors step environments and send observations; params,
exploration and recurrent state stay here.

What waits when an agent is free is one batch: it waits for no full batch and for no fixed time, so
a stopped actor holds up none of the others. The agent has a stream for each environment that the
settings plan, actor.num_actors x actor.envs_per_actor; rows of those that have not asked are
masked. Every algorithm that heeds Rows.mask therefore works here as it stands.

At a device of its own, half of the actors have one agent, and the other half another one: while one
batch is computed, the role stores the one before it, answers, and begins the next.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from drlnet.algos import make_algorithm, returned
from drlnet.client import Client
from drlnet.config import Config
from drlnet.envs import Streams, find_spaces
from drlnet.errors import ConfigError
from drlnet.metrics.stages import Rates, Stages
from drlnet.metrics.usage import process_figures
from drlnet.nets.device import usable_device
from drlnet.roles.central import Asks, RowForm, Says, message
from drlnet.roles.group import Answer, Group, executor
from drlnet.roles.newest_params import NewestParams
from drlnet.roles.reach import UNANSWERED, parting, reach
from drlnet.roles.recorder import Held, Recorder
from drlnet.roles.seeds import role_sequence
from drlnet.roles.stop import Stop

_SILENT_S = 5.0  # an actor that has asked nothing for so long gives way to one without a place
# Where a call of one thread comes back from native code, it would else wait until another one, the
# learner's or that of a batch, has had Python's interpreter for 5 ms.
_SWITCH_S = 0.0005
_JOIN_S = 10.0  # how long one without a place waits for that
_END_S = 5.0  # for a tick that is under way beside a learner that ends; it has a second or two


def infer(config: Config, server: str, stop: Stop, note: Callable[[str], None]) -> None:
    """The inference role's process: acts until stop is set.

    note: told that the server is waited for, and once that no learner draws.
    Errors: ReplayTimeout when no params are published, or nothing is drawn for actor.max_wait_s;
    ConfigError where another inference role has begun, or actor.device is not to be had; the
    client's own. KeyboardInterrupt when stopped before the server has answered.
    """
    device = usable_device(config.actor.device, "actor.device")
    torch.set_num_threads(config.actor.torch_threads)
    sys.setswitchinterval(_SWITCH_S)
    with reach(
        server, "infer", config.server.poll, stop, note, kept=config.run.keep_replay
    ) as client:
        role = Inference(config, client, device, Held(config, server, note))
        try:
            with stop.interrupts():
                role.wait(stop)
                while not stop.is_set():
                    role.tick()
                role.flush()
        except KeyboardInterrupt:
            pass  # what the limiter still holds back is not worth waiting for
        with parting(client):
            role.release()


@contextmanager
def inferring(
    config: Config, server: str, stop: Stop, note: Callable[[str], None]
) -> Iterator[None]:
    """With policy.where = learner, acts on a thread of its own while the block runs.

    Where it fails, the block is asked to end, and the error is raised behind it. Main thread.
    Params come by way of the server, as to every role. What the limiter holds back at the end of
    the block is dropped; a call that waits for a silent server then is not waited for.
    """
    if config.policy.where != "learner":
        yield
        return
    device = usable_device(config.actor.device, "actor.device")
    over, failed, held = threading.Event(), list[BaseException](), Held(config, server, note)

    def hold(seconds: float) -> None:
        if over.is_set():  # nothing is drawn any more
            raise _Over
        held(seconds)

    def act(client: Client) -> None:
        torch.set_num_threads(config.actor.torch_threads)  # of this thread
        try:
            role = Inference(config, client, device, hold)
            role.wait(stop)
            while not over.is_set():
                role.tick()
            role.release()
        except _Over:
            role.release()
        except BaseException as error:  # told in the main thread
            ending = over.is_set() or stop.is_set()
            if ending and isinstance(error, UNANSWERED):
                return  # the server has ended first
            failed.append(error)
            if not over.is_set():
                stop.end()

    interval_s = sys.getswitchinterval()
    with reach(
        server, "infer", config.server.poll, stop, note, kept=config.run.keep_replay
    ) as client:
        thread = threading.Thread(target=act, args=(client,), name="infer", daemon=True)
        sys.setswitchinterval(_SWITCH_S)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(_END_S)
            sys.setswitchinterval(interval_s)
    if failed:
        raise failed[0]


class _Over(Exception):
    """The learner draws no more: what waits for that ends."""


@dataclass
class _Place:
    """An actor at the inference role."""

    client: int
    heard_s: float  # when it last asked


@dataclass
class _Join:
    """An actor that waits for a place."""

    client: int
    request: int
    since_s: float


class Inference:
    """The agents of all actors, and what they were asked. Not thread-safe."""

    def __init__(
        self,
        config: Config,
        client: Client,
        device: torch.device,
        held: Callable[[float], None] | None = None,
        in_flight: int | None = None,
    ):
        """held: as the recorder's.

        in_flight: with 2, one batch is stored while the next is computed; by default as suits the
        device.
        """
        self._config, self._client, self._device = config, client, device
        spaces = find_spaces(config.env)
        self._algorithm = algorithm = make_algorithm(config, spaces)
        self._form, self._each = RowForm(spaces), config.actor.envs_per_actor
        self._stages = Stages("questions", "policy", "append", "fetch")
        self._newest = NewestParams(client, algorithm)
        self._places: list[_Place | None] = [None] * config.actor.num_actors
        count = min(in_flight or (1 if device.type == "cpu" else 2), len(self._places))
        self._group_size = -(-len(self._places) // count)
        self._groups = [
            Group(
                config,
                Recorder(config, client, algorithm, self._stages, held),
                self._form,
                min(self._group_size, len(self._places) - first),
            )
            for first in range(0, len(self._places), self._group_size)
        ]
        self._executor = executor(config, len(self._groups))
        self._joins: list[_Join] = []
        self._answers: list[Answer] = []
        self._begins = True
        self._begun = self._questions = 0
        self._batches: dict[int, int] = {}  # by the actors in it, rounded up to a power of two
        self._rates = Rates()

    def wait(self, stop: Stop) -> None:
        """Waits for the first params, or stop, and makes the agent."""
        self._newest.wait(stop)
        seeds = role_sequence(
            self._config.run.seed, "infer", env_steps_before=self._newest.env_steps
        )
        first = 0
        for group, own in zip(self._groups, seeds.spawn(len(self._groups)), strict=True):
            group.make_agent(
                Streams(
                    ordinals=first + np.arange(group.count),
                    first=first,
                    total=len(self._places) * self._each,
                    rng=np.random.default_rng(own),
                    env_steps=self._newest.env_steps,
                ),
                self._newest,
            )
            first += group.count
            if self._device.type != "cpu":
                to = getattr(group.recorder.agent, "to", None)
                if to is None:
                    raise ConfigError(
                        f"actor.device = {str(self._device)!r}: algo.name = "
                        f"{self._config.algo.name!r} acts on processor cores",
                        "leave actor.device out",
                    )
                to(self._device)
        self._stages.ended("fetch")

    def tick(self) -> None:
        """Answers what was asked, and takes what is asked next; for a second or two at most."""
        self._exchange()
        computed = next((group for group in self._groups if group.computes), None)
        if computed is not None:
            computed.wait()
            self._stages.ended("policy")
            self._exchange()  # the next batch is all that waits by now
        begun = next((group for group in self._groups if group.asked and not group.computes), None)
        if begun is not None:
            self._begin(begun)
        elif computed is None:
            self._refresh()
        for group in self._groups:  # while the device computes the next one
            if group.has_acted:
                self._answers += group.finish()
        if self._rates.due(self._config.learner.report_interval_s):
            self._report()

    def _exchange(self) -> None:
        """Answers, and takes what is asked; with nothing to compute, it waits for that."""
        busy = any(group.computes or group.asked for group in self._groups)
        gone, questions = self._client.answer(self._answers, begins=self._begins, at_once=busy)
        self._begins, self._answers = False, []
        self._stages.ended("questions")
        for client in gone:
            self._forget(client)
        self._questions += len(questions)
        for client, request, body in questions:
            if body[0] == Asks.JOIN:
                self._ask_for_place(client, request, json.loads(body[1:]))
            elif (place := self._place(client)) is None:
                self._answers.append((client, request, message(Says.UNKNOWN)))
            else:
                self._places[place] = _Place(client, time.monotonic())
                group, place = self._group(place)
                group.take(place, (client, request), body[1:])
        self._give_places()

    def _begin(self, group: Group) -> None:
        size = 1 << (group.asked - 1).bit_length()
        self._batches[size] = self._batches.get(size, 0) + 1
        self._begun += 1
        if self._begun % self._config.actor.fetch_period_steps == 0:
            self._refresh()
        group.begin(self._executor, self._newest)

    def _group(self, place: int) -> tuple[Group, int]:
        """The group of that place, and which one it is there."""
        index, place = divmod(place, self._group_size)
        return self._groups[index], place

    def _place(self, client: int) -> int | None:
        """Where that client is, if it is."""
        places = enumerate(self._places)
        return next((at for at, one in places if one is not None and one.client == client), None)

    def _ask_for_place(self, client: int, request: int, asked: dict[str, object]) -> None:
        own = {"envs": self._each, "form": self._form.describe()}
        if asked != own:
            refusal = {
                "cause": "the inference role plays another environment, or as many of it as "
                f"actor.envs_per_actor = {self._each}",
                "remedy": "start `drlnet infer` and `drlnet actor` with the same settings",
            }
            self._answers.append((client, request, message(Says.REFUSED, refusal)))
            return
        self._forget(client)  # its environments have crashed
        self._joins.append(_Join(client, request, time.monotonic()))

    def _give_places(self) -> None:
        waiting, now = self._joins, time.monotonic()
        self._joins = []
        for join in waiting:
            place = self._free_place(now)
            if place is not None:
                group, own = self._group(place)
                lease = group.recorder.join(own).leases[0]
                self._places[place] = _Place(join.client, now)
                told = {
                    **{"ordinal": lease.ordinal, "epoch": lease.epoch},
                    "env_steps_before": self._newest.env_steps_before,
                }
                self._answers.append((join.client, join.request, message(Says.JOINED, told)))
            elif now - join.since_s < _JOIN_S:
                self._joins.append(join)
            else:
                refusal = {
                    "cause": f"the inference role has {len(self._places)} actors, as many as "
                    "actor.num_actors says",
                    "remedy": "start it with a greater actor.num_actors, or fewer actors",
                }
                said = message(Says.REFUSED, refusal)
                self._answers.append((join.client, join.request, said))

    def _free_place(self, now: float) -> int | None:
        """A place without an actor: at need the one whose actor has been silent for longest."""
        free = [place for place, one in enumerate(self._places) if one is None]
        if free:  # one of each group in turns
            return min(free, key=lambda place: (place % self._group_size, place))
        heard = [one.heard_s for one in self._places if one is not None]
        place = int(np.argmin(heard))
        if now - heard[place] < _SILENT_S:
            return None
        self._vacate(place)
        return place

    def _forget(self, client: int) -> None:
        """Frees all that is held for that client, if anything is."""
        self._joins = [join for join in self._joins if join.client != client]
        place = self._place(client)
        if place is not None:
            self._vacate(place)

    def _vacate(self, place: int) -> None:
        group, own = self._group(place)
        if group.computes:
            self._answers += group.finish()
        group.vacate(own)
        self._places[place] = None

    def _refresh(self) -> None:
        self._stages.ended("other")
        self._newest.fetch()
        self._stages.ended("fetch")

    def flush(self) -> None:
        """Waits until the server holds all that was stored."""
        for group in self._groups:
            group.recorder.flush()

    def release(self) -> None:
        """Gives all streams back; what was not flushed is dropped, and what is computed."""
        self._executor.shutdown()
        for group in self._groups:
            group.recorder.release()

    def _report(self) -> None:
        agents = [agent for group in self._groups if (agent := group.recorder.agent) is not None]
        algorithm, found = self._algorithm, [agent.figures() for agent in agents]
        figures = [returned.scalars(algorithm, "figures", one) for one in found]
        per_s = self._rates.read(questions=self._questions)
        own: dict[str, float | int | str] = {
            "role": "infer",
            "actors": sum(one is not None for one in self._places),
            "questions_per_s": per_s["questions"],
            "params_version": self._newest.version,
            "policy_lag": self._newest.lag,
            **{f"batches.{size}": count for size, count in self._batches.items()},
            **self._stages.read(),
            **process_figures(),
        }
        # The lesser of two: epsilon_min is that of the greediest of all environments.
        least = {name: min(one[name] for one in figures) for name in figures[0]}
        self._client.report(returned.reading(algorithm, "figures", own, least))
