"""Acting by the inference role: an actor sends its rows and is told its actions.

A question is one byte that says what it is, and then its bytes:

    JOIN      the actor's number of environments and the form of its rows, in JSON
    ROWS      a row of each environment, as RowForm packs them

An answer likewise:

    ACTIONS   an int32 for each environment
    JOINED    ordinal and epoch of the first stream that the role has leased for it, and the run's
              env_steps_before, in JSON
    REFUSED   cause and remedy, in JSON
    UNKNOWN   the role has no state for this actor (it was silent, or the role is another one): its
              episodes cannot go on
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from drlnet.adders.observations import flat, row_columns
from drlnet.client import Client
from drlnet.config import Config
from drlnet.envs import EnvSpaces, Rows
from drlnet.errors import ConfigError
from drlnet.metrics.stages import Stages
from drlnet.roles.newest_params import PARAMS_TIMEOUT_S
from drlnet.roles.seeds import role_sequence
from drlnet.roles.stop import Stop

PATIENCE_S = 20.0  # with an inference role that the server has not heard of
Arrays = dict[str, npt.NDArray[Any]]


class Asks(IntEnum):
    """What a question is."""

    JOIN = 0
    ROWS = 1


class Says(IntEnum):
    """What an answer is."""

    ACTIONS = 0
    JOINED = 1
    REFUSED = 2
    UNKNOWN = 3


class Forgotten(Exception):
    """The inference role does not know this actor's streams: its episodes begin anew."""


def message(kind: Asks | Says, body: bytes | Mapping[str, Any] = b"") -> bytes:
    """A question or an answer."""
    return bytes([kind]) + (body if isinstance(body, bytes) else json.dumps(body).encode())


class RowForm:
    """How the rows of an actor travel: column after column, the environments in order."""

    def __init__(self, spaces: EnvSpaces):
        self._leaves = spaces.leaves
        self._columns = row_columns(spaces)
        self._num_actions = spaces.num_actions

    def describe(self) -> list[Any]:
        """What both sides must agree on; JSON has it."""
        columns = [[name, one.dtype, list(one.shape)] for name, one in self._columns.items()]
        return [self._num_actions, columns]

    def empty(self, count: int) -> Arrays:
        """Columns of that many environments, none of which has a row."""
        return {
            name: (np.ones if name == "action_mask" else np.zeros)((count, *one.shape), one.dtype)
            for name, one in self._columns.items()
        }

    def pack(self, rows: Rows) -> bytes:
        """Rows of all environments of an actor."""
        count = len(rows.reward)
        values: dict[str, npt.NDArray[Any] | None] = {
            **(rows.leaves if rows.leaves is not None else {"obs": rows.obs}),
            **{name: getattr(rows, name) for name in self._columns if "obs" not in name},
        }
        parts = []
        for name, one in self._columns.items():
            value = values[name]
            if value is None:  # no mask: all have a row, every action is valid
                value = np.ones((count, *one.shape), np.bool_)
            parts.append(np.ascontiguousarray(value, one.dtype).tobytes())
        return b"".join(parts)

    def unpack(self, packed: bytes, into: Arrays, own: slice) -> None:
        """Puts what pack() made of an actor's rows among those of all."""
        at = 0
        for name in self._columns:
            place = into[name][own]
            place[...] = np.frombuffer(packed, place.dtype, place.size, at).reshape(place.shape)
            at += place.nbytes

    def rows(self, arrays: Arrays) -> Rows:
        """The rows that these columns are."""
        leaves = {name: arrays[name] for name in self._leaves}
        return Rows(
            obs=flat(self._leaves, leaves) if leaves else arrays["obs"],
            leaves=leaves or None,
            action_mask=arrays.get("action_mask"),
            **{name: arrays[name] for name in ("reward", "terminated", "truncated")},
            **{name: arrays[name] for name in ("first", "last", "mask")},
        )


class CentralAgent:
    """One actor's side: what OwnAgent is, without params and without an agent. Not thread-safe."""

    items_added = 0  # the role adds them

    def __init__(self, config: Config, client: Client, spaces: EnvSpaces, stages: Stages):
        self._config, self._client, self._stages = config, client, stages
        self._form = RowForm(spaces)

    def wait(self, stop: Stop) -> None:
        """Nothing: the role has the params, and start() waits for the role."""

    def start(self) -> np.random.SeedSequence:
        """Asks the role for streams; returns what the environments are seeded by."""
        asked = {"envs": self._config.actor.envs_per_actor, "form": self._form.describe()}
        answer = self._client.ask(message(Asks.JOIN, asked), PARAMS_TIMEOUT_S)
        told = json.loads(answer[1:])
        if answer[0] == Says.REFUSED:
            raise ConfigError(told["cause"], told["remedy"])
        self._stages.ended("fetch")
        seeds = role_sequence(
            *(self._config.run.seed, "actor", told["ordinal"], told["epoch"]),
            env_steps_before=told["env_steps_before"],
        )
        envs: np.random.SeedSequence = seeds.spawn(2)[1]
        return envs

    def act(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Actions [M] for these rows, which the role stores.

        Raises Forgotten where the role does not know these environments, ReplayTimeout where none
        is heard.
        """
        answer = self._client.ask(message(Asks.ROWS, self._form.pack(rows)), PATIENCE_S)
        self._stages.ended("policy")
        if answer[0] == Says.UNKNOWN:
            raise Forgotten
        return np.frombuffer(answer, np.int32, offset=1).astype(np.int64)

    def refresh(self) -> None:
        """Nothing: the role looks for newer params."""

    def flush(self) -> None:
        """Nothing: an answer says that the role has the rows."""

    def leave(self) -> None:
        """Nothing: the role breaks the streams when the actor asks for others."""

    def forsake(self) -> None:
        """Nothing: the streams are the role's."""

    def close(self) -> None:
        """Nothing: the role gives the streams back when the actor's session has ended."""

    def reading(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """What the actor reports: its own figures alone."""
        return dict(own)
