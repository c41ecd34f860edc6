"""Noisy layers (Fortunato et al., arXiv 1706.10295), with factorised Gaussian noise."""

from __future__ import annotations

import math

import torch
from torch import nn


class NoisyLinear(nn.Linear):
    """(W + S * e_out e_in^T) x + b + s * e_out, where W, b, S and s are learned.

    e_in and e_out are f of Gaussian noise, f(x) = sign(x) sqrt(|x|): one draw for each input and
    each output, that all rows of a pass share. They stay until sample() draws new ones, and are
    zero before: a layer of the means. No state dict holds them: each process draws its own.
    scale: S and s begin as scale / sqrt(inputs).
    """

    noise_in: torch.Tensor
    noise_out: torch.Tensor

    def __init__(self, inputs: int, outputs: int, scale: float = 0.5):
        super().__init__(inputs, outputs)  # uniform in +-1 / sqrt(inputs), as the paper has it
        first = scale / math.sqrt(inputs)
        self.weight_scale = nn.Parameter(torch.full_like(self.weight, first))
        self.bias_scale = nn.Parameter(torch.full_like(self.bias, first))
        self.register_buffer("noise_in", torch.zeros(inputs), persistent=False)
        self.register_buffer("noise_out", torch.zeros(outputs), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, inputs] -> [n, outputs]."""
        weight = self.weight + self.weight_scale * (self.noise_out[:, None] * self.noise_in)
        return nn.functional.linear(x, weight, self.bias + self.bias_scale * self.noise_out)

    def sample(self, generator: torch.Generator) -> None:
        """Draws new noise. generator: a processor's."""
        for noise in (self.noise_in, self.noise_out):
            drawn = torch.randn(len(noise), generator=generator)
            noise.copy_(drawn.sign() * drawn.abs().sqrt())
