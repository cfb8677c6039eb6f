# SPDX-License-Identifier: Apache-2.0
"""The same program on a compute node whose peer is another machine: `two_nodes.toml` says which."""

from __future__ import annotations

from loopback import loop  # type: ignore[import-not-found]  # the file beside this one

from nicemu.host import open_nic

with open_nic("compute0") as nic:
    print(f"compute0 wrote {loop(nic, 'storage0')} bytes to storage0 and read them back; they are right")
