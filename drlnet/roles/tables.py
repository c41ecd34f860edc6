"""The tables that actors and learner share: both open them with the same words."""

from __future__ import annotations

from typing import Any

from drlnet.algos import Algorithm
from drlnet.client import Client, Table
from drlnet.errors import TableMismatch
from drlnet.roles.run_at_server import explained
from drlnet.roles.seeds import role_seed


def open_tables(client: Client, algorithm: Algorithm[Any]) -> dict[str, Table]:
    """Opens (or makes) them; TableMismatch when the server's were opened differently."""
    try:
        return _opened(client, algorithm)
    except TableMismatch as error:
        raise explained(client, algorithm.config, error) from error


def _opened(client: Client, algorithm: Algorithm[Any]) -> dict[str, Table]:
    run = algorithm.config.run
    return {
        name: client.table(
            name,
            columns=table.columns,
            item=table.item,
            capacity=table.capacity,
            sampler=table.sampler,
            limiter=table.limiter,
            # Only serial runs can repeat their draws. Elsewhere a seed of the learner's would only
            # keep out actors that were started by hand without it.
            seed=role_seed(run.seed, "server") if run.serial else 0,
        )
        for name, table in algorithm.tables().items()
    }
