"""Actors that play by networks of their own, beside actors that the inference role plays for.

python central_inference.py [ROUNDS]
prints lines of JSON, medians over the rounds. Steps a second of 1, 2 and 4 actor processes over
UDP, for the default network of CartPole, MinAtar's and Nature DQN's, and the bytes that the server
received and sent for each step. Then what a stopped actor costs the others: of eight that step
eight environments each, 50 times a second, one is stopped in turns. No learner draws and no limiter
holds.
"""

from __future__ import annotations

import json
import re
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from drlnet.algos import make_algorithm
from drlnet.bench.processes import served
from drlnet.client import Client
from drlnet.config import load
from drlnet.envs import find_spaces
from drlnet.launch.process import Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Supervisor
from drlnet.nets.params import pack

CASES = {
    "mlp": ("CartPole-v1", ["actor.envs_per_actor=16"]),
    "minatar": ("MinAtar/Breakout-v1", ["actor.envs_per_actor=32"]),
    "nature": (
        "ALE/Pong-v5",
        ["actor.envs_per_actor=16", "net.name=nature", "env.screen_size=84"],
    ),
}
STEPS, ACTOR_STEPS = "table.replay.env_steps", re.compile(r"client\.actor-.*\.env_steps$")
WARM_UP_S, SLICE_S, NEWS_S, ACTORS = 3.0, 5.0, 60.0, (1, 2, 4)


class Group:
    """A server, actors and perhaps the inference role, that play by params of no training."""

    def __init__(self, group: Supervisor, client: Client):
        self._group, self._client = group, client
        self.actors: list[Process] = []

    def start(self, env: str, sets: Sequence[str], where: str, actors: int) -> None:
        address = self._client.address
        own = [f"policy.where={where}", "replay.samples_per_insert=0", *sets]
        config = load(env, flags={"algo.name": "dqn"}, sets=own)
        algorithm = make_algorithm(config, find_spaces(config.env))
        params = algorithm.learner("cpu", 0).params()
        self._client.publish(pack(params, algorithm.architecture, {}))
        words = [env, "--algo", "dqn", "--server", address]
        words += [word for text in own for word in ("--set", text)]
        if where == "central":
            self._group.start("infer", ["infer", *words, "--num-actors", str(actors)])
        for index in range(actors):
            own_words = ["--num-actors", "1", "--index", str(index)]
            self.actors.append(self._group.start("actor", ["actor", *words, *own_words]))
        given_up_s = time.monotonic() + NEWS_S
        while self.playing < actors:
            if time.monotonic() > given_up_s:
                raise SystemExit("the actors do not play")
            self.wait(0.1)
        self.wait(WARM_UP_S)

    def read(self) -> Mapping[str, Any]:
        return self._client.stats()

    @property
    def playing(self) -> int:
        """The actors that have told of steps."""
        steps = (value for name, value in self.read().items() if ACTOR_STEPS.match(name))
        return sum(value > 0 for value in steps)

    def wait(self, seconds: float) -> None:
        """While the processes work. Raises what one that ends died of."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            for event in self._group.wait(left_s):
                if isinstance(event, Ended):
                    raise event.process.failure()

    def measure(self) -> tuple[float, dict[str, float]]:
        """Steps a second, and by way the bytes that the server passed for each of them."""
        before, began_s = self.read(), time.monotonic()
        self.wait(SLICE_S)
        after, lasted_s = self.read(), time.monotonic() - began_s
        steps = after[STEPS] - before[STEPS]
        ways = {
            way: (total(after, way) - total(before, way)) / steps
            for way in ("bytes_received", "bytes_sent")
        }
        return steps / lasted_s, ways


def total(read: Mapping[str, Any], way: str) -> float:
    return sum(v for name, v in read.items() if name.startswith("peer.") and name.endswith(way))


@contextmanager
def playing(stop: Stop, *case: Any) -> Iterator[Group]:
    with (
        served(stop, ["udp://127.0.0.1:0"], "adaptive") as (_, (address,)),
        Supervisor(stop) as supervisor,
        Client(address, name="publisher") as client,
    ):
        group = Group(supervisor, client)
        group.start(*case)
        yield group


def share_of_others(group: Group, index: int) -> float:
    """Of the steps that the others take while none is stopped, those while that one is."""
    all_per_s, _ = group.measure()
    group.actors[index].signal(signal.SIGSTOP)
    others_per_s, _ = group.measure()
    group.actors[index].signal(signal.SIGCONT)
    group.wait(WARM_UP_S)
    count = len(group.actors)
    return others_per_s / (all_per_s * (count - 1) / count)


def medians(turns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: round(statistics.median(turn[name] for turn in turns), 1) for name in turns[0]}


def main() -> None:
    rounds = int((sys.argv[1:] or ["3"])[0])
    with Stop() as stop:
        for name, (env, sets) in CASES.items():
            for actors in ACTORS:
                turns: dict[str, list[dict[str, float]]] = {"actor": [], "central": []}
                for where in [*turns] * rounds:
                    with playing(stop, env, sets, where, actors) as group:
                        per_s, ways = group.measure()
                        turns[where].append({"steps_per_s": per_s, **ways})
                figures = {where: medians(each) for where, each in turns.items()}
                print(json.dumps({"net": name, "actors": actors, **figures}), flush=True)
        paced = ["actor.envs_per_actor=8", "env.max_steps_per_second=50"]
        with playing(stop, "CartPole-v1", paced, "central", 8) as group:
            shares = [share_of_others(group, number % 8) for number in range(rounds)]
        print(json.dumps({"share_of_others": [round(share, 4) for share in shares]}))


if __name__ == "__main__":
    main()
