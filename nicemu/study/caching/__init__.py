# SPDX-License-Identifier: Apache-2.0
"""Prefix caching over tiers: a chat of many turns, and a job behind one long instruction."""

from .analytics import AnalyticsStudy
from .chat import ChatStudy

__all__ = ["AnalyticsStudy", "ChatStudy"]
