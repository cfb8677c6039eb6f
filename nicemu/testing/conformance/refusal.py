# SPDX-License-Identifier: Apache-2.0
"""What a target says when it refuses: the error of the specification, and nothing changed."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from nicemu.errors import ResourceError, UsageError

from .bench import Bench


@contextmanager
def refused(name: str) -> Iterator[None]:
    """Raise AssertionError unless what is inside is refused with this error, such as "EINVAL".

    The error's text has its name or its number; ENOSPC is a ResourceError, others are UsageErrors.
    """
    kind = ResourceError if name == "ENOSPC" else UsageError
    said = "it was accepted"
    try:
        yield
    except kind as error:
        said = str(error)
    assert name in said or f"(errno {getattr(errno, name)})" in said, f"{name} was expected; {said}"


def nothing_is_armed(bench: Bench) -> None:
    """Raise AssertionError if something of this process is; not asked of a target that cannot flush."""
    if bench.nic.capabilities.flush:
        assert bench.nic.flush() == 0, "something was left behind"
