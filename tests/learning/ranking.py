"""Learns by one process or by two ranks from the same draws: FOLDER RANKS CASES.

CASES: JSON, a list of [algorithm, learner steps, [sets]]. Each process plays and draws by itself,
as a serial run does, so that all of them see the same draws and each rank learns from its half.
Writes FOLDER/RANK.pt: what was learned in each case.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch

from drlnet import native
from drlnet.algos import Algorithm, make_algorithm
from drlnet.client import Batch, Client
from drlnet.config import Config, load
from drlnet.envs import find_spaces
from drlnet.launch.signals import Stop
from drlnet.learning.ranks import Place, Ranks, meeting, meeting_place
from drlnet.nets.params import pack
from drlnet.roles.actor import Actor
from drlnet.roles.tables import open_tables

SIZE = 32


def draws(config: Config, algorithm: Algorithm[Any], client: Client) -> Iterator[dict[str, Batch]]:
    """Batches of every table, each after more was played."""
    tables = open_tables(client, algorithm)
    client.publish(pack(algorithm.learner("cpu", 1).params(), algorithm.architecture, {}))
    actor = Actor(config, client, index=0)
    actor.wait(Stop())
    actor.start()
    drawn = 0
    while True:
        while actor.items_added < drawn + SIZE:
            actor.tick()
            actor.flush()
        drawn += SIZE
        yield {name: table.sample(SIZE) for name, table in tables.items()}


def part(whole: Batch, rank: int, count: int) -> Batch:
    """The items of a draw that a rank learns from."""
    own = slice(rank * SIZE // count, (rank + 1) * SIZE // count)
    batch = copy.copy(whole)
    batch.keys, batch.length = whole.keys[own], whole.length[own]
    batch.probabilities = whole.probabilities[own]
    batch.views = {name: view[own] for name, view in whole.views.items()}
    batch.spent, batch.env_steps = 0.1 * (rank == 0), whole.env_steps - rank  # until they agree
    return batch


def main(folder: str, count: int, cases: list[tuple[str, int, list[str]]]) -> None:
    torch.set_num_threads(1)
    listeners = [meeting_place() for _ in cases]
    rank = 1 if count > 1 and os.fork() == 0 else 0
    learned = []
    for listener, (name, steps, sets) in zip(listeners, cases, strict=True):
        with meeting(Place(rank, count, rank, listener), lambda: False) as ranks:
            learned.append(learn(ranks, name, steps, sets))
    torch.save(learned, f"{folder}/{rank}.pt")
    if count > 1 and rank == 0:
        assert os.wait()[1] == 0


def learn(ranks: Ranks, name: str, steps: int, sets: list[str]) -> dict[str, Any]:
    """The gradients as they were stepped along, each with its rate; what came of them."""
    flags = {"algo.name": name, "run.serial": True, "run.max_learner_steps": 100}
    small = [f"replay.batch_size={SIZE}", "replay.min_size=1", "net.hidden_sizes=[16]"]
    config = load("CartPole-v1", flags=flags, sets=[*small, *sets])
    algorithm = make_algorithm(config, find_spaces(config.env))
    # Other initial params in each process: they are rank 0's that all begin with.
    learner: Any = algorithm.learner("cpu", 10 + ranks.rank)
    gradients: list[torch.Tensor] = []
    priorities: list[torch.Tensor] = []
    move = learner.optimizer._move

    def spy(rate: float) -> None:
        grads = [one.grad.flatten() for one in learner.optimizer._params]
        gradients.append(torch.cat([*grads, torch.tensor([rate])]))
        move(rate)

    learner.optimizer._move = spy
    over = not steps
    ranks.attach(learner, algorithm, over=over and ranks.rank == 0)  # which tells the others
    assert ranks.over == (over and ranks.count > 1)
    with Client.in_process(native.Server(["memory:"])) as client:
        wholes = draws(config, algorithm, client)
        for _ in range(steps):
            batches = {
                table: part(whole, ranks.rank, ranks.count) for table, whole in next(wholes).items()
            }
            assert ranks.agree(batches)
            new = learner.step(batches).priorities
            ranks.end_step()
            priorities += [torch.from_numpy(one.copy()) for one in new.values()]
    ranks.end()
    digest = hashlib.sha256()
    for _, value in sorted(learner.params().items()):
        digest.update(value.numpy().tobytes())
    return {
        "gradients": gradients,
        "priorities": priorities,
        "params": digest.hexdigest(),
        "updates": getattr(learner, "updates", 0),
    }


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
