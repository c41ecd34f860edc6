"""Ranks: learner processes that train one network together, each by its part of every draw.

With W = `learner.processes`, each rank draws batch / W items, finds its gradient g_r, and steps by

    g = mean over ranks of g_r

which is the gradient of a loss that is a mean over the whole draw's items (synchronous data
parallelism; Goyal et al., arXiv 1706.02677). A loss that divides by what it counts in its batch,
steps that are not padding for example, divides by each rank's own count.

So that params stay equal bit by bit, ranks begin with rank 0's state, and agree before each learner
step on all that it depends on besides the items: the steps and the share of the budget that are
behind them, and the least expected draw, which importance weights are divided by. They sum by
torch.distributed: gloo on processors, NCCL on GPUs.

The one seam is the optimizer: `Optimizer.exchange` has the gradients just before they are clipped
and stepped along. A rank may have fewer gradient steps in its learner step than another has, where
their number follows from the items: it then steps along the others' gradients.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any

import torch
from torch import distributed

from drlnet.algos import Algorithm, Learner, NetLearner, make_algorithm
from drlnet.client import Batch
from drlnet.config import Config, repeatable
from drlnet.envs import EnvSpaces
from drlnet.errors import ConfigError, RoleFailed, one_line
from drlnet.nets.optimizers import Optimizer
from drlnet.nets.params import pack_state, unpack_state

_HOST = "127.0.0.1"
_MEETING_S = 60.0  # for all to come
_LOOK_S, _GIVE_UP_S = 0.1, 1.0  # while they are waited for
# Ranks of this machine know at once when one has ended. One of another machine may just go silent.
_SILENT_HERE_S, _SILENT_ELSEWHERE_S = 86_400.0, 600.0
_REMEDY = "see its own error or log; --resume goes on from the learner's newest state"


@dataclass(frozen=True)
class Place:
    """Which of the ranks a process is, and where they meet."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0  # among those of its machine
    meeting: socket.socket | None = None
    """Bound for rank 0 to listen at, on this machine; None: where torch's environment says."""


def place_told(config: Config) -> Place | None:
    """The place that torchrun, or what sets the same variables, has told this process; else None.

    Raises ConfigError where it says another number of ranks than learner.processes, or no place
    among them.
    """
    count, rank = config.learner.processes, os.environ.get("RANK")
    if count == 1 or rank is None:
        return None
    told = os.environ.get("WORLD_SIZE", "")
    if told != str(count):
        raise ConfigError(
            f"learner.processes = {count}, and the environment has RANK={rank} of "
            f"WORLD_SIZE={told or 'nothing'}",
            "make them agree, or unset RANK: the learner then starts its ranks itself",
        )
    return Place(_told("RANK", rank, count), count, _told("LOCAL_RANK", rank, count))


def _told(name: str, rank: str, count: int) -> int:
    """The rank that this variable says; without it, `rank` is told."""
    told = os.environ.get(name, rank)
    if told not in map(str, range(count)):
        raise ConfigError(
            f"the environment has {name}={told!r}, which is none of the numbers from 0 to "
            f"{count - 1}, as learner.processes = {count}",
            f"correct {name}, or unset RANK: the learner then starts its ranks itself",
        )
    return int(told)


def require_ranks(config: Config, spaces: EnvSpaces) -> None:
    """Raises ConfigError where the algorithm cannot be learned by several processes.

    Leaves torch with one thread, as a process that has started others cannot be forked.
    """
    count = config.learner.processes
    if count == 1:
        return
    torch.set_num_threads(1)
    algorithm = make_algorithm(repeatable(config), spaces)
    for name, table in algorithm.tables().items():
        if table.batch_size % count:
            raise ConfigError(
                f"learner.processes = {count} cannot share out a batch of {table.batch_size} "
                f"items of the table {name!r}",
                f"choose a batch size that {count} divides, or other learner.processes",
            )
    learner = algorithm.learner("cpu", 0)
    _optimizer(learner, config)
    if hasattr(learner, "choose"):
        raise ConfigError(
            f"learner.processes = {count}, and each process of algo.name = {config.algo.name!r} "
            "would choose by itself which tables it draws from",
            "leave learner.processes out, or use an algorithm that draws from all of its tables",
        )


def _optimizer(learner: Learner, config: Config) -> Optimizer:
    optimizer = learner.optimizer if isinstance(learner, NetLearner) else None
    if not isinstance(optimizer, Optimizer):
        raise ConfigError(
            f"learner.processes = {config.learner.processes}, and algo.name = "
            f"{config.algo.name!r} has no gradients to average: its learner is not a NetLearner",
            "leave learner.processes out, or derive the learner from drlnet.algos.NetLearner and "
            "step by its descend()",
        )
    return optimizer


