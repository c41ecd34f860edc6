"""The table that actors and learner share: both open it with the same words."""

from __future__ import annotations

from drlnet.algos import find_algo
from drlnet.client import Client, Limiter, Sampler, Table
from drlnet.config import Config
from drlnet.envs import EnvSpaces
from drlnet.roles.seeds import role_seed

TABLE_NAME = "replay"


def open_table(client: Client, config: Config, spaces: EnvSpaces) -> Table:
    """Opens (or makes) the table; TableMismatch when the server's was opened differently."""
    algo, replay = find_algo(config.algo.name), config.replay
    return client.table(
        TABLE_NAME,
        columns=algo.columns(spaces),
        item=algo.item(config.algo),
        capacity=replay.capacity,
        sampler=Sampler(
            name=replay.sampler,
            priority_exponent=replay.priority_exponent,
            options=replay.sampler_options,
        ),
        limiter=Limiter(
            min_size=replay.min_size,
            samples_per_insert=replay.samples_per_insert,
            error_buffer=replay.error_buffer or 0.0,
            batch=replay.batch_size,
            prefetch=replay.prefetch,
            append_burst=config.append_burst,
        ),
        # Only serial runs can repeat their draws. Elsewhere a seed of the learner's would only keep
        # out actors that were started by hand without it.
        seed=role_seed(config.run.seed, "server") if config.run.serial else 0,
    )
