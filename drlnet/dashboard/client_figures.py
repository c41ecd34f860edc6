"""The figures of one client: what it reported, and what the server knows of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from drlnet.dashboard.reading import add, capped, number
from drlnet.dashboard.window import Window

LIVE, SLOW, GONE = "live", "slow", "gone"
_SLOW_S, _GONE_S = 3.0, 10.0  # of silence; clients report every second or so
_WAITING = {
    "learner": "sample",
    "rank": "sample",
    "actor": "append",
    "infer": "questions",
}  # the stage in which a role waits


class ClientFigures:
    """One client within a window. Its counters come in reports, each second or so.

    So what is per second of its own time is measured by its stages, which add up to the time
    between its reports, and not by the window.
    """

    def __init__(
        self,
        name: str,
        window: Window,
        after: Mapping[str, Any],
        before: Mapping[str, Any] | None,
    ) -> None:
        """after, before: its reports at the two ends; before is None at the very first reading."""
        self.name = name
        self._server = window
        self._own = Window(before, after, window.seconds)
        self._peer = f"peer.{name}."

    def latest(self, key: str) -> float:
        """The newest value of what it reported."""
        return self._own.latest(key)

    def text(self, key: str) -> str:
        """The same for a text; "" when it reported none."""
        return self._own.text(key)

    def peer(self, key: str) -> float:
        """The newest value of what the server knows of it."""
        return self._server.latest(self._peer + key)

    def rate(self, key: str) -> float:
        """The growth of a reported counter per second of the client's own time."""
        return self._own.grew(key) / self.elapsed_s if self.elapsed_s > 0 else math.nan

    def process_rate(self, key: str) -> float:
        """The same for a counter that has run since its process began; NaN at its first report."""
        before = number((self._own.before or {}).get(key))
        return self.rate(key) if self.latest(key) >= before else math.nan

    def grew_of(self, *keys: str) -> float:
        """The growth of some reported counters together."""
        return add(self._own.grew(key) for key in keys)

    @cached_property
    def role(self) -> str:
        """actor, learner and so on, or "" for another; one that has not reported is known by its
        name."""
        said = self.text("role")
        if said:
            return said
        for role, counter in (("learner", "learner_steps"), ("actor", "env_steps")):
            if self.name.startswith(role) or not math.isnan(self.latest(counter)):
                return role
        return ""

    @property
    def learns(self) -> bool:
        """Whether it is a learner, or another of the learner's processes."""
        return self.role in ("learner", "rank")

    @cached_property
    def transport(self) -> str:
        return self._server.text(self._peer + "transport")

    @cached_property
    def state(self) -> str:
        """live, slow (silent for some seconds), or gone."""
        silent_s = self.peer("silent_s")
        if silent_s >= _GONE_S:
            return GONE
        return SLOW if silent_s >= _SLOW_S else LIVE

    def leave(self) -> None:
        """The server no longer knows it."""
        self.state = GONE

    @cached_property
    def _stage_seconds(self) -> dict[str, float]:
        keys = [key for key in self._own.after if key.startswith("stage.") and key.endswith("_s")]
        return {key[len("stage.") : -len("_s")]: self._own.grew(key) for key in keys}

    @cached_property
    def elapsed_s(self) -> float:
        """The client's time between the reports at both ends of the window; 0: it said nothing."""
        stages = add(self._stage_seconds.values())
        return self._own.seconds if math.isnan(stages) else stages

    @cached_property
    def stages(self) -> dict[str, float]:
        """The share of each stage of its loop."""
        if not self.elapsed_s > 0:
            return {}
        return {name: spent / self.elapsed_s for name, spent in self._stage_seconds.items()}

    def held(self, reason: str) -> float:
        """The share of the time in which the limiter held a request of its for that reason."""
        return capped(self._server.rate(f"{self._peer}limiter_wait_s.{reason}"))

    @property
    def waiting_for(self) -> str:
        """What a request of its waits for that waits now: the limiter's reason, or ""."""
        return self._server.text(self._peer + "waiting_for")

    @cached_property
    def waits(self) -> float:
        """The share of its time in which it waits for the server: for a batch, or to append; the
        inference role: for questions.

        A client that waits does not report meanwhile: then it is what the server knows.
        """
        share = self.stages.get(_WAITING.get(self.role, ""), math.nan)
        if math.isnan(share) and self.waiting_for and self._server.seconds > 0:
            share = capped(self.peer("waiting_s") / self._server.seconds)
        if math.isnan(share) and not self._stage_seconds:
            share = self.latest("sample_wait_share")  # a learner that tells no stages
        return share

    @cached_property
    def steps_per_s(self) -> float:
        """The steps of its loop: environment steps, or learner steps.

        At a process's first report what it says itself: a learner may go on from earlier steps.
        """
        name = "learner_steps" if self.learns else "env_steps"
        first = math.isnan(self.cpu)
        rate = self.rate(name) if self.stages and not first else math.nan
        return self.latest(f"{name}_per_s") if math.isnan(rate) else rate

    @cached_property
    def window_wait(self) -> float:
        """The share of its time in which a call waited for credit or window."""
        return capped(self.rate("window_wait_s"))

    @cached_property
    def cpu(self) -> float:
        """Cores that it uses."""
        return self.process_rate("cpu_s")

    @cached_property
    def again_per_s(self) -> float:
        """Frames that it sent, or asked for, once more, per second."""
        again = self.grew_of("retransmissions", "repulls")
        return again / self.elapsed_s if self.elapsed_s > 0 else math.nan

    @cached_property
    def duplicates(self) -> float:
        """What came twice, at the server and here."""
        at_server = add(
            self._server.grew(self._peer + key) for key in ("duplicates", "duplicate_requests")
        )
        return add([at_server, self.grew_of("duplicate_frames")])

    @property
    def returns(self) -> float:
        """The mean return: of an actor's episodes, or of the learner's greedy ones."""
        return number(self._own.after.get("return_mean", self._own.after.get("eval_return")))
