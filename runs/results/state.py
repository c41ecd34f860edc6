"""What a server's state costs a writer at full speed, and a restart with a million Atari steps.

python state.py DIR [STEPS]      as root, so that a restart can be timed with no file cached
prints lines of JSON: appended rows a second into a server without a state and into one that keeps
it in DIR with --durability 1, in turns, of CartPole's observations (8 times STEPS) and of Atari's;
then, over restarts with the last one's rows, the seconds until clients come, until a first batch is
drawn, and until all rows are there.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from drlnet.client import Client, Column, Item, Table, View

ADDRESS, ENVS, EPISODE, ROUNDS = "udp://127.0.0.1:7461", 32, 500, 3
RANDOM = np.random.default_rng(0)
OBSERVATIONS = {
    "CartPole": RANDOM.random((ENVS, 4), np.float32),
    "Atari": RANDOM.integers(0, 255, (ENVS, 84, 84), np.uint8),
}
DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@contextmanager
def serving(*args: str) -> Iterator[float]:
    """Gives how many seconds it took until clients could come."""
    began_s = time.monotonic()
    command = [str(Path(sys.executable).parent / "drlnet"), "serve", "--listen", ADDRESS, *args]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        if not any("ready" in line for line in server.stdout):
            raise SystemExit("the server did not start")
        yield time.monotonic() - began_s
        server.send_signal(signal.SIGTERM)
    if server.returncode != 0:
        raise SystemExit(f"the server ended with {server.returncode}")


def table_of(client: Client, game: str, steps: int) -> Table:
    """Single observations, of which items make stacks of four, three steps apart."""
    obs = OBSERVATIONS[game]
    return client.table(
        "replay",
        capacity=steps,
        columns={
            "obs": Column(str(obs.dtype), obs.shape[1:]),
            "action": Column("int32"),
            "reward": Column("float32"),
        },
        item=Item(
            {
                "obs": View("obs", (-3, 0)),
                "next_obs": View("obs", (0, 3)),
                "action": View("action", 0),
                "reward": View("reward", (1, 3)),
            }
        ),
    )


def fill(game: str, steps: int) -> float:
    """Appends that many rows, each an item; the rows a second."""
    rewards, all_envs = np.ones(ENVS, np.float32), np.arange(ENVS)
    with Client(ADDRESS) as client:
        writer = table_of(client, game, steps).writer(ENVS, flush_rows=64)
        began_s = time.monotonic()
        for step in range(steps // ENVS):
            place = step % EPISODE
            first, last = np.full(ENVS, place == 0), np.full(ENVS, place == EPISODE - 1)
            actions = np.full(ENVS, step % 6, np.int32)
            rows = {"obs": OBSERVATIONS[game], "action": actions, "reward": rewards}
            numbers = writer.append(rows, first, last)
            if place != EPISODE - 1:
                writer.add_items(all_envs, numbers, np.full(ENVS, 1.0 + step % 7))
        writer.flush()
        return steps / (time.monotonic() - began_s)


def restart(folder: Path, steps: int, cold: bool) -> dict[str, float]:
    """Seconds from a server's start on."""
    subprocess.run(["sync"], check=True)
    if cold:
        DROP_CACHES.write_text("3")
    with serving("--state", str(folder)) as sessions_s, Client(ADDRESS) as client:
        began_s = time.monotonic() - sessions_s
        table_of(client, "Atari", steps).sample(32)
        first_batch_s = time.monotonic() - began_s
        while client.stats()["state.rows_to_load"] > 0:
            time.sleep(0.05)
        all_rows_s = time.monotonic() - began_s
    return {"sessions_s": sessions_s, "first_batch_s": first_batch_s, "all_rows_s": all_rows_s}


def main() -> None:
    folder, steps = Path(sys.argv[1]), int(float((sys.argv[2:] or ["1e6"])[0]))
    for game in [name for name in OBSERVATIONS for _ in range(ROUNDS)]:
        rates, rows = {}, steps * (8 if game == "CartPole" else 1)
        for durability in (None, 1):
            shutil.rmtree(folder, ignore_errors=True)
            args = [] if durability is None else ["--state", str(folder), "--durability", "1"]
            with serving(*args):
                rates[f"durability {durability}"] = round(fill(game, rows))
        print(json.dumps({"game": game, "rows_per_s": rates}), flush=True)
    size_gb = sum(path.stat().st_size for path in folder.rglob("*")) / 1e9
    for cold in (True, False) * ROUNDS:
        seconds = restart(folder, steps, cold)
        figures = {name: round(value, 2) for name, value in seconds.items()}
        print(
            json.dumps({"cached": not cold, "state_gb": round(size_gb, 2), **figures}), flush=True
        )
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
