"""What is refused, and how it says so."""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from installed import require
from toy import TOY, Toy

from drlnet.config import EnvConfig, load
from drlnet.envs import crashed, find_spaces, make_envs, make_single
from drlnet.envs.workers import EnvCrash
from drlnet.errors import ConfigError, UnknownEnvironment, UserCodeError


@pytest.mark.parametrize("env_id", ["CartPole-v9", "Cartpole-v1", "cartpole"])
def test_unknown_id_names_near_matches(env_id: str) -> None:
    with pytest.raises(UnknownEnvironment) as info:
        make_envs(EnvConfig(id=env_id), 1)
    assert env_id in info.value.cause and "CartPole-v1" in info.value.remedy
    assert "\n" not in info.value.cause + info.value.remedy


def test_continuous_actions_are_refused() -> None:
    with pytest.raises(UnknownEnvironment, match="action space"):
        make_envs(EnvConfig(id="Pendulum-v1"), 1)


def test_other_observations_are_refused() -> None:
    with pytest.raises(UnknownEnvironment, match="observation space"):
        make_envs(EnvConfig(id="Blackjack-v1"), 1)


def test_unknown_keyword() -> None:
    with pytest.raises(ConfigError, match="cannot be made") as info:
        make_envs(EnvConfig(id="CartPole-v1", kwargs={"gravity_of_mars": True}), 1)
    assert "\n" not in info.value.cause


class Large(Toy):
    def __init__(self, shape: tuple[int, ...] = (256, 256, 3)) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)


def frames_in_color(env: Any) -> Any:
    """A wrapper: four frames of Atari's screen, as they are."""
    return gym.wrappers.FrameStackObservation(env, 4)


def test_observations_that_no_table_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(TOY), "entry_point", Large)
    what = r"\(uint8\[256, 256, 3\], 196,608 bytes\) that no table holds: .* 128 KiB"
    with pytest.raises(ConfigError, match=what) as info:
        find_spaces(EnvConfig(id=TOY))
    assert TOY in info.value.cause and "ResizeObservation" in info.value.remedy
    assert "env.wrappers" in info.value.remedy and "net.frame_stack" in info.value.remedy


@pytest.mark.parametrize(
    ("env_id", "sets", "remedy"),
    [
        (
            "ALE/Pong-v5",
            ["env.screen_size=210", "env.grayscale=false"],
            r"env\.grayscale=true, or a lower env\.screen_size$",
        ),
        (
            "ale_py:ALE/Pong-v5",
            ['env.wrappers=["envs.test_make:frames_in_color"]'],
            r"^use ALE/Pong-v5: .*env\.screen_size.*net\.frame_stack",
        ),
    ],
)
def test_frames_that_no_table_holds_name_the_setting_that_helps(
    env_id: str, sets: list[str], remedy: str
) -> None:
    require("ale_py")
    with pytest.raises(ConfigError, match="that no table holds") as info:
        find_spaces(load(env_id, sets=sets).env)
    assert re.search(remedy, info.value.remedy), info.value.remedy


@pytest.mark.parametrize("sets", [["env.screen_size=209"], ["env.grayscale=true"]])
def test_frames_are_held_where_that_is_followed(sets: list[str]) -> None:
    require("ale_py")
    color = ["env.screen_size=210", "env.grayscale=false"]
    assert find_spaces(load("ALE/Pong-v5", sets=[*color, *sets]).env).obs_dtype == "uint8"


class Unmakeable(Toy):
    def __init__(self) -> None:
        raise AttributeError("no licence\nfor this simulator")


def test_whatever_an_environment_raises_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(TOY), "entry_point", Unmakeable)
    with pytest.raises(ConfigError, match="AttributeError: no licence for this simulator"):
        make_envs(EnvConfig(id=TOY), 1)


class UnmakeableElsewhere(Toy):
    def __init__(self) -> None:
        if multiprocessing.parent_process() is not None:
            raise OSError("no licence\nleft, 100 % in use")
        super().__init__()


def test_what_a_worker_cannot_make_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(TOY), "entry_point", UnmakeableElsewhere)
    own = rf"{TOY} cannot be made: OSError: no licence left, 100 % in use, in test_make.py:\d+"
    with pytest.warns(), pytest.raises(UserCodeError, match=own) as info:  # gymnasium's own words
        make_envs(EnvConfig(id=TOY, vectorization="async"), 2)
    assert "raise OSError(" in info.value.trace


def test_no_own_vector_form() -> None:
    with pytest.raises(ConfigError, match="cannot be made"):
        make_envs(EnvConfig(id="Acrobot-v1", vectorization="vector_entry_point"), 2)


def test_an_id_may_name_the_module_that_registers_it() -> None:
    envs, spaces = make_envs(EnvConfig(id=f"toy:{TOY}"), 1)
    envs.close()
    assert spaces.num_actions == 4


