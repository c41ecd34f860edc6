"""Config: later sources win, every mistake names its key, what is written loads back equal."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from drlnet.config import Config, dump, known_keys, load, load_file, load_server
from drlnet.config.fields import walk
from drlnet.errors import (
    ConfigError,
    DrlnetError,
    Insecure,
    UnknownKey,
    all_errors,
    from_status,
)

ID = "Unregistered-v0"  # has no recipe


def test_set_wins_over_flags_over_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[replay]\nbatch_size = 16\ncapacity = 7_000\nmin_size = 500\n")
    config = load(
        ID,
        file=file,
        flags={"replay.capacity": 8_000, "replay.min_size": 600, "run.goal": None},
        sets=["replay.min_size=700"],
    )
    assert config.env.id == ID
    assert config.replay.batch_size == 16
    assert config.replay.capacity == 8_000
    assert config.replay.min_size == 700
    assert config.run.goal is None


def test_dump_loads_back_equal(tmp_path: Path) -> None:
    config = load(
        ID,
        sets=[
            'env.kwargs={size=3, names=["a", "b\\"c"], deep={x=1.5}}',
            "net.hidden_sizes=[64, 32]",
            "algo.learning_rate=1e-9",
            "replay.samples_per_insert=8",
            "run.goal=-90",
            "server.listen=['udp://[::1]:0']",
            "run.folder=tab\there",
            "algo.max_grad_norm=none",
        ],
    )
    assert config.algo.max_grad_norm is None  # type: ignore[attr-defined]
    file = tmp_path / "config.toml"
    file.write_text(dump(config))
    assert load_file(file) == config


def test_none_and_bare_texts_on_the_command_line() -> None:
    config = load(ID, sets=["run.goal=none", "learner.device=cuda:1", "replay.capacity=1e5"])
    assert config.run.goal is None
    assert config.learner.device == "cuda:1"
    assert config.replay.capacity == 100_000


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("replay.capacty=3", "replay.capacity"),
        ("batch_size=4", "replay.batch_size"),
        ("learner.batch_size=4", "replay.batch_size"),
        ("zzzz=4", "--help-config"),
        ("lr=0.1", "algo.learning_rate"),
        ("bs=4", "replay.batch_size"),
        ("buffer_size=4", "replay.capacity"),
        ("algo.n_steps=4", "algo.n_step"),
        ("total_timesteps=4", "run.max_env_steps"),
        ("target_update=4", "algo.target_period"),
    ],
)
def test_unknown_key_suggests(text: str, suggestion: str) -> None:
    with pytest.raises(UnknownKey) as caught:
        load(ID, sets=[text])
    assert suggestion in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("replay.capacity=many", "an integer"),
        ("replay.capacity=true", "an integer"),
        ("replay.capacity=1.5", "an integer"),
        ("algo.double=1", "true or false"),
        ("net.hidden_sizes=[1, true]", "a list, each an integer"),
        ("net.hidden_sizes=[64, 0]", "net.hidden_sizes = 0: the least is 1"),
        ("run.folder=", "run.folder is empty"),
        ("policy.ladder=apx", "one of 'radical', 'apex'"),
        ("run.seed=-1", "the least is 0"),
        ("learner.report_interval_s=0", "must be above 0"),
        ("algo.gamma=nan", "finite"),
        ("algo.name=dqm", "unknown name"),
        ("algo.name=[1]", "a text"),
        ("replay.sampler=prioritised", "no sampler is named 'prioritised'"),
        ("replay.sampler_options={groups = true}", "expected a number"),
        ("server.sampler_options={groups = 4}", "no sampler would use them"),
        ("server.sampler=amper", "no sampler is named 'amper'"),
        ("server.transport=upd", "unknown name"),
        ("server.transport=memory", "cannot join processes"),
        ("server.transport=dpdk", "unknown name"),
        ("server.transport=dpdk:locl", 'no DPDK link is called "locl"'),
        ("server.transport=dpdk:af_xdp:eth0,ip=10.7.0.2/24", "this machine only"),
        ("server.transport=udp://0.0.0.0:0", "this machine only"),
        ("replay.batch_size=65537", "a request draws 65536 items at most"),
        ("server.limits.tables=1.5", "expected an integer"),
        ("server.limits.tables=-1", "expected 0 to"),
        ("server.limits.table_bytes=1e30", "expected 0 to"),
        ("replay", "key=value"),
    ],
)
def test_wrong_value_names_key_and_expectation(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(ID, sets=[text])
    assert text.partition("=")[0] in caught.value.cause
    assert expected in caught.value.cause
    assert caught.value.remedy


def test_a_list_or_a_table_is_shown_by_example() -> None:
    with pytest.raises(ConfigError) as caught:
        load(ID, sets=["net.hidden_sizes=64"])
    assert caught.value.remedy == "write --set 'net.hidden_sizes=[64, 64]'"
    with pytest.raises(ConfigError) as caught:
        load(ID, sets=["env.kwargs=human"])
    assert caught.value.remedy == "write --set env.kwargs.NAME=VALUE"


def test_a_key_goes_on_into_a_table() -> None:
    config = load(ID, sets=["env.kwargs={a=1, b=2}", "env.kwargs.b=3", "env.kwargs.mode=human"])
    assert config.env.kwargs == {"a": 1, "b": 3, "mode": "human"}
    with pytest.raises(UnknownKey, match=r"replay\.capacity\.x"):
        load(ID, sets=["replay.capacity.x=3"])


def test_a_file_lies_over_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "partial.toml"
    file.write_text("[replay]\nbatch_size = 16\n")
    config = load("CartPole-v1", file=file, sets=["run.seed=3"])
    assert config.replay.batch_size == 16
    assert (config.run.goal, config.replay.samples_per_insert) == (495.0, 4.0)
    file.write_text('base = "none"\n[replay]\nbatch_size = 16\n')
    assert load("CartPole-v1", file=file).run.goal is None
    file.write_text('base = "other"\n')
    with pytest.raises(ConfigError, match="base = 'other'"):
        load("CartPole-v1", file=file)
    config = load("CartPole-v1", sets=["run.goal=none"])
    file.write_text(dump(config))  # what a run keeps is whole
    assert load("CartPole-v1", file=file) == config


def test_a_sampler_by_the_name_that_others_give_it() -> None:
    with pytest.raises(ConfigError) as caught:
        load(ID, sets=["replay.sampler=per"])
    assert "did you mean 'prioritized'?" in caught.value.remedy


@pytest.mark.parametrize(
    ("sampler", "options", "expected"),
    [
        ("amper-fr", "{m = 5}", "'m'"),
        ("amper-k", "{groups = 2.5}", "groups = 2.5"),
        ("amper-fr-prefix", "{groups = 4, scale = 2}", "scale = 2"),
        ("uniform", "{groups = 4}", "'groups'"),
    ],
)
def test_options_that_a_sampler_does_not_take(sampler: str, options: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(ID, sets=[f"replay.sampler={sampler}", f"replay.sampler_options={options}"])
    assert caught.value.cause.startswith("replay.sampler_options: ")
    assert sampler in caught.value.cause
    assert expected in caught.value.cause
    assert caught.value.remedy


MODULE = """
from dataclasses import dataclass
from drlnet.algos import Algorithm, AlgoSettings, setting

