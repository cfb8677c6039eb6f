# SPDX-License-Identifier: Apache-2.0
"""The studies that one command runs each, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .caching import AnalyticsStudy, ChatStudy
from .contract import Study
from .hpe import HpePoint
from .overflow import Overflow
from .replay import REPLAY

_ALL: tuple[Study, ...] = (HpePoint(), Overflow(), ChatStudy(), AnalyticsStudy(), REPLAY)
STUDIES: Final[Mapping[str, Study]] = {study.name: study for study in _ALL}
