# SPDX-License-Identifier: Apache-2.0
"""Where NVMe controllers answer otherwise than the specification says, strictly: neither more nor less."""

from __future__ import annotations

from nicemu.errors import NvmeStatus
from tests.contract.nvme_plain_host import PlainHost

DEVIATIONS: dict[tuple[str, str], int] = {
    # The two checks of a completion queue identifier come in the other order, and one is missing.
    ("qemu", "a submission queue for the admin completion queue"): NvmeStatus.COMPLETION_QUEUE_INVALID,
    ("qemu", "a submission queue for a completion queue out of range"): NvmeStatus.COMPLETION_QUEUE_INVALID,
    ("qemu", "deletion of completion queue 0"): NvmeStatus.COMPLETION_QUEUE_INVALID,
    ("qemu", "deletion of completion queue 3"): NvmeStatus.COMPLETION_QUEUE_INVALID,
    # A reserved value of SEL reads the current value.
    ("qemu", "a reserved selection of a feature"): NvmeStatus.SUCCESS,
    # A controller reset leaves values of features that are not saved.
    ("qemu", "TEMPERATURE_THRESHOLD, 0x0, after a reset"): 350,
    ("qemu", "TEMPERATURE_THRESHOLD, 0x100000, after a reset"): 250,
    ("qemu", "ERROR_RECOVERY, 0x0, after a reset"): 77,
    ("qemu", "ASYNC_EVENT_CONFIGURATION, 0x0, after a reset"): 0x1F,
    ("qemu", "a log page that there is not"): NvmeStatus.INVALID_FIELD,
    # A DMA read or write that nothing answers is taken for done; a list that nothing answers is not.
    ("qemu", "a READ with memory that nobody has"): NvmeStatus.SUCCESS,
    ("qemu", "a WRITE with memory that nobody has"): NvmeStatus.SUCCESS,
}
"""What a controller answers, by its name and the case, where the specification says otherwise."""

OTHER_REVISION_IN_SLOT = frozenset({"qemu"})
"""Controllers whose firmware slot has another revision than Identify Controller."""


def check(host: PlainHost, case: str, found: int, specified: int) -> None:
    """See that a status is the specified one, or exactly the deviation that is known."""
    deviation = DEVIATIONS.get((host.rig.name.split(",")[0], case))
    assert deviation != specified
    assert found == (specified if deviation is None else deviation), case
