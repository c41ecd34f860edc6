"""Roles: what one process does. Each loop reads like pseudocode."""