@dataclass(frozen=True)
class BanditSettings(AlgoSettings):
    temperature: float = setting(0.5, "of its choices", above=0)

class Bandit:
    Settings = BanditSettings
    defaults = {"replay.sampler": "uniform", "replay.batch_size": 7}

class Net:
    pass
"""


@pytest.fixture
def bandit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "bandit_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "bandit_of_a_test:Bandit"


def test_a_users_algorithm_has_settings_of_its_own(tmp_path: Path, bandit: str) -> None:
    config = load(ID, sets=[f"algo.name={bandit}", "algo.temperature=2"])
    assert dataclasses.asdict(config.algo) == {"name": bandit, "temperature": 2.0}
    file = tmp_path / "config.toml"
    file.write_text(dump(config))
    assert load_file(file) == config
    with pytest.raises(UnknownKey, match="n_step"):
        load(ID, sets=[f"algo.name={bandit}", "algo.n_step=3"])


def test_an_algorithms_own_defaults_lie_under_all_else(bandit: str) -> None:
    config = load(ID, flags={"algo.name": bandit, "replay.batch_size": 9})
    assert (config.replay.sampler, config.replay.batch_size) == ("uniform", 9)


def test_a_users_network_needs_no_settings(bandit: str) -> None:
    name = bandit.replace("Bandit", "Net")
    assert dataclasses.asdict(load(ID, sets=[f"net.name={name}"]).net) == {
        "name": name,
        "frame_stack": 1,
    }


def test_atari_has_settings_of_its_own(tmp_path: Path) -> None:
    config = load("ALE/Pong-v5", sets=["env.screen_size=42", "env.life_loss=discount"])
    found = dataclasses.asdict(config.env)
    assert (found["screen_size"], found["life_loss"], found["sticky_actions"]) == (
        42,
        "discount",
        0.25,
    )
    file = tmp_path / "config.toml"
    file.write_text(dump(config))
    assert load_file(file) == config
    for other in (ID, "ale_py:ALE/Pong-v5"):
        with pytest.raises(UnknownKey, match=r"env\.screen_size"):
            load(other, sets=["env.screen_size=42"])
    with pytest.raises(ConfigError, match="one of 'ignore', 'discount'"):
        load("ALE/Pong-v5", sets=["env.life_loss=end"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no_such_module:Bandit", "module no_such_module cannot be imported"),
        ("bandit_of_a_test:Bandti", "has no Bandti"),
        (":Bandit", "expected module:Name"),
        ("json:JSONDecoder", ""),
    ],
)
def test_a_users_algorithm_that_is_not_there(bandit: str, name: str, expected: str) -> None:
    if not expected:  # it is there, and has no settings: the common ones hold
        assert load(ID, sets=[f"algo.name={name}"]).algo.name == name
        return
    with pytest.raises(ConfigError) as caught:
        load(ID, sets=[f"algo.name={name}"])
    assert expected in caught.value.cause and caught.value.remedy


def test_what_a_module_has_imported_is_not_its_own_to_choose(bandit: str) -> None:
    module = bandit.partition(":")[0]
    with pytest.raises(ConfigError) as caught:
        load(ID, sets=[f"net.name={module}:Zz"])
    own = {name for name, value in vars(sys.modules[module]).items() if isinstance(value, type)}
    offered = caught.value.remedy.removeprefix("choose one of ").split(", ")
    assert {"Bandit"} <= set(offered) <= own
    assert all(vars(sys.modules[module])[name].__module__ == module for name in offered)


def test_a_recipe_belongs_to_its_algorithm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bandit: str
) -> None:
    (tmp_path / "game-v0.toml").write_text(
        "[algo]\nn_step = 7\n[run]\ngoal = 5.0\n[replay]\nbatch_size = 16\n"
    )
    monkeypatch.setattr(sys.modules["drlnet.config.load"], "recipe_folders", lambda: [tmp_path])
    own = load("Game-v0")
    assert (own.algo.horizon, own.replay.batch_size, own.run.goal) == (7, 16, 5.0)
    assert load("Game-v0", flags={"algo.name": "dqn"}) == own
    other = load("Game-v0", flags={"algo.name": bandit})
    assert (other.replay.batch_size, other.run.goal) == (7, 5.0)  # what is the environment's
    slug = bandit.lower().replace(":", "-")
    (tmp_path / f"game-v0.{slug}.toml").write_text("[algo]\ntemperature = 3\n")
    config = load("Game-v0", flags={"algo.name": bandit})
    assert (dataclasses.asdict(config.algo)["temperature"], config.run.goal) == (3.0, None)


def test_a_server_reads_its_own_section_alone(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[algo]\nname = "not_installed_here:Algo"\nx = 1\n[server]\nshards = 2\n')
    assert load_server(file, sets=["server.poll=block"]).shards == 2


def test_derived_error_buffer_cannot_deadlock() -> None:
    config = load(ID, sets=["replay.samples_per_insert=8", "replay.prefetch=4"])
    least = config.replay.batch_size * 5 + 8 * config.append_burst
    assert config.replay.error_buffer is not None
    assert config.replay.error_buffer >= least


def test_table_settings_do_not_depend_on_the_count_of_actors() -> None:
    few = load(ID, sets=["replay.samples_per_insert=8", "actor.num_actors=1"])
    many = load(ID, sets=["replay.samples_per_insert=8", "actor.num_actors=6"])
    assert few.replay == many.replay


def test_serial_needs_a_budget_in_steps() -> None:
    with pytest.raises(ConfigError, match="budget in steps"):
        load(ID, sets=["run.serial=true"])
    config = load(ID, sets=["run.serial=true", "run.max_env_steps=5000", "run.max_seconds=9"])
    assert config.run.max_seconds is None
    assert config.replay.prefetch == 0


@pytest.mark.parametrize("address", ["udp://0.0.0.0:7447", "udp://[::]:7447", "udp://10.0.0.1:0"])
def test_listening_beyond_this_machine_must_be_asked_for(address: str) -> None:
    with pytest.raises(Insecure):
        load(ID, flags={"server.listen": [address]})
    load(ID, flags={"server.listen": [address], "server.insecure": True})


@pytest.mark.parametrize(
    "address", ["udp://127.0.0.1:0", "udp://127.9.9.9:1", "udp://[::1]:0", "udp://localhost:7447"]
)
def test_loopback_is_local(address: str) -> None:
    load(ID, flags={"server.listen": [address]})


def test_unreadable_files_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load(ID, file=tmp_path / "absent.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("[replay\n")
    with pytest.raises(ConfigError, match="not TOML"):
        load(ID, file=broken)
    broken.write_text("replay = 3\n")
    with pytest.raises(ConfigError, match="replay = 3: expected a table"):
        load(ID, file=broken)
    broken.write_bytes(b"# \xff\n")
    with pytest.raises(ConfigError, match="is not text"):
        load(ID, file=broken)
    broken.write_text("[reply]\ncapacity = 1\n")
    with pytest.raises(UnknownKey) as caught:
        load(ID, file=broken)
    assert "replay" in caught.value.remedy


def test_an_empty_environment_is_none_that_is_left_out() -> None:
    with pytest.raises(ConfigError, match="ENV is empty"):
        load("")
    assert load("CartPole-v1", sets=["server.limits={table_bytes=1e12}"]).server.limits == {
        "table_bytes": 10**12
    }


def test_every_setting_has_help() -> None:
    for key, _, field in walk(Config()):
        assert field.metadata.get("help"), key
    assert "replay.batch_size" in known_keys()


def test_where_metrics_are_served() -> None:
    assert load(sets=["server.metrics=127.0.0.1:0"]).server.metrics == "127.0.0.1:0"
    with pytest.raises(Insecure):
        load(sets=["server.metrics=0.0.0.0:9464"])
    assert load(sets=["server.metrics=0.0.0.0:9464", "server.insecure=true"]).server.insecure
    with pytest.raises(ConfigError, match="not a HOST:PORT"):
        load(sets=["server.metrics=localhost", "server.insecure=true"])
    serial = ["run.serial=true", "run.max_env_steps=5000", "server.metrics=127.0.0.1:0"]
    with pytest.raises(ConfigError, match=r"run\.serial"):
        load(sets=serial)


def test_config_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().run.seed = 1  # type: ignore[misc]


def test_exit_codes_are_distinct() -> None:
    codes = [error.exit_code for error in all_errors()]
    assert len(set(codes)) == len(codes)
    assert not {0, 1, 2, 130} & set(codes)


def test_status_numbers_become_errors() -> None:
    error = from_status(5, "column 'obs' differs", "use the same columns")
    assert type(error).__name__ == "TableMismatch"
    assert isinstance(error, ConfigError)
    assert str(error) == "column 'obs' differs\nuse the same columns"
    assert type(from_status(9999, "?")) is DrlnetError
