"""Actors that the inference role answers by one agent, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np
import torch

from drlnet.algos.contract import Acted
from drlnet.config import Config
from drlnet.envs import Rows, Streams
from drlnet.roles.central import RowForm, Says, message
from drlnet.roles.newest_params import NewestParams
from drlnet.roles.recorder import Recorder

Asked = tuple[int, int]  # client and request
Answer = tuple[int, int, bytes]  # and what it is told


class _AtOnce(Executor):
    """Computes where it is told to."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        computed: Future[Any] = Future()
        computed.set_result(fn(*args, **kwargs))
        return computed


def executor(config: Config, groups: int) -> Executor:
    """What computes for that many groups: of several, one batch after the other, on a thread."""
    if groups == 1:
        return _AtOnce()
    return ThreadPoolExecutor(1, "act", torch.set_num_threads, (config.actor.torch_threads,))


class _Batch(NamedTuple):
    rows: Rows
    asked: dict[int, Asked]  # by place
    acted: Future[Acted]


class Group:
    """Places for some of the actors, and the agent of their environments. Not thread-safe.

    The agent computes one batch; what is asked meanwhile is the next one.
    """

    def __init__(self, config: Config, recorder: Recorder, form: RowForm, places: int):
        self.recorder = recorder
        self._form, self._each = form, config.actor.envs_per_actor
        self.count = places * self._each  # environments
        self._playing = np.zeros(self.count, np.bool_)  # streams within an episode
        self._arrays, self._asked = form.empty(self.count), dict[int, Asked]()
        self._batch: _Batch | None = None
        self._version = 0  # of the params that the agent has

    def make_agent(self, streams: Streams, newest: NewestParams) -> None:
        """Makes the agent, with the newest params."""
        self.recorder.make_agent(streams, newest.params)
        self._version = newest.version

    def take(self, place: int, asked: Asked, packed: bytes) -> None:
        """Puts the rows of that place's actor into the next batch."""
        self._form.unpack(packed, self._arrays, self._own(place))
        self._asked[place] = asked

    @property
    def asked(self) -> int:
        """Actors in the next batch."""
        return len(self._asked)

    @property
    def computes(self) -> bool:
        """Whether a batch has begun, and has not been finished."""
        return self._batch is not None

    @property
    def has_acted(self) -> bool:
        """Whether finish() has a batch, and nothing to wait for."""
        return self._batch is not None and self._batch.acted.done()

    def begin(self, executor: Executor, newest: NewestParams) -> None:
        """Has the agent act on the next batch, with the newest params."""
        agent = self.recorder.agent
        assert agent is not None, "make_agent() makes it"
        if newest.version != self._version:
            agent.load(newest.params)
            self._version = newest.version
        rows = self._form.rows(self._arrays)
        self._batch = _Batch(rows, self._asked, executor.submit(agent.act, rows))
        self._arrays, self._asked = self._form.empty(self.count), {}

    def wait(self) -> None:
        """Waits until the agent has acted on the batch that was begun."""
        assert self._batch is not None, "begin() begins it"
        wait([self._batch.acted])

    def finish(self) -> list[Answer]:
        """Stores the batch that was begun; returns what its actors are told."""
        assert self._batch is not None, "begin() begins it"
        (rows, asked, acted), self._batch = self._batch, None
        action = self.recorder.store(rows, acted.result(), asked)
        assert rows.mask is not None, "the form has one"
        self._playing = np.where(rows.mask, ~rows.last, self._playing)
        told = action.astype(np.int32)
        return [
            (*one, message(Says.ACTIONS, told[self._own(place)].tobytes()))
            for place, one in asked.items()
        ]

    def vacate(self, place: int) -> None:
        """Forgets the actor of that place and what it asked. Not while a batch is computed."""
        self.recorder.leave(place)
        own, agent = self._own(place), self.recorder.agent
        self._asked.pop(place, None)
        self._arrays["mask"][own] = False
        # The agent's streams go on with another actor: their episodes end here, unrecorded.
        arrays = self._form.empty(self.count)
        arrays["mask"][own] = arrays["last"][own] = arrays["truncated"][own] = self._playing[own]
        self._playing[own] = False
        if agent is not None and arrays["mask"].any():
            _, columns = agent.act(self._form.rows(arrays))
            agent.items({name: np.where(arrays["mask"], 0, -1) for name in columns})

    def _own(self, place: int) -> slice:
        return slice(place * self._each, (place + 1) * self._each)