class Ranks:
    """The ranks as one of them sees them. One alone: nothing is exchanged. Not thread-safe.

    Every call that exchanges is made by all ranks, in the same order, and waits for the slowest.
    It raises RoleFailed where another one has ended meanwhile.
    """

    def __init__(self, place: Place | None = None) -> None:
        self._place = place or Place()
        self.rank, self.count = self._place.rank, self._place.count
        self._ended = self.count == 1
        self._tables = 0
        self._taken, self._next_look = 0, 1

    def device(self, config: Config) -> str:
        """This rank's own torch device."""
        device = config.learner.device
        return f"cuda:{self._place.local_rank}" if self.count > 1 and device == "cuda" else device

    @property
    def over(self) -> bool:
        """Whether one of several has ended."""
        return self._ended and self.count > 1

    def attach(self, learner: Learner, algorithm: Algorithm[Any], *, over: bool = False) -> None:
        """Takes the gradients of this learner's optimizer from now on; it goes on from rank 0's
        state, and torch's generator from where rank 0's stands.

        over: of rank 0; no rank takes a step any more, nor draws, when actors have ended.
        """
        if self.count == 1:
            return
        self._optimizer = _optimizer(learner, algorithm.config)
        self._learner, self._algorithm = learner, algorithm
        self._tables = len(algorithm.tables())
        blob = b""
        if self.rank == 0:
            own = {"learner": learner.state_dict(), "torch_rng": torch.get_rng_state()}
            own["over"] = over
            blob = pack_state(own, algorithm.architecture, {})
        blob = self._broadcast(blob)
        if self.rank > 0:
            state = unpack_state(blob, algorithm.architecture, "rank 0")
            learner.load_state_dict(state["learner"])
            torch.set_rng_state(state["torch_rng"])
            over = bool(state["over"])
        self._ended = over
        self._optimizer.exchange = self._average

    def agree(self, batches: Mapping[str, Batch]) -> bool:
        """Makes the totals of the whole draw those of each part. False where a rank ends."""
        if self.count == 1:
            return True
        own = [0.0, max(batch.spent for batch in batches.values())]
        for batch in batches.values():
            own += [batch.env_steps, batch.item_count * float(batch.probabilities.min())]
        _, spent, *totals = told = list(zip(*self._gather(own), strict=True))
        if any(told[0]):
            self._ended = True
            return False
        for index, batch in enumerate(batches.values()):
            batch.spent, batch.env_steps = max(spent), int(max(totals[2 * index]))
            batch.least_expected = min(totals[2 * index + 1])
        return True

    def end_step(self) -> None:
        """Ends a learner step: steps along with ranks that still do. Now and then makes sure that
        the params are equal; raises ConfigError where they are not."""
        if self.count == 1:
            return
        self._optimizer.follow()
        self._taken += 1
        if self._taken == self._next_look:
            self._next_look *= 2
            if len({told[0] for told in self._gather([_digest(self._learner.params())])}) > 1:
                raise ConfigError(
                    f"the params of the {self.count} ranks differ after {self._taken} learner "
                    f"steps: algo.name = {self._algorithm.config.algo.name!r} moves them otherwise "
                    "than by its optimizer's step",
                    "leave learner.processes out, or change params by NetLearner.descend() alone",
                )

    def end(self) -> None:
        """Tells the others, at the next learner step that they would take, that this rank ends."""
        if not self._ended:
            self._ended = True
            self._gather([1.0, *[0.0] * (1 + 2 * self._tables)])

    def _average(self, params: Sequence[torch.Tensor], rate: float | None) -> float | None:
        """The Exchange of an Optimizer."""
        told = self._gather([0.0, 0.0] if rate is None else [1.0, rate])
        stepping = sum(one[0] for one in told)
        if not stepping:
            return None
        params = [one for one in params if one.requires_grad]
        for one in params:
            if one.grad is None:
                one.grad = torch.zeros_like(one)
        for _, group in groupby(params, lambda one: (one.dtype, one.device)):
            grads = [one.grad for one in group if one.grad is not None]
            whole = torch.cat([grad.reshape(-1) for grad in grads])
            with _others():
                distributed.all_reduce(whole)
            whole /= stepping
            means = torch.split(whole, [grad.numel() for grad in grads])
            for grad, mean in zip(grads, means, strict=True):
                grad.copy_(mean.view(grad.shape))  # which keeps its memory format
        return max(one[1] for one in told)

    def _gather(self, own: Sequence[float]) -> list[list[float]]:
        """The numbers of every rank, by rank; each gives as many."""
        told = torch.zeros(self.count, len(own), dtype=torch.float64)
        told[self.rank] = torch.tensor(own, dtype=torch.float64)
        with _others():
            distributed.all_reduce(told)
        numbers: list[list[float]] = told.tolist()
        return numbers

    def _broadcast(self, blob: bytes) -> bytes:
        """Rank 0's bytes."""
        size = int(self._gather([len(blob)])[0][0])
        memory = torch.empty(size, dtype=torch.uint8)
        if self.rank == 0:
            memory = torch.frombuffer(bytearray(blob), dtype=torch.uint8)
        with _others():
            distributed.broadcast(memory, 0)
        return memory.numpy().tobytes()


