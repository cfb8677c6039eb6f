# SPDX-License-Identifier: Apache-2.0
"""Where the plugin finds what exploring has to tell: of one test, and of all at the end."""

from __future__ import annotations

import pytest

TOLD = pytest.StashKey[str]()
EXPLORED = pytest.StashKey[list[str]]()
