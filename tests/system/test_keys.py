"""Commands with keys: a run to its end, and what is refused."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from system.command import SMALL, command, finished, lines_of_error, serving

from drlnet.client import Client
from drlnet.config.keys import fingerprint_in
from drlnet.errors import ConfigError, Forbidden
from drlnet.metrics import RunFolder


def keygen(folder: Path) -> None:
    finished(folder, "keygen", "keys")


@pytest.mark.slow
@pytest.mark.parametrize("words", [("run",), ("sweep", "--seeds", "1")])
def test_a_run_with_keys(tmp_path: Path, words: tuple[str, ...]) -> None:
    keygen(tmp_path)
    ended = finished(
        tmp_path, *words, "CartPole-v1", "--key", "keys", "--json", *SMALL,
        "--set", "run.max_env_steps=2000", deadline_s=180,
    )  # fmt: skip
    (result,) = ended.last_json().get("runs", [ended.last_json()])
    said = [*RunFolder(tmp_path / result["run_dir"]).readings()]
    assert {reading["server.sealed"] for reading in said if "server.sealed" in reading} == {1}
    roles = {v for reading in said for k, v in reading.items() if k.endswith(".role")}
    assert {"actor", "learner"} <= roles


@pytest.mark.slow
def test_other_machines_with_keys_alone(tmp_path: Path) -> None:
    keygen(tmp_path)
    everywhere = "udp://0.0.0.0:0"
    with serving(tmp_path, everywhere, "--key", "keys/server.key") as (started, there):
        address = f"udp://127.0.0.1:{there.rpartition(':')[2]}"
        seen = finished(tmp_path, "stats", "--server", address, "--json", "--key", "keys")
        assert seen.last_json()["server.insecure"] == 0
        refused = finished(tmp_path, "stats", "--server", address, "--json", error=Forbidden)
        assert "the server wants a key" in lines_of_error(refused)[0]
        assert len(lines_of_error(refused)) == 2
        learner = ("learn", "CartPole-v1", "--server", address, "--key", "keys/actor.key", *SMALL)
        wrong = finished(tmp_path, *learner, error=Forbidden)
        assert "the key of an actor" in wrong.err.decode()
        assert started.end(signal.SIGTERM) == 0
    with serving(tmp_path, everywhere, "--insecure") as (started, there):
        address = f"udp://127.0.0.1:{there.rpartition(':')[2]}"
        shown = finished(tmp_path, "stats", "--server", address, "--once")
        assert "no keys: anyone may use it" in shown.out.decode()
        assert started.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_server_that_runs_takes_new_keys(tmp_path: Path) -> None:
    keygen(tmp_path)
    former = tmp_path / "former.key"
    former.write_bytes((tmp_path / "keys" / "actor.key").read_bytes())
    former.chmod(0o600)
    listen = ("serve", "--listen", "udp://127.0.0.1:0", "--key", "keys", "--json")
    with command(tmp_path, *listen) as serving:
        ready = json.loads(serving.wait_for("ready"))
        address = ready["addresses"][0]
        assert ready["server_key"] == fingerprint_in(former)
        with Client(address, key=former) as actor:
            finished(tmp_path, "keygen", "keys", "--rotate")
            serving.wait_for("the keys were replaced")
            with Client(address, key=tmp_path / "keys" / "actor.key") as other:
                assert actor.ping() > 0 and other.ping() > 0
                (tmp_path / "keys" / "server.key").chmod(0o644)
                serving.wait_for("warning: keys stay as they were: .* by other users")
                assert other.ping() > 0
            (tmp_path / "keys" / "server.key").chmod(0o600)
            finished(tmp_path, "keygen", "keys", "--rotate")
            with pytest.raises(Forbidden, match="replaced"):
                while True:  # until its session is ended
                    actor.ping()
        assert serving.end(signal.SIGTERM) == 0


def test_a_server_wants_its_own_key(tmp_path: Path) -> None:
    keygen(tmp_path)
    listen = ("--listen", "udp://127.0.0.1:0")
    ended = finished(tmp_path, "serve", *listen, "--key", "keys/actor.key", error=ConfigError)
    assert "a server wants server.key" in lines_of_error(ended)[0]
