# SPDX-License-Identifier: Apache-2.0
"""KV that outgrows the GPU's memory: a scheduler with paged KV, what preempting costs, figures."""

from .study import Overflow

__all__ = ["Overflow"]
