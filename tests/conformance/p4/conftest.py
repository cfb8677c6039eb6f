# SPDX-License-Identifier: Apache-2.0
"""Golden files: what the compiler makes of a program, kept beside it; `pytest tests/conformance/p4
--update-golden`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --update-golden."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        default=False,
        help="write the golden files anew; then look at the diff",
    )


@pytest.fixture
def matches_golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares text with a golden file, or writes the file under --update-golden."""
    update = request.config.getoption("--update-golden", default=False)

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.write_text(text)
        assert path.is_file(), f"no golden file {path.name}; make it with --update-golden"
        assert text == path.read_text(), f"{path.name} differs; if that is meant, use --update-golden"

    return compare
