"""Environments in processes of their own end, whatever these do, and say what ended one."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from drlnet.config import EnvConfig
from drlnet.envs import RowEnv, crashed, make_envs
from drlnet.envs.workers import EnvCrash

HANGING = "drlnet/Hanging-v0"
_SOON_S = 10.0


class Hanging(gym.Env[np.ndarray, np.int64]):
    """Never ends a step."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(1000)
        raise AssertionError("it was slept out")


if HANGING not in gym.registry:
    gym.register(HANGING, lambda **_: Hanging())


def made(env_id: str) -> RowEnv:
    envs, _ = make_envs(EnvConfig(id=env_id, vectorization="async"), 3)
    envs.reset(seed=0)
    return envs


def has_ended(pid_fd: int, within_s: float) -> bool:
    return bool(select.select([pid_fd], [], [], within_s)[0])


def test_a_worker_that_is_killed_is_named_and_leaves_none() -> None:
    envs = made("CartPole-v1")
    workers = envs.envs.processes  # type: ignore[attr-defined]
    os.kill(workers[1].pid, signal.SIGKILL)
    workers[1].join()
    with pytest.raises(EnvCrash) as raised:
        envs.step(np.zeros(3, np.int64))
    envs.close()
    assert not any(worker.is_alive() for worker in workers)
    error = crashed("CartPole-v1", "here", raised.value)
    assert error.cause == (
        "environment CartPole-v1 crashed here: "
        "the worker process of environment 1 was killed by SIGKILL"
    )
    assert "memory" in error.remedy


def test_workers_outlive_their_terminal_where_the_parent_is_to() -> None:
    saved = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        envs = made("CartPole-v1")
    finally:
        signal.signal(signal.SIGHUP, saved)
    for worker in envs.envs.processes:  # type: ignore[attr-defined]
        os.kill(worker.pid, signal.SIGHUP)
    envs.step(np.zeros(3, np.int64))
    envs.close()


def test_environments_that_hang_are_closed_all_the_same() -> None:
    envs = made(HANGING)
    workers = envs.envs.processes  # type: ignore[attr-defined]
    envs.envs.step_async(np.zeros(3, np.int64))  # type: ignore[attr-defined]  # and interrupted
    began_s = time.monotonic()
    envs.close()
    assert time.monotonic() - began_s < _SOON_S
    assert not any(worker.is_alive() for worker in workers)


def test_workers_that_hang_die_with_their_parent() -> None:
    parent = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(workers) == 3 and not has_ended(workers[0], 0)
    parent.kill()
    parent.wait()
    assert all(has_ended(worker, _SOON_S) for worker in workers)
    for worker in workers:
        os.close(worker)
    parent.stdout.close()


if __name__ == "__main__":
    hanging = made(HANGING)
    hanging.envs.step_async(np.zeros(3, np.int64))  # type: ignore[attr-defined]
    print(*(worker.pid for worker in hanging.envs.processes), flush=True)  # type: ignore[attr-defined]
    signal.pause()
