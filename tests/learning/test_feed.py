"""The feed against loops: which items a batch holds, and when their priorities are sent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from algos.transitions import SPACES
from served import serving

from drlnet import native
from drlnet.adders import observed, tensors
from drlnet.adders.observations import Leaf
from drlnet.algos import TABLE, make_algorithm
from drlnet.client import Batch, Client, importance_weights
from drlnet.config import load
from drlnet.errors import ReplayTimeout
from drlnet.learning.feed import Feed
from drlnet.roles.tables import open_tables

SIZE, SEED = 8, 5


@dataclass
class Server:
    """A table of the real server, what the feed drew from it, and the priorities that it sent."""

    feed: Feed
    writer: Any
    drawn: list[Batch] = field(default_factory=list)
    sent: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def add(self, begin: int, end: int) -> None:
        """Appends steps of one long episode; each row's numbers are its step."""
        for step in range(begin, end):
            row = {
                "obs": np.full((1, 3), step),
                "action": np.array([step % 4]),
                "reward": np.full(1, step),
                "discount": np.ones(1),
            }
            steps = self.writer.append(row, [step == 0], [False])
            self.writer.add_items([0], steps, [1.0 + step % 7])
        self.writer.flush()


def serve(*sets: str, serial: bool = True) -> Server:
    flags = {"run.serial": serial or None, "run.max_learner_steps": 1000}
    own = [f"replay.batch_size={SIZE}", "replay.min_size=20", "replay.samples_per_insert=0"]
    config = load("Unregistered-v0", flags=flags, sets=[*own, *sets])
    algorithm = make_algorithm(config, SPACES)
    client = Client.in_process(native.Server(["memory:"]))
    tables = open_tables(client, algorithm)
    table: Any = tables[TABLE]
    made = Server(Feed(algorithm, tables, SEED), table.writer(1))
    made.add(0, 60)
    sample, name = table.sample, "update_priorities" if serial else "update_priorities_async"
    update = getattr(table, name)

    def draw(*args: Any, **options: Any) -> Batch:
        made.drawn.append(sample(*args, **options))
        return made.drawn[-1]

    def send(keys: np.ndarray, priorities: np.ndarray) -> None:
        made.sent.append((keys.copy(), priorities.copy()))
        update(keys, priorities)

    table.sample = draw
    setattr(table, name, send)
    return made


def errors_of(step: int, batch: Batch) -> np.ndarray:
    """Errors that tell the step and the place in its batch."""
    return np.float32(100 * step) + np.arange(len(batch), dtype=np.float32)


def advance(server: Server, step: int) -> Batch:
    """One learner step, with a draw or several before it where they are due."""
    while server.feed.due:
        server.feed.draw()
    batch = server.feed.take()[TABLE]
    server.feed.update(TABLE, errors_of(step, batch))
    return batch


def assert_holds(batch: Batch, items: list[tuple[Batch, int]]) -> None:
    """The batch is made of these items, each the n-th of a draw."""
    np.testing.assert_array_equal(batch.keys, [drawn.keys[n] for drawn, n in items])
    np.testing.assert_array_equal(batch.length, [drawn.length[n] for drawn, n in items])
    assert set(batch.views) == set(items[0][0].views)
    for name, view in batch.views.items():
        np.testing.assert_array_equal(view, [drawn.views[name][n] for drawn, n in items])
        assert view.dtype == items[0][0].views[name].dtype
    expected = np.array([drawn.item_count * float(drawn.probabilities[n]) for drawn, n in items])
    np.testing.assert_allclose(batch.item_count * batch.probabilities, expected, rtol=1e-6)
    weights = (expected / expected.min()) ** -0.7
    np.testing.assert_allclose(importance_weights(batch, 0.7), weights, rtol=1e-5)


