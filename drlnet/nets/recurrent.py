"""Q values with memory: a torso, an LSTM or GRU behind it, and a dueling head."""

from __future__ import annotations

import torch
from torch import nn


class RecurrentQNet(nn.Module):
    """Q values of sequences: [n, T, *obs_shape] -> [n, T, num_actions], and the state behind them.

    The core sees the torso's features, the previous action (one-hot; nothing where it is -1) and
    the previous reward. A state is float32 [n, state_size]; an episode begins with zeros.
    """

    def __init__(self, torso: nn.Module, num_actions: int, core: str, units: int, *, dueling: bool):
        super().__init__()
        self.torso, self.num_actions, self.dueling = torso, num_actions, dueling
        inputs = int(torso.features) + num_actions + 1  # type: ignore[arg-type]
        self.lstm = core == "lstm"
        self.core: nn.LSTM | nn.GRU = (nn.LSTM if self.lstm else nn.GRU)(
            inputs, units, batch_first=True
        )
        self.head = nn.Linear(units, num_actions + int(dueling))

    def forward(
        self, obs: torch.Tensor, action: torch.Tensor, reward: torch.Tensor, state: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """action, reward: [n, T], those before obs. Returns Q values and the state behind them."""
        shape = obs.shape[:2]
        features = self.torso(obs.flatten(0, 1)).view(*shape, -1)
        actions = torch.arange(self.num_actions, device=obs.device)
        before = (action.unsqueeze(2) == actions).float()
        inputs = torch.cat([features, before, reward.unsqueeze(2)], 2)
        if self.lstm:
            hidden, cell = (part.contiguous() for part in state.unsqueeze(0).chunk(2, 2))
            out, (hidden, cell) = self.core(inputs, (hidden, cell))
            state = torch.cat([hidden, cell], 2).squeeze(0)
        else:
            out, hidden = self.core(inputs, state.unsqueeze(0).contiguous())
            state = hidden.squeeze(0)
        values: torch.Tensor = self.head(out)
        if self.dueling:
            advantage = values[..., 1:]
            values = values[..., :1] + advantage - advantage.mean(2, keepdim=True)
        return values, state
