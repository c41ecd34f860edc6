"""Seeds: by role and index, stable, different everywhere."""

from __future__ import annotations

import numpy as np

from drlnet.roles.seeds import role_seed, role_sequence


def test_by_role_and_index() -> None:
    roles = ("server", "actor", "learner", "gate", "confirm", "report", "echo", "infer")
    seeds = [role_seed(run, role, i) for run in (0, 1) for role in roles for i in (0, 1)]
    seeds += [role_seed(0, "actor", 0, 1), role_seed(0, "actor")]
    assert len(set(seeds)) == len(seeds)
    assert role_seed(3, "gate") == role_seed(3, "gate") and 0 <= role_seed(3, "gate") < 2**31


def test_a_run_that_goes_on_draws_other_numbers() -> None:
    """At its first server, whose count begins at 0, the numbers are those of role and index."""

    def drawn(before: int) -> int:
        seeds = role_sequence(3, "actor", 1, 1, env_steps_before=before)
        return int(np.random.default_rng(seeds.spawn(2)[0]).integers(2**62))

    first = int(np.random.default_rng(role_sequence(3, "actor", 1, 1).spawn(2)[0]).integers(2**62))
    assert drawn(0) == first
    assert len({drawn(before) for before in (0, 1, 2, 10**12)}) == 4
