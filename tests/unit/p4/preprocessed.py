# SPDX-License-Identifier: Apache-2.0
"""What the preprocessor makes of a text."""

from __future__ import annotations

from pathlib import Path

from nicemu.p4.diagnostics import Reporter
from nicemu.p4.preprocess import Preprocessor


def expand(text: str, *include_paths: Path, folder: Path | None = None) -> tuple[list[str], list[str]]:
    """Return the texts of the tokens, and the messages."""
    reporter = Reporter()
    tokens = Preprocessor(reporter, include_paths).preprocess(text, "t.p4", folder)
    assert tokens[-1].kind == "end"
    return [token.text for token in tokens[:-1]], [item.render() for item in reporter.diagnostics]
