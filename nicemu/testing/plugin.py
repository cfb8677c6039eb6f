# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: NICs as fixtures, their state where a test fails, and the explorer behind a marker.

pytest loads this file in every project where nicemu is installed, so it imports nothing of nicemu until a
test uses it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

from .told import EXPLORED, TOLD

if TYPE_CHECKING:
    from nicemu.host import Nic
    from nicemu.run import Stage, SteppedStream

    from .worlds import PeerMemory, VirtualTime, World

FIXTURES = frozenset({"nic", "nics", "peer", "virtual_time", "stream", "host_stream"})
STAGE: pytest.StashKey[Stage] = pytest.StashKey()
ON_STAGE: pytest.StashKey[Callable[[Stage], AbstractContextManager[object]]] = pytest.StashKey()

_MARKERS = (
    "nicemu(limits='unlimited', compiled=False, transport='direct', peer_bytes=65536): what the NICs of the "
    "nicemu fixtures are",
    "explore(schedules=200, depth=None, seed=1, replay=''): run the test under many orders of what can "
    "happen, or under the one that `replay` says",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options behind `nicemu explore`."""
    group = parser.getgroup("nicemu", "SmartNIC emulator")
    group.addoption("--nicemu-explore", action="store_true", help="run every test under many schedules")
    group.addoption("--nicemu-schedules", type=int, metavar="N", help="how many schedules at most")
    group.addoption("--nicemu-depth", type=int, metavar="N", help="choice points that are varied in order")
    group.addoption("--nicemu-seed", type=int, metavar="N", help="first seed of the schedules that are drawn")
    group.addoption("--nicemu-replay", metavar="CHOICES", help="run the one schedule that a failure named")


def pytest_configure(config: pytest.Config) -> None:
    """Say what the markers mean."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[EXPLORED] = []
    replay = config.getoption("--nicemu-replay")
    if replay and not all(part.isascii() and part.isdigit() for part in replay.split(".")):
        raise pytest.UsageError(f"--nicemu-replay takes numbers with dots between them, not {replay!r}")


_EXPLORE: dict[str, Callable[[object], bool]] = {
    "schedules": lambda value: isinstance(value, int) and value > 0,
    "depth": lambda value: value is None or (isinstance(value, int) and value > 0),
    "seed": lambda value: isinstance(value, int),
    "replay": lambda value: isinstance(value, str),
}
_WORLD = ("limits", "compiled", "transport", "peer_bytes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse markers that nobody can follow, before anything runs."""
    for item in items:
        for marker in item.iter_markers("explore"):
            wrong = [name for name, value in marker.kwargs.items() if not _EXPLORE.get(name, _never)(value)]
            if wrong or marker.args:
                given = f"{wrong[0]}={marker.kwargs[wrong[0]]!r}" if wrong else repr(marker.args[0])
                known = ", ".join(_EXPLORE)
                raise pytest.UsageError(f"{item.nodeid}: explore({given}): the marker takes {known}")
        for marker in item.iter_markers("nicemu"):
            unknown = [name for name in marker.kwargs if name not in _WORLD]
            if unknown or marker.args:
                given = unknown[0] if unknown else repr(marker.args[0])
                raise pytest.UsageError(
                    f"{item.nodeid}: nicemu({given}): the marker takes {', '.join(_WORLD)}"
                )


def _never(value: object) -> bool:
    return False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test that is to be explored under its schedules."""
    if item.get_closest_marker("explore") is None and not (
        item.config.getoption("--nicemu-explore") or item.config.getoption("--nicemu-replay")
    ):
        return None
    from .exploring import run_explored

    return run_explored(item, nextitem)


def _is_used(item: pytest.Item) -> bool:
    names = FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return bool(names) or "nicemu.run" in sys.modules


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Put simulations that fixtures make on the test's stage."""
    if not _is_used(item):
        return (yield)
    try:
        from nicemu.run import Stage, on_stage
    except ImportError:  # the test's own stand-in for that module
        return (yield)
    item.stash[STAGE], item.stash[ON_STAGE] = Stage(), on_stage
    with on_stage(item.stash[STAGE]):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Put simulations that the test makes on its stage."""
    stage = item.stash.get(STAGE, None)
    if stage is None:
        return (yield)
    from .exploring import schedule_of

    with item.stash[ON_STAGE](stage):
        stage.step_by(schedule_of(item))
        return (yield)  # the report, which comes next, ends the schedule


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Let go of the test's NICs: pytest keeps its items, and NICs have descriptors."""
    try:
        return (yield)
    finally:
        if STAGE in item.stash:
            del item.stash[STAGE]
            del item.stash[ON_STAGE]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the NICs of a test that failed, and the schedule."""
    report = yield
    if report.failed and call.when == "call":
        stage = item.stash.get(STAGE, None)
        if stage is not None and stage.simulations:
            from .state import state_of

            report.sections.append(("nicemu", state_of(stage.simulations)))
        if item.stash.get(TOLD, ""):
            report.sections.append(("nicemu explore", item.stash[TOLD]))
    if call.when == "call" and item.stash.get(STAGE, None) is not None:
        item.stash[STAGE].step_by(None)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:  # noqa: ANN401 - pytest does not name its type
    """Say how many schedules were run."""
    lines = terminalreporter.config.stash[EXPLORED]
    if lines:
        terminalreporter.section("nicemu explore")
        for line in lines:
            terminalreporter.write_line(line)


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker("nicemu")
    return {} if marker is None else dict(marker.kwargs)


@pytest.fixture
def nics(request: pytest.FixtureRequest) -> Iterator[Callable[..., World]]:
    """Make worlds: `nics("compute0", "storage0", limits="cassini")`."""
    from .worlds import World

    worlds: list[World] = []

    def make(*names: str, **settings: Any) -> World:  # noqa: ANN401
        worlds.append(World(*names, **{**_settings(request), **settings}))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def _nicemu_world(nics: Callable[..., World]) -> World:
    return nics("compute0", "peer0")


@pytest.fixture
def nic(_nicemu_world: World) -> Nic:
    """A host at a stepped NIC with one peer."""
    return _nicemu_world["compute0"]


@pytest.fixture
def peer(_nicemu_world: World) -> PeerMemory:
    """The peer that `nic` is connected to."""
    return _nicemu_world.peer()


@pytest.fixture
def stream(_nicemu_world: World) -> SteppedStream:
    """A stream that rings `nic` in virtual time."""
    return _nicemu_world.stream()


@pytest.fixture
def host_stream(_nicemu_world: World) -> SteppedStream:
    """Another stream, in no order with `stream`."""
    return _nicemu_world.stream()


@pytest.fixture
def virtual_time(request: pytest.FixtureRequest) -> VirtualTime:
    """The clock of all NICs of the test."""
    from .worlds import VirtualTime

    return VirtualTime(request.node.stash[STAGE].simulations)