@pytest.mark.parametrize("echo", [1, 3])
def test_batch_echoing_repeats_each_draw(echo: int) -> None:
    server = serve(f"learner.echo={echo}")
    for step in range(12):
        batch = advance(server, step)
        assert len(server.drawn) == step // echo + 1
        assert_holds(batch, [(server.drawn[-1], n) for n in range(SIZE)])
        assert len(server.sent) == (step + 1) // echo
    for draw, (keys, priorities) in enumerate(server.sent):
        np.testing.assert_array_equal(keys, server.drawn[draw].keys)
        np.testing.assert_array_equal(
            priorities, errors_of(echo * (draw + 1) - 1, server.drawn[draw])
        )


@pytest.mark.parametrize(("echo", "buffer"), [(2, 2), (3, 4), (5, 2)])
def test_example_echoing_is_its_loop(echo: int, buffer: int) -> None:
    """A list of places, each with an item and the uses that it has left."""
    server = serve(f"learner.echo={echo}", f"learner.echo_buffer={buffer}")
    rng = np.random.default_rng(SEED)
    places: list[tuple[int, int]] = [(-1, -1)] * (buffer * SIZE)
    uses = [0] * len(places)
    draws, used = 0, Counter[tuple[int, int]]()
    for step in range(60):
        if step == 30:
            server.add(60, 90)  # from here on draws are of more items
        batch = advance(server, step)
        while uses.count(0) >= SIZE:
            for n in range(SIZE):
                free = uses.index(0)
                places[free], uses[free] = (draws, n), echo
            draws += 1
        assert len(server.drawn) == draws
        chosen = rng.choice([i for i, left in enumerate(uses) if left], SIZE, replace=False)
        items = [places[i] for i in chosen]
        assert len(set(items)) == SIZE
        assert_holds(batch, [(server.drawn[draw], n) for draw, n in items])
        last = []
        for n, i in enumerate(chosen):
            used[places[i]] += 1
            uses[i] -= 1
            if uses[i] == 0:
                last.append(n)
                assert used[places[i]] == echo
        if last:
            keys, priorities = server.sent.pop(0)
            np.testing.assert_array_equal(keys, batch.keys[last])
            np.testing.assert_array_equal(priorities, errors_of(step, batch)[last])
        assert not server.sent
    assert max(used.values()) == echo
    assert draws * SIZE * echo - sum(used.values()) == sum(uses)  # no use is lost or added


def test_a_draw_feeds_as_many_steps_as_it_is_echoed() -> None:
    server = serve("learner.echo=4", "learner.echo_buffer=3")
    for step in range(400):
        advance(server, step)
    assert len(server.drawn) == pytest.approx(100 + 3, abs=3)


@pytest.mark.parametrize("buffer", [1, 3])
def test_lent_batches_are_kept_as_long_as_they_are_used(buffer: int) -> None:
    """With draws under way, whose memory is written again."""
    server = serve("learner.echo=3", f"learner.echo_buffer={buffer}", serial=False)
    seen = Counter[int]()
    for step in range(60):
        batch = advance(server, step)
        seen.update(batch.keys.tolist())
        rows = (batch.keys & np.uint64((1 << 40) - 1)).astype(np.float32)
        np.testing.assert_array_equal(batch.views["obs"], np.repeat(rows[:, None], 3, 1))
        np.testing.assert_array_equal(batch.views["reward"][:, 0], rows + 1)
    assert not server.drawn and len(seen) > 2 * SIZE  # other batches came, by the stream
    assert sum(len(keys) for keys, _ in server.sent) > 0


@pytest.mark.parametrize("buffer", [1, 2])
def test_each_step_gets_a_batch_of_its_own(buffer: int) -> None:
    """What a role writes into one, as what it adds to env_steps, is not in the next."""
    server = serve("learner.echo=4", f"learner.echo_buffer={buffer}")
    for step in range(4):
        batch = advance(server, step)
        assert batch.env_steps == 60 and batch.spent == 0
        batch.env_steps += 1000
        batch.spent = 0.5


