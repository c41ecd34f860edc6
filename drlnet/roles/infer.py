"""The inference role: acts for the actors that ask, and stores what they see (SEED RL).

Source: Espeholt et al., "SEED RL: Scalable and Efficient Deep-RL with Accelerated Central
Inference", ICLR 2020, arXiv 1910.06591. Actors step environments and send observations; params,
exploration and recurrent state stay here.

What waits when the role is free is one batch: it waits for no full batch and for no fixed time, so
a stopped actor holds up none of the others. One agent has a stream for each environment that the
settings plan, actor.num_actors x actor.envs_per_actor; rows of those that have not asked are
masked. Every algorithm that heeds Rows.mask therefore works here as it stands.
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

from drlnet.algos import make_algorithm
from drlnet.client import Client
from drlnet.config import Config
from drlnet.envs import Streams, find_spaces
from drlnet.errors import ConfigError
from drlnet.metrics.stages import Rates, Stages
from drlnet.metrics.usage import process_figures
from drlnet.nets.device import usable_device
from drlnet.roles.central import Arrays, Asks, RowForm, Says, message
from drlnet.roles.newest_params import NewestParams
from drlnet.roles.reach import UNANSWERED, parting, reach
from drlnet.roles.recorder import Held, Recorder
from drlnet.roles.seeds import role_sequence
from drlnet.roles.stop import Stop

_SILENT_S = 5.0  # an actor that has asked nothing for so long gives way to one without a place
# For a thread beside a learner's: where one of its calls comes back from native code, it would else
# wait until the learner has had Python's interpreter for 5 ms.
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
    with reach(
        server, "infer", config.server.poll, stop, note, kept=config.run.keep_replay
    ) as client:
        role = Inference(config, client, device, Held(config, server, note))
        try:
            with stop.interrupts():
                role.wait(stop)
                while not stop.is_set():
                    role.tick()
                role.recorder.flush()
        except KeyboardInterrupt:
            pass  # what the limiter still holds back is not worth waiting for
        with parting(client):
            role.recorder.release()


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
            role.recorder.release()
        except _Over:
            role.recorder.release()
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
    """The agent of all actors, and what it was asked. Not thread-safe."""

    def __init__(
        self,
        config: Config,
        client: Client,
        device: torch.device,
        held: Callable[[float], None] | None = None,
    ):
        self._config, self._client, self._device = config, client, device
        spaces = find_spaces(config.env)
        algorithm = make_algorithm(config, spaces)
        self._form, self._each = RowForm(spaces), config.actor.envs_per_actor
        self._stages = Stages("questions", "policy", "append", "fetch")
        self._newest = NewestParams(client, algorithm)
        self.recorder = Recorder(config, client, algorithm, self._stages, held)
        self._places: list[_Place | None] = [None] * config.actor.num_actors
        self._joins: list[_Join] = []
        self._answers: list[tuple[int, int, bytes]] = []
        self._playing = np.zeros(self._streams, np.bool_)  # streams within an episode
        self._begins = True
        self._ticks = self._questions = 0
        self._batches: dict[int, int] = {}  # by the actors in it, rounded up to a power of two
        self._rates = Rates()

    @property
    def _streams(self) -> int:
        return len(self._places) * self._each

    def wait(self, stop: Stop) -> None:
        """Waits for the first params, or stop, and makes the agent."""
        self._newest.wait(stop)
        seeds = role_sequence(
            self._config.run.seed, "infer", env_steps_before=self._newest.env_steps_before
        )
        self.recorder.make_agent(
            Streams(
                ordinals=np.arange(self._streams),
                first=0,
                total=self._streams,
                rng=np.random.default_rng(seeds),
                env_steps=self._newest.env_steps,
            ),
            self._newest.params,
        )
        if self._device.type != "cpu":
            to = getattr(self.recorder.agent, "to", None)
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
        gone, questions = self._client.answer(self._answers, begins=self._begins)
        self._begins, self._answers = False, []
        self._stages.ended("questions")
        for client in gone:
            self._forget(client)
        arrays, asked = self._form.empty(self._streams), dict[int, tuple[int, int]]()
        self._questions += len(questions)
        for client, request, body in questions:
            if body[0] == Asks.JOIN:
                self._ask_for_place(client, request, json.loads(body[1:]))
            elif (place := self._place(client)) is None:
                self._answers.append((client, request, message(Says.UNKNOWN)))
            else:
                self._places[place] = _Place(client, time.monotonic())
                self._form.unpack(body[1:], arrays, self._own(place))
                asked[place] = client, request
        self._give_places()
        if asked:
            self._act(arrays, asked)
        self._ticks += 1
        if not asked or self._ticks % self._config.actor.fetch_period_steps == 0:
            self._refresh()
        if self._rates.due(self._config.learner.report_interval_s):
            self._report()

    def _act(self, arrays: Arrays, asked: dict[int, tuple[int, int]]) -> None:
        rows = self._form.rows(arrays)
        assert rows.mask is not None, "the form has one"
        action = self.recorder.record(rows, asked).astype(np.int32)
        self._playing = np.where(rows.mask, ~rows.last, self._playing)
        for place, (client, request) in asked.items():
            said = message(Says.ACTIONS, action[self._own(place)].tobytes())
            self._answers.append((client, request, said))
        size = 1 << (len(asked) - 1).bit_length()
        self._batches[size] = self._batches.get(size, 0) + 1

    def _own(self, place: int) -> slice:
        return slice(place * self._each, (place + 1) * self._each)

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
                lease = self.recorder.join(place).leases[0]
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
        for place, one in enumerate(self._places):
            if one is None:
                return place
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
        self.recorder.leave(place)
        self._places[place] = None
        # The agent's streams go on with another actor: their episodes end here, unrecorded.
        arrays, own, agent = self._form.empty(self._streams), self._own(place), self.recorder.agent
        arrays["mask"][own] = arrays["last"][own] = arrays["truncated"][own] = self._playing[own]
        self._playing[own] = False
        if agent is not None and arrays["mask"].any():
            _, columns = agent.act(self._form.rows(arrays))
            agent.items({name: np.where(arrays["mask"], 0, -1) for name in columns})

    def _refresh(self) -> None:
        self._stages.ended("other")
        agent = self.recorder.agent
        if self._newest.fetch() and agent is not None:
            agent.load(self._newest.params)
        self._stages.ended("fetch")

    def _report(self) -> None:
        agent = self.recorder.agent
        per_s = self._rates.read(questions=self._questions)
        self._client.report(
            {
                "role": "infer",
                "actors": sum(one is not None for one in self._places),
                "questions_per_s": per_s["questions"],
                "params_version": self._newest.version,
                "policy_lag": self._newest.lag,
                **{f"batches.{size}": count for size, count in self._batches.items()},
                **(agent.figures() if agent is not None else {}),
                **self._stages.read(),
                **process_figures(),
            }
        )
