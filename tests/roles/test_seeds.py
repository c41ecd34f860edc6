"""Seeds: by role and index, stable, different everywhere."""

from __future__ import annotations

from drlnet.roles.seeds import role_seed


def test_by_role_and_index() -> None:
    roles = ("server", "actor", "learner", "gate", "confirm", "report", "echo", "infer")
    seeds = [role_seed(run, role, i) for run in (0, 1) for role in roles for i in (0, 1)]
    seeds += [role_seed(0, "actor", 0, 1), role_seed(0, "actor")]
    assert len(set(seeds)) == len(seeds)
    assert role_seed(3, "gate") == role_seed(3, "gate") and 0 <= role_seed(3, "gate") < 2**31
