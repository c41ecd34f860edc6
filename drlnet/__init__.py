"""Distributed deep Q-learning with prioritized experience replay in the network."""

__version__ = "0.1.0"
