"""What a server tells of its run, where another client than a learner has put it there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from drlnet import Client, native
from drlnet.config import load
from drlnet.config.toml import parse
from drlnet.errors import ConfigError, ProtocolError
from drlnet.roles.run_at_server import progress, tell_progress

GOOD = {"run_dir": "runs/a", "env_steps_before": 7}


@pytest.fixture
def client() -> Iterator[Client]:
    with Client.in_process(native.Server(["udp://127.0.0.1:0"])) as client:
        yield client


def test_progress_is_what_a_learner_told(client: Client) -> None:
    assert progress(client) == {}
    tell_progress(client, load("CartPole-v1"), "a", GOOD)
    assert progress(client) == {**GOOD, "name": "a", "env": "CartPole-v1", "algo": "dqn"}


@pytest.mark.parametrize(
    "blob",
    [
        *(b"", b"{", b"\xff", b"[1]", b"5", b"null", b'"ab"', b'[["name", "x"]]', b"[" * 100_000),
        *(json.dumps({**GOOD, "name": name}).encode() for name in (1, None, ["a"])),
        *(json.dumps({**GOOD, "env_steps_before": n}).encode() for n in ("a", -1, None, 0.5)),
        b'{"run_dir": "runs/a"}',
    ],
)
def test_other_progress_is_an_error_in_words(client: Client, blob: bytes) -> None:
    client.put_blob("progress", blob)
    with pytest.raises(ProtocolError, match=r"'progress' at .* is not what a learner tells"):
        progress(client)


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = 1" + "0" * 10_000, "a = \x01"])
def test_what_is_no_toml_is_an_error_in_words(text: str) -> None:
    with pytest.raises(ConfigError, match="here is not TOML"):
        parse(text, "here")
