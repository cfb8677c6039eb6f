# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from nicemu.abi import Access
from nicemu.arguments import check_flag, check_number, check_type, check_whole, read_toml
from nicemu.errors import UsageError


@pytest.mark.parametrize("value", [0, 7, np.uint8(7), np.int64(3), Access.REMOTE_READ])
def test_a_whole_number_in_range_is_returned_as_an_int(value: int) -> None:
    found = check_whole("it", value, 0, 7)
    assert found == value
    assert type(found) is int


@pytest.mark.parametrize("value", [-1, 8, 1.0, "1", None, True, np.float64(1)])
def test_what_is_no_whole_number_in_range_is_refused_with_what_is_allowed(value: object) -> None:
    with pytest.raises(UsageError, match=r"it is .*; it is a whole number from 0 to 7$"):
        check_whole("it", value, 0, 7)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2)])
def test_a_number_is_returned_as_a_float(value: float) -> None:
    assert check_number("it", value, 0.5) == value


@pytest.mark.parametrize("value", [0.4, float("nan"), float("inf"), 10**400, "1", None, True, 1j])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"it is .*; it is a finite number, 0.5 at least$"):
        check_number("it", value, 0.5)


def test_a_number_may_have_to_be_more() -> None:
    with pytest.raises(UsageError, match=r"it is 0; it is a finite number, more than 0$"):
        check_number("it", 0, 0, more_than=True)


def test_a_flag_is_true_or_false_and_nothing_that_passes_for_it() -> None:
    check_flag("it", False)
    for value in (0, 1, "no", None, np.True_):
        with pytest.raises(UsageError, match="pass True or False"):
            check_flag("it", value)


def test_a_type_is_asked_for_in_words() -> None:
    check_type("it", 3, (int, str), "a number or its name")
    with pytest.raises(UsageError, match="it is None; pass a number or its name"):
        check_type("it", None, (int, str), "a number or its name")


def test_a_toml_file_is_read_or_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("[a]\nb = 1\n")
    assert read_toml(path) == {"a": {"b": 1}}
    path.write_bytes(b"\xef\xbb\xbf[a]\r\nb = 1\r\n")  # as some editors begin a file
    assert read_toml(path) == {"a": {"b": 1}}
    for data, told in (
        (b"[a", r"some\.toml: "),
        (b"a = '\xff'", r"some\.toml: "),
        (b"a = " + b"9" * 5000, r"some\.toml: Exceeds the limit"),
        (b"a = " + b"[" * 5000, r"some\.toml: arrays or tables lie in one another too deep"),
    ):
        path.write_bytes(data)
        with pytest.raises(UsageError, match=told):
            read_toml(path)
    with pytest.raises(UsageError, match=r"nowhere\.toml cannot be read: No such file"):
        read_toml(tmp_path / "nowhere.toml")
