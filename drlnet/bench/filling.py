"""Tables full of random rows, an item on each, for what is measured on them."""

from __future__ import annotations

import numpy as np

from drlnet import native

ROWS = 64  # appended at once
_FOREVER_S, _LEASE_S = 1e6, 60.0


def writer(
    client: native.Client, table: int, spec: native.TableSpec, streams: int, flush_rows: int
) -> native.StreamWriter:
    """A writer that sends when so many rows have gathered, or when it is flushed."""
    return client.writer(table, spec, streams, [], flush_rows, _FOREVER_S, _LEASE_S)


def fill(
    client: native.Client, table: int, spec: native.TableSpec, row_bytes: int, rows: int
) -> None:
    """Appends so many rows of a table with one column, a multiple of ROWS."""
    values = np.random.default_rng(0).integers(0, 255, (ROWS, row_bytes), np.uint8)
    yes, no = np.ones(ROWS, bool), np.zeros(ROWS, bool)
    streams, steps = np.arange(ROWS), np.empty(ROWS, np.int64)
    priorities = np.ones(ROWS, np.float32)
    filling = writer(client, table, spec, ROWS, flush_rows=2 * ROWS)
    for step in range(rows // ROWS):
        filling.append([values], yes if step == 0 else no, no, yes, steps)
        filling.add_items(streams, steps, priorities)
        filling.flush()
    filling.release()
