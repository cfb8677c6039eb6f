# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.study import Settings, read_settings, settings_data, settings_with
from nicemu.study.contract.settings import choice, flag, number, several, text, whole, whole_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Some(Settings):
    blocks: int = whole(4, 1, 64)
    rate: float = number(0.5, 0, 1)
    policy: str = choice("lru", "lru", "lfu")
    server: str = text("a100_llama2_7b")
    strict: bool = flag(False)
    sizes: tuple[int, ...] = several((1, 2), whole_from(1, 100))

    def __post_init__(self) -> None:
        if self.blocks > 32 and self.strict:
            raise UsageError("blocks is more than 32, which strict forbids")


def test_a_file_says_some_settings_and_fields_of_profiles(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("blocks = 8\nsizes = [3, 4]\n[set.link]\ns_per_byte = 2e-11\n")
    found = read_settings(Some(), path)
    assert (found.blocks, found.sizes, found.policy) == (8, (3, 4), "lru")
    assert found.values == {"link.s_per_byte": 2e-11}
    assert settings_data(found)["sizes"] == [3, 4]


def test_options_stand_over_a_file() -> None:
    found = settings_with(Some(blocks=8), {"blocks": 16, "sizes": 7, "model.layers": 80})
    assert (found.blocks, found.sizes, found.values) == (16, (7,), {"model.layers": 80})


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("block = 8", r"there is no setting block; did you mean blocks\?"),
        ("zzz = 8", r"there is no setting zzz; there are blocks, rate"),
        ("blocks = 0", r"blocks is 0; it is a whole number from 1 to 64"),
        ("blocks = true", r"blocks is True"),
        ("rate = nan", r"rate is nan; it is a finite number"),
        ("rate = -1", r"rate is -1"),
        ("rate = 2", r"rate is 2; it is 1 at most"),
        ('policy = "mru"', r"policy is 'mru'; one of lru, lfu was expected"),
        ("server = 3", r"server is 3; a text was expected"),
        ("strict = 1", r"strict is 1; pass True or False"),
        ("sizes = []", r"sizes is empty"),
        ("sizes = [1, 0]", r"sizes\[1\] is 0"),
        ("sizes = [1, 2, 1]", r"sizes has 1 twice; each may be there once"),
        ("values = {}", r"there is no setting values"),
        ("set = 3", r"set is 3; tables of fields were expected"),
        ("[set]\nlink = 3", r"set\.link is 3; a table of fields was expected"),
        ("blocks = 33\nstrict = true", r"blocks is more than 32, which strict forbids"),
    ],
)
def test_what_is_wrong_is_told_with_its_file(tmp_path: Path, said: str, told: str) -> None:
    path = tmp_path / "some.toml"
    path.write_text(said)
    with pytest.raises(UsageError, match=rf"some\.toml: {told}"):
        read_settings(Some(), path)