def test_a_module_without_that_id_names_its_own() -> None:
    with pytest.raises(UnknownEnvironment) as info:
        make_envs(EnvConfig(id="toy:drlnet/Tay-v0"), 1)
    assert f"toy:{TOY}" in info.value.remedy


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("\n1 / 0", "ZeroDivisionError: division by zero, in own_envs.py:2"),
        ("def f():\n  {}[0]\nf()", "KeyError: 0, in own_envs.py:2, f()"),
        ("import json\njson.loads('')", "in own_envs.py:2"),
        ("x = 1\ndef", "invalid syntax (own_envs.py, line 2), in own_envs.py:2"),
    ],
)
def test_a_module_that_raises_an_error(
    source: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_envs", raising=False)
    (tmp_path / "own_envs.py").write_text(source, encoding="utf-8")
    with pytest.raises(UserCodeError) as info:
        make_envs(EnvConfig(id="own_envs:Own-v0"), 1)
    assert cause in info.value.cause and "\n" not in info.value.cause
    assert "Traceback" in info.value.trace and "own_envs.py" in info.value.trace


def test_a_module_that_is_missing() -> None:
    with pytest.raises(UnknownEnvironment, match="No module named") as info:
        make_envs(EnvConfig(id="no_envs:Own-v0"), 1)
    assert "PYTHONPATH" in info.value.remedy and "\n" not in info.value.cause


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_crash_says_where_and_keeps_its_traceback(vectorization: str) -> None:
    config = EnvConfig(id=TOY, vectorization=vectorization, kwargs={"crash_at": 1})  # type: ignore[arg-type]
    envs, _ = make_envs(config, 2)
    envs.reset(seed=0)
    warned = pytest.warns() if vectorization == "async" else nullcontext()  # gymnasium's own words
    with warned, pytest.raises((RuntimeError, EnvCrash)) as raised:
        envs.step(np.zeros(2, np.int64))
    envs.close()
    error = crashed(TOY, "here", raised.value)
    assert re.fullmatch(
        rf"environment {TOY} crashed here: RuntimeError: the toy broke, in toy.py:\d+, step\(\)",
        error.cause,
    )
    assert 'raise RuntimeError("the toy broke")' in error.trace


def test_only_an_environment_without_a_limit_gets_another() -> None:
    envs, _ = make_envs(EnvConfig(id=TOY, kwargs={"longest": 10**6}), 1, longest_episode=5)
    envs.reset(seed=0)
    last = [bool(envs.step(np.array([0]))[1].last[0]) for _ in range(5)]
    envs.close()
    assert last == [False] * 4 + [True]
    envs, _ = make_envs(EnvConfig(id="CartPole-v1"), 1, longest_episode=5)
    envs.reset(seed=0)
    assert not any(envs.step(np.array([t % 2]))[1].last[0] for t in range(6))
    envs.close()


@pytest.mark.parametrize(
    ("env_id", "near"),
    [
        ("ALE/Png-v5", "ALE/Pong-v5"),
        ("ale/pong-v5", "ALE/Pong-v5"),
        ("ALE/Pong-v4", "ALE/Pong-v5"),
        ("MinAtar/Brekout-v1", "MinAtar/Breakout-v1"),
        ("minatar/freeway-v1", "MinAtar/Freeway-v1"),
    ],
)
def test_ids_of_packages_have_near_matches(env_id: str, near: str) -> None:
    require("ale_py" if env_id.lower().startswith("ale") else "minatar")
    with pytest.raises(UnknownEnvironment) as info:
        find_spaces(EnvConfig(id=env_id))
    assert near in info.value.remedy


WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("ale_py", "minatar"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
from drlnet.__main__ import main
sys.argv = ["drlnet", "run", sys.argv[1]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "package", "extra"),
    [("ALE/Pong-v5", "ale-py", "atari"), ("MinAtar/Breakout-v1", "minatar", "minatar")],
)
def test_a_package_that_is_missing(env_id: str, package: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(WITHOUT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py"), env_id],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == UnknownEnvironment.exit_code
    assert done.stderr.splitlines() == [
        f"error: environment {env_id} needs the package {package}: "
        f"No module named {package.replace('-', '_')!r}",
        f"  try: pip install 'drlnet[{extra}]'",
    ]


@pytest.mark.parametrize(("limit", "steps"), [(None, 3), (2, 2)])
def test_a_single_environment_ends_by_its_own_limit_or_the_evaluations(
    limit: int | None, steps: int
) -> None:
    made = make_single(EnvConfig(id="CartPole-v1", kwargs={"max_episode_steps": 3}), limit)
    made.reset(seed=0)
    assert [made.step(step % 2)[3] for step in range(steps)] == [False] * (steps - 1) + [True]
