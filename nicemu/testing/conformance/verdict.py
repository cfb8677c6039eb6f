# SPDX-License-Identifier: Apache-2.0
"""Trying a case on a bench, and what comes of it."""

from __future__ import annotations

import enum
from contextlib import ExitStack
from dataclasses import dataclass

from nicemu.abi import Unsupported

from .backends import BENCHES, deviations
from .bench import Absent
from .case import Case


class Verdict(enum.Enum):
    """What came of a case on a bench."""

    HOLDS = "holds"
    DEVIATES = "deviates"
    """It does not hold, as is known of this bench."""
    FAILS = "fails"
    WRONGLY_EXPECTED = "holds, and was not expected to"
    NOT_TRIED = "not tried"
    ABSENT = "absent"

    @property
    def is_fault(self) -> bool:
        """Whether something has to be put right: the bench, or what is said of it."""
        return self in (Verdict.FAILS, Verdict.WRONGLY_EXPECTED)


@dataclass(frozen=True, slots=True)
class Result:
    """A case on a bench. `reason`: why it did not hold, or was not tried."""

    case: Case
    bench: str
    verdict: Verdict
    reason: str = ""


def try_case(case: Case, name: str) -> Result:
    """Try a case on the bench of that name.

    Limits that a bench cannot have are no deviation: the case is not tried. Whatever else a case raises is
    one, also an error of another kind: a bench must not fall over.
    """
    with ExitStack() as stack:
        try:
            bench = stack.enter_context(BENCHES[name](case.limits))
        except Absent as error:
            return Result(case, name, Verdict.ABSENT, str(error))
        except Unsupported as error:
            return Result(case, name, Verdict.NOT_TRIED, str(error))
        if case.inside and bench.inside is None:
            return Result(case, name, Verdict.NOT_TRIED, "only a NIC of ours can be looked into")
        known = deviations(name).get(case.name)
        try:
            case.function(bench)
        except Exception as error:
            if known is not None:
                return Result(case, name, Verdict.DEVIATES, known)
            return Result(case, name, Verdict.FAILS, f"{type(error).__name__}: {error}")
    verdict = Verdict.HOLDS if known is None else Verdict.WRONGLY_EXPECTED
    return Result(case, name, verdict, known or "")
