# SPDX-License-Identifier: Apache-2.0
"""How long a core takes to copy memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .curve import Curve, Work, measured


def measure_copy(sizes: Sequence[int], progress: Callable[[str], None]) -> Curve:
    """Return the seconds of a copy by one core, from pages to other pages that it has touched before."""
    import numpy as np

    whole = max(sizes, default=0)
    all_source, all_target = np.ones(whole, np.uint8), np.zeros(whole, np.uint8)

    def prepare(size: int) -> Work:
        source, target = all_source[:size], all_target[:size]
        return Work(lambda: np.copyto(target, source))

    return measured("memory copy", sizes, prepare, progress)
