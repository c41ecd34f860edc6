"""Starts and supervises roles as processes of this machine."""
