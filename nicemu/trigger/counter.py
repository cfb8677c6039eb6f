# SPDX-License-Identifier: Apache-2.0
"""Counters: success and errors, saturating, published to whoever maps their write-back entry.

Source: fi_cntr(3); the first word of a write-back entry has the layout of Cassini's `c_ct_writeback`.
"""

from __future__ import annotations

import numpy as np

from nicemu.hot import Flag, Int, hot
from nicemu.pcie import store_u64

from .deferred_work import make_reached_due
from .state import TriggerState

_WORD_SUCCESS_MAX = np.uint64((1 << 48) - 1)
_WORD_ERRORS_MAX = np.uint64(127)
_WORD_ERRORS_SHIFT = np.uint64(48)
_WORD_VALID = np.uint64(1 << 63)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_8, _16, _24 = np.uint64(8), np.uint64(16), np.uint64(24)

SUCCESS, ERRORS = 1, 2
"""Which of the two values `set_values` replaces; 3 replaces both."""


@hot
def publish(state: TriggerState, counter: Int) -> None:
    """Write the counter's 64-byte write-back entry.

    Words: the Cassini word (success in bits 0-47, errors in 48-54, valid bit 63, both saturating), the full
    success and errors, and a version that is odd while the entry is being written.
    """
    record = state.counters[counter]
    entry = record.published
    if entry == 0:
        return
    store_u64(entry + _24, record.version + _ONE)
    store_u64(entry + _8, record.success)
    store_u64(entry + _16, record.errors)
    word = min(record.success, _WORD_SUCCESS_MAX) | (
        min(record.errors, _WORD_ERRORS_MAX) << _WORD_ERRORS_SHIFT
    )
    store_u64(entry, word | _WORD_VALID)
    record.version += np.uint64(2)
    store_u64(entry + _24, record.version)


@hot
def add(state: TriggerState, counter: Int, success: Int, errors: Int) -> None:
    """Count; at its maximum a value stays there and the sticky overflow flag is raised. Reached work is
    due.
    """
    record = state.counters[counter]
    unit = state.unit[0]
    if success > unit.max_success - record.success:
        record.success = unit.max_success
        record.overflow = 1
    else:
        record.success += success
    if errors > unit.max_errors - record.errors:
        record.errors = unit.max_errors
        record.overflow = 1
    else:
        record.errors += errors
    publish(state, counter)
    make_reached_due(state, counter)


@hot
def set_values(state: TriggerState, counter: Int, success: Int, errors: Int, which: Int) -> None:
    """Replace the success value, the error value or both. Fired work stays fired; reached work is due."""
    record = state.counters[counter]
    if state.unit[0].set_replaces_both != 0:
        which = SUCCESS | ERRORS
    if record.in_flight != 0:
        state.unit[0].unsettled_sets += _ONE
    if which & SUCCESS:
        record.success = success
    if which & ERRORS:
        record.errors = errors
    publish(state, counter)
    make_reached_due(state, counter)


@hot
def count_end(state: TriggerState, counter: Int, failed: Flag, byte_len: Int) -> None:
    """Count the end of an operation: 1 error, or 1 success (its bytes, at a counter of bytes)."""
    if failed:
        add(state, counter, _ZERO, _ONE)
    elif state.counters[counter].counts_bytes != 0:
        add(state, counter, byte_len, _ZERO)
    else:
        add(state, counter, _ONE, _ZERO)
