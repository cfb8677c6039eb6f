# SPDX-License-Identifier: Apache-2.0
"""What holds nicemu, other libraries that trigger work, and the programs above them, to the specifications.

Four things, shipped so that they run where nicemu is installed. The conformance suite, `nicemu conformance`:
rules and their sources are in docs/triggers.md; a case is tried on a bench, a target that runs programs of
deferred work, with a peer. The race check (docs/races.md). The pytest plugin with its fixtures and the
explorer of orders (`nicemu explore`, docs/testing.md). Peers for rping and perftest (`nicemu wire serve`,
docs/wire.md).

Each name is imported when it is first used: pytest loads the plugin in projects that never use it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conformance import (
        BENCHES,
        CASE_COUNT,
        CASES,
        ELSEWHERE,
        OURS,
        RULES,
        Absent,
        Bench,
        Case,
        Result,
        Verdict,
        deviations,
        try_case,
    )
    from .explorer import Exploration, Failure, explore
    from .peers import (
        PERFTEST_PORT,
        PERFTEST_PROGRAMS,
        RPING_PORT,
        PeerServer,
        PerftestClient,
        PerftestServer,
        RpingClient,
        RpingServer,
    )
    from .races import Located, Race, RaceKind, RaceReport, check_races, read_logs
    from .worlds import PeerMemory, VirtualTime, World

__all__ = [
    "BENCHES",
    "CASES",
    "CASE_COUNT",
    "ELSEWHERE",
    "OURS",
    "PERFTEST_PORT",
    "PERFTEST_PROGRAMS",
    "RPING_PORT",
    "RULES",
    "Absent",
    "Bench",
    "Case",
    "Exploration",
    "Failure",
    "Located",
    "PeerMemory",
    "PeerServer",
    "PerftestClient",
    "PerftestServer",
    "Race",
    "RaceKind",
    "RaceReport",
    "Result",
    "RpingClient",
    "RpingServer",
    "Verdict",
    "VirtualTime",
    "World",
    "check_races",
    "deviations",
    "explore",
    "read_logs",
    "try_case",
]

_PLACES = {
    "explorer": ("Exploration", "Failure", "explore"),
    "peers": (
        "PERFTEST_PORT",
        "PERFTEST_PROGRAMS",
        "RPING_PORT",
        "PeerServer",
        "PerftestClient",
        "PerftestServer",
        "RpingClient",
        "RpingServer",
    ),
    "races": ("Located", "Race", "RaceKind", "RaceReport", "check_races", "read_logs"),
    "worlds": ("PeerMemory", "VirtualTime", "World"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = next((place for place, names in _PLACES.items() if name in names), "conformance")
    globals()[name] = getattr(import_module(f".{place}", __name__), name)
    return globals()[name]
