"""Everything in one process and one thread: the same actor and learner, taking turns.

Reproducible bit by bit: no clock decides anything, no batch is under way while rows come in, and
the server is pumped by the calls themselves over the memory transport.
"""

from __future__ import annotations

import torch

from drlnet import native
from drlnet.client import Client
from drlnet.config import Config
from drlnet.errors import BadPriority
from drlnet.metrics.run_folder import RunFolder
from drlnet.nets.memory import keep_freed_memory
from drlnet.roles.actor import Actor
from drlnet.roles.learn import Learning, LearnResult
from drlnet.roles.stop import Stop

_DEADLINE_S = 1e6


def serial(config: Config, run: RunFolder, stop: Stop) -> LearnResult:
    """Runs until the goal, a budget in steps, or stop. What was learned before an error is kept."""
    torch.set_num_threads(1)
    keep_freed_memory()
    server = native.Server(["memory:"])
    # Nothing else could keep a call waiting; a process that was suspended goes on where it was.
    with Client.in_process(server, timeout=_DEADLINE_S) as client:
        learning = Learning(config, client, run, stop)
        try:
            _take_turns(config, client, learning, stop)
            return learning.close()
        except Exception as error:  # its algorithm may be a user's
            learning.keep(sound=not isinstance(error, BadPriority))
            raise


def _take_turns(config: Config, client: Client, learning: Learning, stop: Stop) -> None:
    actor = Actor(config, client, index=0)
    actor.wait(stop)
    actor.start()
    batch_size = max(table.batch_size for table in learning.algorithm.tables().values())
    drawn = 0
    while not learning.finished(stop.is_set()):
        if not learning.feed.due:
            learning.step()
        elif may_draw(config, actor.items_added, drawn):
            actor.flush()
            learning.feed.draw()
            drawn += batch_size
        else:
            actor.tick()
    actor.close()


def may_draw(config: Config, created: int, drawn: int) -> bool:
    """Decides whose turn it is: draws keep the ratio that the limiter asks for, so it never waits.

    Without samples_per_insert it is a batch for each vector step, of a queue one that is whole.
    """
    replay = config.replay
    if replay.max_times_sampled:
        draws = created * replay.max_times_sampled - drawn
        return created >= replay.min_size and draws >= replay.batch_size
    ratio = replay.samples_per_insert or replay.batch_size / config.actor.envs_per_actor
    return native.may_sample(replay.min_size, ratio, created, drawn, replay.batch_size)
