# SPDX-License-Identifier: Apache-2.0
"""Traces of requests on GPUs with storage nodes: prefixes recomputed, or fetched by CPUs or NICs."""

from .study import REPLAY

__all__ = ["REPLAY"]
