# SPDX-License-Identifier: Apache-2.0
"""The error of every decoder: bytes that are no frame of the protocol, with a name to count them by."""

from __future__ import annotations

from nicemu.errors import ProtocolError


class MalformedError(ProtocolError):
    """Bytes that a decoder refused; `reason` names the header and the field, as in "ip.checksum"."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
