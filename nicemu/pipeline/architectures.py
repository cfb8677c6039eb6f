# SPDX-License-Identifier: Apache-2.0
"""The architectures that the engine has, by name."""

from __future__ import annotations

from collections.abc import Mapping

from .architecture import Architecture
from .smartnic import NIC
from .v1switch import V1MODEL

ARCHITECTURES: Mapping[str, Architecture] = {NIC.name: NIC, V1MODEL.name: V1MODEL}
