"""Settings of the environments that have their own; apart from them, as these import packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from drlnet.config import EnvConfig, setting


@dataclass(frozen=True)
class AtariSettings(EnvConfig):
    """A game of the Arcade Learning Environment, stepped by ale-py's own vector environment.

    Stickiness, frame skip and actions are by default those of gymnasium's ALE/...-v5, no-ops and
    frames those of DQN and Ape-X. Rewards are the game's own: to clip them is the algorithm's.
    """

    vectorization: Literal["vector_entry_point"] = setting(
        "vector_entry_point", "ale-py steps all environments of an actor together"
    )
    screen_size: int = setting(
        84, "height and width of a frame in pixels; the screen has 210 x 160", low=1, high=210
    )
    grayscale: bool = setting(True, "frames [size, size]; false: in colour, [size, size, 3]")
    frame_skip: int = setting(4, "frames that an action is held for: one step of drlnet", low=1)
    max_pool: bool = setting(True, "a step shows the brighter of its last two frames, by pixel")
    noop_max: int = setting(
        30, "an episode begins with fewer no-ops than this, drawn; 30: DQN, Ape-X", low=0
    )
    sticky_actions: float = setting(
        0.25,
        "probability by frame that the last action stays; 0.25: gymnasium's v5, 0: DQN, Ape-X",
        low=0,
        high=1,
    )
    fire_reset: bool = setting(False, "an episode begins with FIRE, where the game has it")
    full_action_space: bool = setting(False, "all 18 actions; false: those of the game")
    life_loss: Literal["ignore", "discount"] = setting(
        "ignore",
        "what a lost life is while training: nothing, or discount 0 in an episode that goes on",
    )
    max_frames: int = setting(
        108_000, "frames after which an episode is truncated: half an hour of play", low=1
    )
    num_threads: int = setting(1, "threads that step an actor's environments", low=1)
