# SPDX-License-Identifier: Apache-2.0
"""Names as people write them: whole, or as much of their end as tells them from others."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from nicemu.errors import ControlError, P4RuntimeCode


def full_name(wanted: str, names: Iterable[str], subject: str) -> str:
    """Return the full name that `wanted` stands for: itself, or the one that ends in it at a dot.

    Raises: ControlError, NOT_FOUND or, where several end in it, INVALID_ARGUMENT; `subject` names the kind.
    """
    known = list(names)
    if wanted in known:
        return wanted
    found = [name for name in known if name.endswith("." + wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ControlError(
            P4RuntimeCode.INVALID_ARGUMENT,
            f"{subject} {wanted} is ambiguous: {', '.join(found)}; give the full name",
        )
    near = difflib.get_close_matches(wanted, [*known, *(name.rsplit(".", 1)[-1] for name in known)], 1)
    hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(known) or 'none'}"
    raise ControlError(P4RuntimeCode.NOT_FOUND, f"{subject} {wanted} is unknown; {hint}")


def key_name(word: str) -> str:
    """Return the control plane's name of a key that is written as in the program, as h.isValid() is."""
    return f"{word.removesuffix('isValid()')}$valid$" if word.endswith(".isValid()") else word
