# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C where something is being done: once it waits for that, once more it does not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from nicemu.cli import interruption
from nicemu.cli.interruption import interruptible, until_interrupted


def numbers() -> Iterator[int]:
    yield from range(9)


def test_what_is_done_with_an_item_is_done_and_no_other_begins() -> None:
    """A second signal right behind the first, as of a key that is held, changes nothing."""
    done = []
    with interruptible() as reading:
        for item in reading.until_interrupted(numbers()):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append(item)
    assert (done, reading.is_over) == ([0], True)


def test_once_more_later_ends_what_is_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "PATIENCE_S", 0.0)
    with interruptible() as reading:
        items = reading.until_interrupted(numbers())
        assert next(items) == 0
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_once_all_is_done_nothing_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "PATIENCE_S", 0.0)
    with interruptible() as reading:
        assert list(reading.until_interrupted(numbers())) == list(range(9))
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)  # while files are finished, say
    assert reading.is_over


def test_a_descriptor_tells_of_the_first_and_a_later_one_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with until_interrupted() as ended:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert set(os.read(ended, 9)) == {signal.SIGINT}
        monkeypatch.setattr(interruption, "PATIENCE_S", 0.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
