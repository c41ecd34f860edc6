"""What each engine would do, as its script or manifest: held against files in golden/.

DRLNET_WRITE_GOLDEN=1 pytest tests/launch/test_engines.py writes them anew.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from drlnet.config import load
from drlnet.launch.engines import kubernetes, ray, shell, slurm, ssh
from drlnet.launch.plan import Plan, plan_of

GOLDEN = Path(__file__).with_name("golden")
SSH_HOSTS = [ssh.SshHost("node1", "10.0.0.1"), ssh.SshHost("node2", drlnet="/opt/bin/drlnet")]


def made(**more: object) -> Plan:
    given = {"actor.num_actors": 5, "algo.n_step": 5, "run.folder": "runs/mine", **more}
    return plan_of(load("CartPole-v1", sets=given), given)


SCRIPTS: dict[str, Callable[[Plan], str]] = {
    "shell": shell.script,
    "ssh": lambda plan: ssh.script(plan, SSH_HOSTS, "ssh"),
    "ray": lambda plan: ray.script(plan, "auto", most=2),
    "slurm": lambda plan: slurm.script(plan, ["--partition=gpu", "--time=60"]),
    "kubernetes": lambda plan: kubernetes.manifest(plan, "me/drlnet:1"),
}


@pytest.mark.parametrize("name", [*SCRIPTS])
def test_the_script_of(name: str) -> None:
    plan = made(**{"learner.device": "cuda", "policy.where": "central"})
    text = f"{plan.table()}\n\n{SCRIPTS[name](plan)}"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("DRLNET_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["shell", "ssh"])
def test_every_role_is_in_the_script_as_often_as_in_the_plan(name: str) -> None:
    words = shlex.split(SCRIPTS[name](made()).replace("'", " "), comments=True)
    assert [words.count(role) for role in ("serve", "learn")] == [1, 1]
    counts = [words[at + 1] for at, word in enumerate(words) if word == "--num-actors"]
    assert sum(map(int, counts)) == 5


def test_bundles_hold_the_plan() -> None:
    plan = made()
    main, *others = ray.bundles(plan, most=2)
    assert main["CPU"] == plan.cores("server", "learner")
    assert sum(bundle["CPU"] for bundle in others) >= plan.cores("actor")
    assert {bundle["CPU"] for bundle in others} == {3}
