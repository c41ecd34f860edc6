"""Devices by their names."""

from __future__ import annotations

import pytest

from drlnet.errors import ConfigError
from drlnet.nets.device import usable_device


def test_the_cpu_is_usable() -> None:
    assert usable_device("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["cpuu", "cuda:99"])
def test_unusable_device(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        usable_device(name)
    assert "learner.device" in caught.value.cause
    assert "\n" not in caught.value.cause
    assert "cpu" in caught.value.remedy
    with pytest.raises(ConfigError, match=f"actor.device = {name!r}"):
        usable_device(name, "actor.device")
