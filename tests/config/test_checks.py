"""Settings that contradict each other are refused, with a remedy that works."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

import pytest
from algos.transitions import SPACES

from drlnet import native
from drlnet.algos import TABLE, make_algorithm
from drlnet.algos.dqn import Dqn
from drlnet.client import Client
from drlnet.config import load, load_server
from drlnet.config.checks import least_capacity
from drlnet.errors import ConfigError, Deadlock, UnknownKey, UserCodeError, user_place
from drlnet.roles.tables import open_tables

ID = "Unregistered-v0"  # has no recipe


@pytest.mark.parametrize(
    "sets",
    [
        ["replay.samples_per_insert=8", "replay.error_buffer=10"],
        ["replay.capacity=100", "replay.min_size=101"],
        ["run.max_env_steps=10"],
        # Items at every 40th step: 2,000 need 80,000 rows.
        ["algo.name=r2d2", "replay.capacity=50_000", "replay.min_size=2_000"],
        ["algo.name=r2d2", "replay.min_size=100", "run.max_env_steps=3_999"],
        # 100 whole unrolls beside those that 8 environments have begun.
        ["algo.name=pqn", "algo.unroll=16", "replay.min_size=100", "replay.capacity=1_700"],
        # The newest rows of each of 64 environments are no whole items of 80 steps yet.
        ["algo.name=r2d2", "replay.capacity=24_000", "replay.min_size=500", "actor.num_actors=8"],
        ["replay.capacity=80", "replay.min_size=1", "actor.envs_per_actor=8"],
    ],
)
def test_settings_that_would_hang_are_refused(sets: list[str]) -> None:
    with pytest.raises(Deadlock):
        load(ID, sets=sets)


def test_a_remedy_for_too_many_items_works() -> None:
    sets = ["algo.name=r2d2", "replay.capacity=50_000", "replay.min_size"]
    with pytest.raises(Deadlock, match="2000 items, one every 40 steps, need 80640 rows") as caught:
        load(ID, sets=[*sets[:2], f"{sets[2]}=2_000"])
    assert "lower replay.min_size to 1234," in caught.value.remedy
    assert load(ID, sets=[*sets[:2], f"{sets[2]}=1_234"]).replay.min_size == 1234


@pytest.mark.parametrize(
    ("sets", "rows"),
    [
        (["algo.name=pqn", "replay.batch_size=16"], 2 * 32 * 33),
        (["algo.name=vtrace", "replay.batch_size=16", "net.frame_stack=4"], 2 * 32 * 24),
        # A batch and an append of 8 vector steps beside what all environments have begun.
        (["algo.name=pqn"], (32 + 32) * 33 + 32 * 8),
        (["algo.name=pqn", "replay.batch_size=96"], (32 + 96) * 33 + 32 * 8),
        # A batch of windows, or what is asked for ahead and a window, and an append of 512 rows, in
        # each shard.
        (["algo.name=vtrace", "actor.envs_per_actor=1"], 32 * 21 + 512),
        (["algo.name=vtrace", "server.shards=2", "net.frame_stack=4"], 2 * (32 * 24 + 512)),
        (["algo.name=vtrace", "replay.prefetch=2"], 3 * 32 * 20 + 512 + 21),
    ],
)
def test_a_queue_holds_two_unrolls_of_each_environment(sets: list[str], rows: int) -> None:
    config = load(ID, sets=sets)
    assert config.replay.capacity == rows
    with pytest.raises(Deadlock, match="too small"):
        load(ID, sets=[*sets, f"replay.capacity={rows - 1}"])
    assert load(ID, sets=[*sets, "replay.capacity=9_000"]).replay.capacity == 9_000


@pytest.mark.parametrize(
    ("set_", "cause"),
    [
        ("server.state=", "server.state is empty"),
        ("server.durability=1e300", "server.durability = 1e+300: the most is 604800"),
    ],
)
def test_a_server_is_told_where_and_when_to_keep_its_state(set_: str, cause: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_server(None, sets=[set_])
    assert caught.value.cause == cause


def test_settings_of_another_environment_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"env\.id = 'CartPole-v1' among the") as caught:
        load("Acrobot-v1", sets=["env.id=CartPole-v1"])
    assert "the environment named is Acrobot-v1" in caught.value.cause
    assert load(ID, sets={"env.id": ID}).env.id == ID
    (tmp_path / "own.toml").write_text('[env]\nid = "CartPole-v1"\n')  # a file is of any
    assert load("Acrobot-v1", file=tmp_path / "own.toml").env.id == "Acrobot-v1"


@pytest.mark.parametrize(
    ("set_", "expected"),
    [
        ("replay.capacity=" + "9" * 5000, "an integer"),
        ("run.goal=1" + "0" * 400, "a number"),
        ("net.hidden_sizes=" + "[" * 5000 + "]" * 5000, "a list"),
    ],
    ids=["digits", "float", "nested"],
)
def test_a_value_beyond_all_bounds_is_refused(set_: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"expected {expected}"):
        load(ID, sets=[set_])


@pytest.mark.parametrize("name", ["dqn", "pqn", "r2d2", "vtrace"])
@pytest.mark.parametrize("more", [[], ["replay.prefetch=2", "replay.batch_size=16"]])
def test_the_server_takes_the_least_capacity(name: str, more: list[str]) -> None:
    """What the settings allow is no row less than the server wants for its table and streams."""
    stack = 1 if name == "r2d2" else 4
    sets = [f"algo.name={name}", f"net.frame_stack={stack}", "replay.min_size=1", *more]
    least = least_capacity(load(ID, sets=sets))
    config = load(ID, sets=[*sets, f"replay.capacity={least}"])
    with Client.in_process(native.Server(["memory:"])) as client:
        table = open_tables(client, make_algorithm(config, SPACES))[TABLE]
        assert len(table.writer(config.actor.envs_per_actor).leases) == config.actor.envs_per_actor


@pytest.mark.parametrize("sets", [["algo.name=vtrace"], ["replay.max_times_sampled=1"]])
def test_what_is_drawn_once_is_not_echoed(sets: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"echo = 2, but replay\.max_times") as caught:
        load(ID, sets=[*sets, "learner.echo=2"])
    assert caught.value.remedy == "leave learner.echo out, or raise replay.max_times_sampled"
    assert load(ID, sets=[*sets, "learner.echo=1"]).learner.echo == 1
    assert load(ID, sets=[*sets, "learner.echo=2", "replay.max_times_sampled=2"]).learner.echo == 2


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (["run.serial=true", "run.max_env_steps=5000"], "learner and server are one process"),
        (["replay.max_times_sampled=1"], "a queue's rows travel once as it is"),
        (["algo.name=pqn"], "a queue's rows travel once as it is"),
    ],
)
def test_rows_at_the_learner_want_a_ring_at_a_server(sets: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load(ID, sets=[*sets, "replay.rows=learner"])
    assert load(ID, sets=sets).replay.rows == "server"
    assert load(ID, sets=["replay.rows=learner"]).replay.rows == "learner"


def test_actors_compute_on_processor_cores() -> None:
    with pytest.raises(ConfigError, match=r"actor\.device = 'cuda' with policy\.where = actor"):
        load(ID, sets=["actor.device=cuda"])
    for where in ("central", "learner"):
        sets = ["actor.device=cuda", f"policy.where={where}"]
        assert load(ID, sets=sets).actor.device == "cuda"


def test_rows_on_a_device_are_not_mixed_on_the_host() -> None:
    sets = ["learner.echo=2", "learner.echo_buffer=2"]
    with pytest.raises(ConfigError, match="example echoing mixes batches on the host"):
        load(ID, sets=[*sets, "replay.rows=device"])
    assert load(ID, sets=["learner.echo=2", "replay.rows=device"]).replay.rows == "device"


def test_a_server_without_rows_wants_them_at_the_learner() -> None:
    with pytest.raises(ConfigError, match="the server would have no rows"):
        load(ID, sets=["server.index_only=true"])
    assert load(ID, sets=["server.index_only=true", "replay.rows=learner"]).server.index_only
    # `drlnet serve` serves learners that say it themselves.
    assert load_server(None, sets=["server.index_only=true"]).index_only


def test_a_wrong_key_in_an_algorithms_defaults_is_not_laid_on_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from drlnet.algos.dqn import Dqn\nclass Mine(Dqn):\n"
    (tmp_path / "algo_of_a_test.py").write_text(f'{code}    defaults = {{"replay.batchsize": 16}}')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownKey, match=r"replay\.batchsize") as info:
        load(ID, sets=["algo.name=algo_of_a_test:Mine"])
    assert "replay.batch_size" in info.value.remedy


MODULE = """
import enum
from dataclasses import dataclass
from drlnet.algos import AlgoSettings, setting
from drlnet.policies import EpsilonGreedySettings

