"""A whole run on observations and then on embeddings, with the real commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from system.command import SMALL, finished


@pytest.mark.parametrize("where", ["actor", pytest.param("central", marks=pytest.mark.exhaustive)])
def test_the_first_table_drains_and_is_dropped(tmp_path: Path, where: str) -> None:
    sets = ("algo.freeze_learner_steps=30", "replay.capacity=1000", f"policy.where={where}")
    ended = finished(
        tmp_path,
        *("run", "CartPole-v1", "--algo", "seer", "--json", "--max-learner-steps", "1500", *SMALL),
        *(word for one in sets for word in ("--set", one)),
    )
    result = ended.last_json()
    run = Path(result["run_dir"])
    last = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][-1]
    assert last["table.embeddings.rows"] == 1000 and "table.replay.rows" not in last
    assert last["client.learner.frozen"] == 1
    # Of both tables together, although the first is gone.
    assert result["env_steps"] > last["table.embeddings.env_steps"]
