"""Steps a second of an actor with its server, beside its environments and network alone.

python actor_rates.py ENV ENVS [ROUNDS]
prints a line of JSON: medians over the rounds. An actor of ENVS environments plays for a second
over blocking UDP, with all that it does: n-step errors, appends, looks for params, reports. Then as
many environments of the same kind play for a second by the same network and exploration, in the
same process and with one thread of torch, and nothing is kept. The server has another core. No
learner draws and no limiter holds.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from drlnet.algos import make_algorithm
from drlnet.bench.processes import served
from drlnet.client import Client
from drlnet.config import Config, load
from drlnet.envs import Streams, make_envs, ticks
from drlnet.launch.signals import Stop
from drlnet.nets.params import pack
from drlnet.policies import EpsilonGreedy
from drlnet.roles.actor import Actor

WARM_UP_S, SLICE_S = 3.0, 1.0


def bare(config: Config) -> Callable[[], None]:
    """One step of environments that a network plays, and nothing else."""
    count = config.actor.envs_per_actor
    envs, spaces = make_envs(config.env, count)
    player = make_algorithm(config, spaces).greedy(count)
    streams = Streams(np.arange(count), first=0, total=count, rng=np.random.default_rng(0))
    policy = EpsilonGreedy(config.policy, streams)
    rows = envs.reset(0)

    def tick() -> None:
        nonlocal rows
        values = player.values(rows)
        action = policy.choose(values, rows.action_mask, rows.mask)
        *_, rows = ticks(envs.step(action))

    return tick


def ticks_per_s(tick: Callable[[], None], seconds: float) -> float:
    count, began_s = 0, time.perf_counter()
    while (lasted_s := time.perf_counter() - began_s) < seconds:
        tick()
        count += 1
    return count / lasted_s


def measure(config: Config, address: str, stop: Stop, rounds: int) -> None:
    num_envs = config.actor.envs_per_actor
    with Client(address, poll="block") as client:
        algorithm = make_algorithm(config, make_envs(config.env, 1)[1])
        params = algorithm.learner("cpu", 0).params()
        client.publish(pack(params, algorithm.architecture, {}))
        actor = Actor(config, client, 0)
        actor.wait(stop)
        actor.start()
        sides = {"actor": actor.tick, "alone": bare(config)}
        for tick in sides.values():
            ticks_per_s(tick, WARM_UP_S)
        turns: list[dict[str, float]] = []
        for round_ in range(rounds):
            order = sorted(sides, reverse=bool(round_ % 2))
            rates = {name: num_envs * ticks_per_s(sides[name], SLICE_S) for name in order}
            turns.append({**rates, "share": rates["actor"] / rates["alone"]})
        actor.close()
    medians = {name: round(statistics.median(turn[name] for turn in turns), 3) for name in turns[0]}
    print(json.dumps({"env": config.env.id, "envs": num_envs, "rounds": rounds, **medians}))


def main() -> None:
    env, num_envs, rounds = sys.argv[1], int(sys.argv[2]), int((sys.argv[3:] or ["15"])[0])
    sets = [f"actor.envs_per_actor={num_envs}", "replay.samples_per_insert=0"]
    config = load(env, flags={"algo.name": "dqn"}, sets=sets)
    torch.set_num_threads(1)
    first_core, last_core, *_ = sorted(os.sched_getaffinity(0)) * 2
    os.sched_setaffinity(0, [first_core])
    with (
        Stop() as stop,
        served(stop, ["udp://127.0.0.1:0"], "block", core=last_core) as (_, (address,)),
    ):
        measure(config, address, stop, rounds)


if __name__ == "__main__":
    main()
