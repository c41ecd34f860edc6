"""Measurements of the service itself, all with one schema of records.

Nothing is imported here: what is measured starts many processes, each of which waits for it.
"""
