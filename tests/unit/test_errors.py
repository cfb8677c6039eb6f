# SPDX-License-Identifier: Apache-2.0
"""Three families of errors; a specification's error keeps its code."""

from __future__ import annotations

import pytest

from nicemu import errors
from nicemu.errors import (
    ControlError,
    NicemuError,
    NvmeCommandError,
    NvmeStatus,
    P4RuntimeCode,
    ProtocolError,
    ResourceError,
    UsageError,
    VerbsStatus,
    family_name,
    family_of,
)


def test_every_error_belongs_to_one_family() -> None:
    families = (UsageError, ProtocolError, ResourceError)
    found = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception) and kind is not NicemuError
    ]
    assert len(found) >= 5
    for kind in found:
        assert sum(issubclass(kind, family) for family in families) == 1
        assert issubclass(kind, NicemuError)


def test_an_nvme_error_keeps_its_status_and_names_it() -> None:
    error = NvmeCommandError(NvmeStatus.LBA_OUT_OF_RANGE, "block 9 of 8")
    assert error.status == 0x080
    assert str(error) == "LBA_OUT_OF_RANGE: block 9 of 8"


def test_a_control_error_keeps_its_code() -> None:
    error = ControlError(P4RuntimeCode.ALREADY_EXISTS, "there is such an entry")
    assert (error.code, str(error)) == (6, "there is such an entry")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (VerbsStatus.SUCCESS, 0),
        (VerbsStatus.LOC_PROT_ERR, 4),
        (VerbsStatus.WR_FLUSH_ERR, 5),
        (VerbsStatus.REM_INV_REQ_ERR, 9),
        (VerbsStatus.REM_ACCESS_ERR, 10),
        (VerbsStatus.RETRY_EXC_ERR, 12),
        (VerbsStatus.RNR_RETRY_EXC_ERR, 13),
        (VerbsStatus.GENERAL_ERR, 21),
    ],
)
def test_a_verbs_status_has_the_number_of_ibv_wc_status(status: VerbsStatus, code: int) -> None:
    assert status.value == code


@pytest.mark.parametrize(
    ("status", "code_type", "code"),
    [
        (NvmeStatus.SUCCESS, 0, 0x00),
        (NvmeStatus.INVALID_FIELD, 0, 0x02),
        (NvmeStatus.PRP_OFFSET_INVALID, 0, 0x13),
        (NvmeStatus.LBA_OUT_OF_RANGE, 0, 0x80),
        (NvmeStatus.INVALID_QUEUE_SIZE, 1, 0x02),
        (NvmeStatus.WRITE_FAULT, 2, 0x80),
        (NvmeStatus.UNRECOVERED_READ_ERROR, 2, 0x81),
    ],
)
def test_an_nvme_status_is_its_code_type_and_code(status: NvmeStatus, code_type: int, code: int) -> None:
    assert divmod(status.value, 256) == (code_type, code)


@pytest.mark.parametrize(
    ("error", "family"),
    [
        (UsageError(""), UsageError),
        (ResourceError(""), ResourceError),
        (ProtocolError(""), ProtocolError),
        (NvmeCommandError(NvmeStatus.INVALID_FIELD, ""), ProtocolError),
        (NicemuError(""), NicemuError),
        (ValueError(""), NicemuError),
    ],
)
def test_the_family_of_an_error_goes_through_an_answer_by_its_name(
    error: Exception, family: type[NicemuError]
) -> None:
    assert family_of(family_name(error)) is family


@pytest.mark.parametrize("name", ["NvmeCommandError", "", None, 3])
def test_a_name_of_no_family_is_any_error_of_nicemu(name: object) -> None:
    assert family_of(name) is NicemuError