class Kind(enum.Enum):
    A = 1

def algorithm(of, default=setting(None, "")):
    space = {"__annotations__": {"own": of}, "own": default}
    settings = dataclass(frozen=True)(type("Own", (AlgoSettings,), space))
    return type("Algo", (), {"Settings": settings, "Policy": EpsilonGreedySettings})

class Bare(AlgoSettings):
    own: int

Fit = algorithm("tuple[int, ...] | dict[str, float] | None")
Listed = algorithm(list[int])
Mixed = algorithm(tuple[int, float])
Chosen = algorithm(Kind, setting(Kind.A, ""))
Unknown = algorithm("Nowhere")
Made = type("Made", (), {"Settings": AlgoSettings()})
NoPolicy = type("NoPolicy", (), {"Policy": None})
Undecided = type("Undecided", (), {"Settings": dataclass(frozen=True, kw_only=True)(Bare)})
"""


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("Fit", ""),
        ("Listed", "its Settings: its field own is of the type list[int], which a config does not"),
        ("Mixed", "its field own is of the type tuple[int, float]"),
        ("Chosen", "its field own is of the type <enum 'Kind'>"),
        ("Unknown", "the types of its fields are unknown: NameError: name 'Nowhere'"),
        ("Undecided", "its field own has no default"),
        ("Made", "its Settings is not a class that derives from AlgoSettings"),
        ("NoPolicy", "its Policy is not a class that derives from PolicySettings"),
    ],
)
def test_settings_that_no_config_holds_are_their_authors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, cause: str
) -> None:
    (tmp_path / "settings_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sets = [f"algo.name=settings_of_a_test:{name}"]
    if not cause:
        assert load(ID, sets=[*sets, "algo.own=[2, 3]"]).algo.own == (2, 3)  # type: ignore[attr-defined]
        return
    with pytest.raises(UserCodeError) as told:
        load(ID, sets=sets)
    assert cause in told.value.cause and told.value.remedy


def test_an_algorithm_may_be_of_a_module_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = types.ModuleType("notebook_of_a_test")  # as __main__ is one
    notebook.__dict__["Mine"] = Dqn
    monkeypatch.setitem(sys.modules, notebook.__name__, notebook)
    assert load(ID, sets=["algo.name=notebook_of_a_test:Mine"]).algo.name.endswith(":Mine")


def test_an_installed_algorithms_errors_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "package_of_a_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("def fail():\n    return {}['a']\n")
    (package / "algo.py").write_text("from package_of_a_test.parts import fail\nclass A: pass\n")
    monkeypatch.syspath_prepend(str(package.parent))
    algo = importlib.import_module("package_of_a_test.algo")
    places = []
    for name in ("dqn", "package_of_a_test.algo:A"):
        load(ID, sets=[f"algo.name={name}"])
        with pytest.raises(KeyError) as raised:
            algo.fail()
        places.append(user_place(raised.value))
    assert "test_checks.py" in places[0] and places[1] == "parts.py:2, fail()"