@contextmanager
def _others() -> Iterator[None]:
    """While this rank waits for the others."""
    try:
        yield
    except RuntimeError as error:
        raise RoleFailed(
            f"another rank of the learner is gone: {one_line(error)}", _REMEDY
        ) from error


def _digest(params: Mapping[str, torch.Tensor]) -> float:
    """48 bits of a hash of the params: a whole number that a float64 holds."""
    found = hashlib.sha256()
    for name, value in sorted(params.items()):
        found.update(name.encode())
        found.update(
            value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        )
    return float(int.from_bytes(found.digest()[:6], "big"))


@contextmanager
def meeting(
    place: Place | None, stopped: Callable[[], bool], device: str = "cpu"
) -> Iterator[Ranks]:
    """The ranks while the block runs: comes together with the others, which have a minute for it.

    Raises RoleFailed where they do not come, KeyboardInterrupt once `stopped` says so before.
    """
    if place is None or place.count == 1:
        yield Ranks()
        return
    failed: list[Exception] = []
    given_up = threading.Event()

    def meet() -> None:
        try:
            _meet(place, "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo", given_up)
        except Exception as error:  # raised below
            failed.append(error)

    # Where torch itself waits, for rank 0's store or a connection, it heeds no signal.
    thread = threading.Thread(target=meet, name="meeting", daemon=True)
    thread.start()
    while thread.is_alive():
        if stopped():
            given_up.set()
            thread.join(_GIVE_UP_S)
            raise KeyboardInterrupt
        thread.join(_LOOK_S)
    try:
        if failed:
            raise failed[0]
    except (RuntimeError, ValueError) as error:
        raise RoleFailed(
            f"the {place.count} ranks of the learner did not come together: {one_line(error)}",
            "start all of them within a minute, with the same MASTER_ADDR and MASTER_PORT",
        ) from error
    try:
        yield Ranks(place)
    finally:
        distributed.destroy_process_group()  # the others' calls end with an error


def _meet(place: Place, backend: str, given_up: threading.Event) -> None:
    """Makes torch's group of the ranks, once all are there: its timeout is for later silence."""
    silent_s, within = _SILENT_ELSEWHERE_S, timedelta(seconds=_MEETING_S)
    if place.meeting is None:
        # A world of one: rank 0's store does not wait for the others.
        told = distributed.rendezvous(  # type: ignore[attr-defined]
            "env://", place.rank, 1, timeout=within
        )
        store = next(told)[0]
        store.set_timeout(timedelta(seconds=silent_s))
    else:
        for library in ("GLOO", "NCCL"):  # no other machine has to do with it
            os.environ.setdefault(f"{library}_SOCKET_IFNAME", "lo")
        silent_s, store = _SILENT_HERE_S, _store(place)
    end_s = time.monotonic() + _MEETING_S
    store.add(f"here-{place.rank}", 1)
    while missing := [rank for rank in range(place.count) if not store.add(f"here-{rank}", 0)]:
        if given_up.wait(_LOOK_S):
            return
        if time.monotonic() > end_s:
            raise RuntimeError(f"rank {missing[0]} has not come within {_MEETING_S:g} s")
    distributed.init_process_group(
        backend,
        store=store,
        rank=place.rank,
        world_size=place.count,
        timeout=timedelta(seconds=silent_s),
    )


def _store(place: Place) -> Any:
    """Where ranks of one machine find each other."""
    assert place.meeting is not None
    port, first = place.meeting.getsockname()[1], place.rank == 0
    listener = place.meeting.detach()
    if not first:
        os.close(listener)
    return distributed.TCPStore(  # type: ignore[attr-defined]
        _HOST, port, place.count, first, timedelta(seconds=_MEETING_S),
        wait_for_workers=False, master_listen_fd=listener if first else None,
    )  # fmt: skip


def meeting_place() -> socket.socket:
    """A socket that listens on this machine alone, for the ranks that a process is to fork."""
    listener = socket.socket()
    listener.bind((_HOST, 0))
    listener.listen(64)
    return listener
