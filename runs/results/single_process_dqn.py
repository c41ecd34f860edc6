"""MinAtar by stable-baselines3's DQN in one process: what `drlnet run MinAtar/GAME-v1` is beside.

pip install stable-baselines3 minatar; python single_process_dqn.py GAME SEED SECONDS
prints a line of JSON: greedy, raw returns after each quarter of the seconds. They are of processor
time, and of training alone, so that other work beside it costs it nothing. The network is that of
MinAtar, and so are the settings as far as that DQN has them (Young & Tian 2019): a replay of
100,000, batches of 32, their rate for Adam, a gradient step every fourth step.
"""

from __future__ import annotations

import json
import sys
import time

import gymnasium
import minatar.gym
import numpy as np
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

QUARTERS, LOOK_EPISODES, LAST_EPISODES = 4, 20, 100
_CHANNELS, _UNITS = 16, 128


class Net(BaseFeaturesExtractor):
    """One convolution of 3 x 3 and a dense layer; observations have their channels first."""

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        super().__init__(space, _UNITS)
        channels, height, width = space.shape
        flat = _CHANNELS * (height - 2) * (width - 2)
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(channels, _CHANNELS, 3),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(flat, _UNITS),
            torch.nn.ReLU(),
        )

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layers(obs)


def make(game: str, seed: int) -> gymnasium.Env:
    """The game, its observations [channels, 10, 10] float32."""
    env = gymnasium.make(f"MinAtar/{game}-v1")
    height, width, channels = env.observation_space.shape
    space = gymnasium.spaces.Box(0.0, 1.0, (channels, height, width), np.float32)
    moved = gymnasium.wrappers.TransformObservation(
        env, lambda obs: np.moveaxis(obs, -1, 0).astype(np.float32), space
    )
    moved.reset(seed=seed)
    return Monitor(moved)


class Looks(BaseCallback):
    """Evaluates after each quarter, off the clock, and ends the training behind the last."""

    def __init__(self, env: gymnasium.Env, seconds: float) -> None:
        super().__init__()
        self._env, self._quarter_s = env, seconds / QUARTERS
        self.looks: list[dict[str, float]] = []

    def _on_training_start(self) -> None:
        self._began_s = time.process_time()

    def _on_step(self) -> bool:
        trained_s = time.process_time() - self._began_s
        if trained_s < self._quarter_s * (len(self.looks) + 1):
            return True
        last = len(self.looks) + 1 == QUARTERS
        returns, _ = evaluate_policy(
            self.model, self._env, LAST_EPISODES if last else LOOK_EPISODES,
            deterministic=True, return_episode_rewards=True,
        )  # fmt: skip
        self.looks.append(
            {
                "trained_s": round(trained_s, 1),
                "env_steps": self.num_timesteps,
                "updates": self.model._n_updates,
                "episodes": len(returns),
                "return_mean": float(np.mean(returns)),
                "return_std": float(np.std(returns)),
            }
        )
        self._began_s = time.process_time() - trained_s
        return not last


def main(game: str, seed: int, seconds: float) -> None:
    torch.set_num_threads(1)
    minatar.gym.register_envs()
    model = DQN(
        "MlpPolicy", make(game, seed), seed=seed, device="cpu",
        policy_kwargs={"features_extractor_class": Net, "net_arch": [], "normalize_images": False},
        buffer_size=100_000, learning_starts=5_000, batch_size=32, learning_rate=2.5e-4,
        train_freq=4, target_update_interval=1_000, gamma=0.99,
        # The share of an endless budget in which epsilon falls: 100,000 steps.
        exploration_fraction=1e-3, exploration_final_eps=0.1,
    )  # fmt: skip
    looks = Looks(make(game, seed + 1_000_000), seconds)
    model.learn(100_000_000, callback=looks)
    print(json.dumps({"game": game, "seed": seed, "seconds": seconds, "looks": looks.looks}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