@pytest.mark.parametrize(
    "given", [torch.ones(SIZE, requires_grad=True), torch.ones(SIZE).bfloat16(), [1.0] * SIZE]
)
def test_priorities_on_this_processor_are_sent_as_an_array_is(given: Any) -> None:
    server = serve()
    server.feed.draw()
    server.feed.take()
    server.feed.update(TABLE, given)
    ((keys, priorities),) = server.sent
    np.testing.assert_array_equal(keys, server.drawn[0].keys)
    np.testing.assert_array_equal(priorities, np.ones(SIZE, np.float32))


def test_a_mirror_feeds_as_the_server_does() -> None:
    """Batches are those of the table, priorities reach it, and it says how it fares."""
    own = [f"replay.batch_size={SIZE}", "replay.min_size=20", "replay.rows=learner"]
    algorithm = make_algorithm(load("Unregistered-v0", sets=own), SPACES)
    with serving() as address, Client(address) as client:
        tables = open_tables(client, algorithm)
        feed = Feed(algorithm, tables, SEED)
        made = Server(feed, tables[TABLE].writer(1))
        made.add(0, 60)
        for _ in range(5):
            feed.draw()
            batch = feed.take()[TABLE]
            read = tables[TABLE].read_items(batch.keys)
            for name, view in read.views.items():
                np.testing.assert_array_equal(batch.views[name], view)
            feed.update(TABLE, np.ones(SIZE, np.float32))
        figures = feed.figures()
        assert figures["mirror.rows"] == 60
        assert figures["mirror.drawn"] >= 5 * SIZE
        assert client.stats()["table.replay.applied_updates"] == 5 * SIZE
        del feed, made


def test_a_mirror_on_a_device_feeds_leaves_that_are_long_and_short() -> None:
    leaves = {
        "obs.far": Leaf(("far",), "uint8", (64,)),
        "obs.here": Leaf(("here",), "int32", (), 3),
    }
    spaces = replace(SPACES, obs_shape=(67,), leaves=leaves)
    own = [f"replay.batch_size={SIZE}", "replay.min_size=20", "replay.rows=device"]
    algorithm = make_algorithm(load("Unregistered-v0", sets=own), spaces)
    with serving() as address, Client(address) as client:
        tables = open_tables(client, algorithm)
        feed, writer = Feed(algorithm, tables, SEED, device="cpu"), tables[TABLE].writer(1)
        for step in range(60):
            obs = {"obs.far": np.full((1, 64), step, np.uint8), "obs.here": [step % 3]}
            row = {**obs, "action": [0], "reward": [1.0], "discount": [1.0]}
            writer.add_items([0], writer.append(row, [step == 0], [False]), [1.0])
        writer.flush()
        feed.draw()
        batch = feed.take()[TABLE]
        assert isinstance(batch.views["obs.far"], torch.Tensor)
        read = observed(spaces, tables[TABLE].read_items(batch.keys).views)
        seen = tensors(batch, torch.device("cpu"), spaces)
        for name in ("obs", "next_obs"):
            np.testing.assert_array_equal(seen[name], read[name])
        feed.close()
        del writer


def test_without_a_mirror_there_are_no_figures() -> None:
    assert serve().feed.figures() == {}


def test_a_table_may_fill_for_longer_than_a_batch_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("drlnet.learning.feed._WAIT_S", 0.05)
    sets = [f"replay.batch_size={SIZE}", "replay.min_size=20"]
    algorithm = make_algorithm(load("Unregistered-v0", sets=sets), SPACES)
    with serving() as address, Client(address) as client:
        tables = open_tables(client, algorithm)
        with pytest.raises(ReplayTimeout):
            Feed(algorithm, tables, SEED, stats=client.stats).draw()
        looks: list[int] = []

        def stats() -> dict[str, Any]:
            looks.append(len(looks))
            made.add(10 * looks[-1], 10 * len(looks))
            return client.stats()

        feed = Feed(algorithm, tables, SEED, stats=stats)
        made = Server(feed, tables[TABLE].writer(1))
        feed.draw()
        assert len(looks) >= 2 and len(feed.take()[TABLE]) == SIZE
