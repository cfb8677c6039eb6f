# SPDX-License-Identifier: Apache-2.0
"""What all tests share: hypothesis draws the same examples every time, and measures no deadline.

`--hypothesis-profile=long` draws many more, and other ones each time.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("long", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile("same")
