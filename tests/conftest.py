# SPDX-License-Identifier: Apache-2.0
"""What all tests share: hypothesis draws the same examples every time, and measures no deadline.

`--hypothesis-profile=long` draws many more, and other ones each time.
"""

from __future__ import annotations

import gc
import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("long", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile("same")

MANY_DESCRIPTORS = 400


def pytest_runtest_setup() -> None:
    """Collect NICs of tests before, which refer to themselves: select(2) takes descriptors up to 1023."""
    if len(os.listdir("/proc/self/fd")) > MANY_DESCRIPTORS:
        gc.collect()
