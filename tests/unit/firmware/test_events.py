# SPDX-License-Identifier: Apache-2.0
"""What firmware reacts to, and decorators outside a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.firmware import Event, Registry, on_arrival, on_connect, on_disconnect, on_event, on_start


@pytest.mark.parametrize("decorator", [on_event("x"), on_arrival, on_start, on_connect, on_disconnect])
def test_a_decorator_outside_a_script_that_is_being_loaded_says_how_to_load_it(
    decorator: Callable[..., Any],
) -> None:
    def handler() -> None:
        return

    with pytest.raises(UsageError, match="firmware is loaded with `nicemu flash PATH`, not imported or run"):
        decorator(handler)


def test_the_fields_of_an_event_are_read_by_name() -> None:
    event = Event("follow_up", {"session": 5})
    assert event["session"] == 5
    assert (event.frame, event.settled) == (b"", False)
    with pytest.raises(KeyError):
        event["none"]


def test_events_are_told_apart_by_identity() -> None:
    assert Event("a", {}) != Event("a", {})


def test_an_empty_registry_handles_nothing() -> None:
    assert Registry().names() == []
