# SPDX-License-Identifier: Apache-2.0
"""NVMe Qualified Names: what a subsystem may be called, and what a host may call itself.

Source: NVM Express Base Specification 2.0, "NVMe Qualified Names".
"""

from __future__ import annotations

import re
from typing import Final

MAX_NAME_BYTES: Final = 223
"""The longest name, in bytes of UTF-8."""
DISCOVERY: Final = "nqn.2014-08.org.nvmexpress.discovery"
_FORMAT: Final = re.compile(
    r"nqn\.\d{4}-(0[1-9]|1[0-2])(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+:.+", re.ASCII | re.DOTALL
)


def subsystem_name_fault(name: str) -> str:
    """Return what is wrong with the name of a subsystem, "" if nothing is."""
    length_bytes = len(name.encode("utf-8", "replace"))
    if length_bytes > MAX_NAME_BYTES:
        return f"it has {length_bytes} bytes of UTF-8, {MAX_NAME_BYTES} at most are allowed"
    if not name.isprintable():
        return "it has a character that cannot be printed or encoded in UTF-8"
    if name == DISCOVERY:
        return "it is the name of the discovery service, which is not served here"
    if not _FORMAT.fullmatch(name):
        return "it is not of the form nqn.YYYY-MM.REVERSED.DOMAIN:NAME, such as nqn.2014-08.org.nicemu:nvme"
    return ""


def decoded_name(field: bytes) -> str | None:
    """Return the name in a field that ends with a zero byte; None if none, too long or not UTF-8.

    The form of a host's name is not looked at: what a host is called is only compared.
    """
    name, end, _ = field.partition(b"\0")
    if not name or not end or len(name) > MAX_NAME_BYTES:
        return None
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return None
