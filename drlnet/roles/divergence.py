"""What a priority that is no number means to who trains: the reason lies before the priority."""

from __future__ import annotations

from drlnet.errors import BadPriority


def diverged(env_id: str, error: BadPriority) -> BadPriority:
    """The error of a TD error that is NaN or infinite."""
    return BadPriority(
        f"TD errors are no longer finite ({error.cause}): the params have diverged, or {env_id} "
        "gives rewards or observations that are NaN or infinite",
        "lower algo.learning_rate or algo.max_grad_norm; play the environment alone",
    )
