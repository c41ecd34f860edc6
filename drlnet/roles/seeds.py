"""Every random number of a run follows from run.seed, by role and index."""

from __future__ import annotations

import numpy as np

# Append new ones, never reorder: the numbers are part of what a seed means.
_ROLES = ("server", "actor", "learner", "gate", "confirm", "report", "echo", "infer")


def role_sequence(
    seed: int, role: str, *index: int, env_steps_before: int = 0
) -> np.random.SeedSequence:
    """The seed sequence of a role; index tells apart its processes or uses.

    env_steps_before: the steps of a run that goes on at another server, which leases its streams
    from the first one again.
    """
    again = (env_steps_before,) if env_steps_before else ()
    return np.random.SeedSequence(seed, spawn_key=(_ROLES.index(role), *index, *again))


def role_seed(seed: int, role: str, *index: int) -> int:
    """A seed of 31 bits for what takes an integer."""
    return int(role_sequence(seed, role, *index).generate_state(1)[0]) >> 1
