"""Actors of a group: which of them are started again."""

from __future__ import annotations

import signal
import sys

from drlnet.launch.actors import Actors
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Supervisor

# In the place of `drlnet`: the arguments stay words.
WAITS = (sys.executable, "-c", "import signal; signal.pause()")


def ended(group: Supervisor) -> Ended:
    while True:
        for event in group.wait(60):
            if isinstance(event, Ended):
                return event


def test_one_that_was_killed_is_started_again_but_not_after_the_end() -> None:
    with Stop() as stop, Supervisor(stop, grace_s=5, program=WAITS) as group:
        actors = Actors(group, ["actor"], count=2, restarts=3)
        actors.start()
        first, second = actors.processes
        first.signal(signal.SIGKILL)
        actors.heed(ended(group))
        assert actors.due_in_s < 60
        second.signal(signal.SIGKILL)
        late = ended(group)  # heard of, and heeded only after the end
        actors.end()
        actors.heed(late)
        assert actors.due_in_s > 60 and actors.running == 0
        actors.start_due()
        assert actors.processes == [first, second] and actors.restarts == 0
        assert actors.failures == ["actor-0 was killed by SIGKILL"]
