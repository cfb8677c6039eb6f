# SPDX-License-Identifier: Apache-2.0
"""What the commands of all studies of one shape share."""

from __future__ import annotations

from nicemu.cli.model import values_of
from nicemu.cli.studies import listed


def test_options_are_what_a_file_would_say() -> None:
    given = values_of(("a=2,4, 8", "b=true", "c=false,true", "d=0.5", "e=lru", "f=lru,3,truest"))
    assert listed(given) == {
        "a": [2, 4, 8],
        "b": True,
        "c": [False, True],
        "d": 0.5,
        "e": "lru",
        "f": ["lru", 3, "truest"],
    }
