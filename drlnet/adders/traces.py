"""Lambda returns of replayed steps, which other params played than those that learn from them."""

from __future__ import annotations

from drlnet.lazy import torch


def lambda_targets(
    value: torch.Tensor, trace: torch.Tensor, reward: torch.Tensor, discount: torch.Tensor,
    length: torch.Tensor, gamma: float,
) -> torch.Tensor:  # fmt: skip
    """G_0 [B] of drlnet.algos.dqn's equations.

    value, trace, reward, discount: [B, n] float32, v_k, lambda_k, r_k and d_k of k = 1 .. n; what
    stands behind m = length [B] is ignored, and so is lambda_m.
    """
    returns = torch.zeros_like(reward[:, 0])
    for k in reversed(range(reward.shape[1])):
        carried = trace[:, k] * (returns - value[:, k])
        ahead = value[:, k] + torch.where(k + 1 < length, carried, 0.0)
        step = reward[:, k] + gamma * discount[:, k] * ahead
        returns = torch.where(k < length, step, returns)
    return returns
