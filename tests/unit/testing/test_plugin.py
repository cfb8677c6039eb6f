# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin, as somebody else's project has it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.testing.inner_pytest import INSTALLED, run_inner

pytest_plugins = ["pytester"]

PLUGIN = () if INSTALLED else ("-p", "nicemu.testing.plugin")

TEN_LINES = """
def test_a_write_lands_behind_the_stream(nic, peer, stream):
    ready, done = nic.counters("ready", "done")
    memory = nic.allocate((8,))
    with nic.program("one write") as program:
        program.when(ready >= 1).write(nic.register(memory), peer.span[0:8], then=done)
    program.arm()
    memory.array[:] = 7
    ready.trigger_after(stream)
    done.wait(1)
    assert peer.bytes[:8] == bytes([7] * 8)
"""
FLAG = """
import pytest

@pytest.mark.explore(schedules=50)
def test_a_flag_comes_after_its_data(nic, peer, stream, virtual_time):
    (ready,) = nic.counters("ready")
    memory = nic.allocate((16,))
    memory.array[:] = 1
    local, flag = nic.register(memory), peer.another_queue_pair().span
    with nic.program("publish") as program:
        program.when(ready >= 1).write(local[0:8], peer.span[0:8])
        program.when(ready >= 1).write(local[8:16], flag[8:16])
    program.arm()
    ready.trigger_after(stream)
    assert virtual_time.run_until(lambda: peer.array[8] == 1)
    assert peer.bytes[:8] == bytes([1] * 8)
"""
CHOICES = "0.1.1"


def test_ten_lines_test_the_trigger_logic_of_another_project(pytester: pytest.Pytester) -> None:
    assert len(TEN_LINES.strip().splitlines()) == 10
    run_inner(pytester, TEN_LINES).assert_outcomes(passed=1)


def test_a_failure_shows_counters_and_what_is_armed(pytester: pytest.Pytester) -> None:
    result = run_inner(
        pytester, TEN_LINES.replace("ready >= 1", "ready >= 2").replace("done.wait(1)", "assert 0")
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- nicemu -*",
            "compute0, * ns:",
            "  counter ready (*): 0 successes, 0 errors, 1 armed, 0 in flight",
            "  waits: RDMA_WRITE when ready >= 2 on queue pair 1 then done",
            "peer0, * ns:",
        ]
    )


def test_a_passing_test_shows_nothing(pytester: pytest.Pytester) -> None:
    run_inner(pytester, TEN_LINES).stdout.no_fnmatch_line("*compute0*")


def test_the_explorer_finds_a_flag_that_overtakes_its_data(pytester: pytest.Pytester) -> None:
    result = run_inner(pytester, FLAG)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- nicemu explore -*",
            "failed after * schedules",
            f"choices: {CHOICES} *",
            f"again: nicemu explore 'test_mine.py::test_a_flag_comes_after_its_data' --replay {CHOICES}",
            "*  6 [*] compute0: RDMA_WRITE on queue pair 2 (ready >= 1) takes effect",
            "*  7 [*] the host's wait is over: it goes on",
        ]
    )


def test_a_schedule_is_replayed_by_option_marker_and_variable(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_inner(pytester, FLAG, f"--nicemu-replay={CHOICES}").assert_outcomes(failed=1)
    run_inner(pytester, FLAG, "--nicemu-replay=0").assert_outcomes(passed=1)
    run_inner(pytester, FLAG.replace("schedules=50", f"replay='{CHOICES}'")).assert_outcomes(failed=1)
    monkeypatch.setenv("NICEMU_REPLAY", "0")
    run_inner(pytester, FLAG).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        ("explore(scedules=50)", "explore(scedules=50): the marker takes schedules, depth, seed, replay"),
        ("explore(schedules=-3)", "explore(schedules=-3): the marker takes"),
        ("explore(seed='x')", "explore(seed='x'): the marker takes"),
        ("nicemu(limit='cassini')", "nicemu(limit): the marker takes limits, compiled, transport"),
    ],
)
def test_a_marker_with_a_slip_is_refused_before_anything_runs(
    pytester: pytest.Pytester, marker: str, sentence: str
) -> None:
    result = run_inner(pytester, f"import pytest\n@pytest.mark.{marker}\ndef test_it(nic):\n    pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert sentence in str(result.stdout) + str(result.stderr)


def test_a_replay_that_does_not_fit_the_test_says_so(pytester: pytest.Pytester) -> None:
    result = run_inner(pytester, TEN_LINES, "--nicemu-replay", "0.7.9")
    result.stdout.fnmatch_lines(["*0.7.9 has no such choices (any more): what was run is another order"])


def test_what_was_explored_is_summed_up(pytester: pytest.Pytester) -> None:
    mended = FLAG.replace(
        "(ready >= 1).write(local[8:16], flag[", "(ready >= 1).write(local[8:16], peer.span["
    )
    result = run_inner(pytester, mended)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["test_mine.py::test_a_flag_comes_after_its_data: * every order that matters"]
    )


def test_every_schedule_has_fixtures_of_its_own_and_modules_keep_theirs(pytester: pytest.Pytester) -> None:
    text = """
        import pytest

        @pytest.fixture(scope="module")
        def made():
            list_of = []
            yield list_of
            print("runs", len(list_of), "left", sum(list_of))

        @pytest.fixture
        def one(made):
            made.append(1)
            yield
            made[-1] = 0

        @pytest.mark.explore
        def test_it(nic, peer, stream, host_stream, one, virtual_time):
            (a,) = nic.counters("a")
            memory = nic.allocate((8,))
            for each in (stream, host_stream):
                each.submit(lambda: memory.array.fill(1))
            virtual_time.run_until_idle()
    """
    result = run_inner(pytester, text, "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*runs 3 left 0"])  # two orders, and the run that is reported


def test_a_test_that_is_skipped_is_not_explored(pytester: pytest.Pytester) -> None:
    text = "import pytest\n@pytest.mark.explore\ndef test_it(nic):\n    pytest.skip('not here')\n"
    run_inner(pytester, text).assert_outcomes(skipped=1)


def test_an_error_of_a_fixture_is_reported_as_one(pytester: pytest.Pytester) -> None:
    text = """
        import pytest
        @pytest.fixture
        def broken():
            raise ValueError
        @pytest.mark.explore
        def test_it(broken):
            pass
    """
    run_inner(pytester, text).assert_outcomes(errors=1)


def test_a_marker_says_what_the_nics_are(pytester: pytest.Pytester) -> None:
    text = """
        import pytest

        @pytest.mark.nicemu(limits="cassini", peer_bytes=4096)
        def test_it(nic, peer, nics):
            assert nic.limits.profile == "cassini"
            assert len(peer.bytes) == 4096
            other = nics("a", "b", limits="portals")
            assert other["a"].limits.profile == "portals"
    """
    run_inner(pytester, text).assert_outcomes(passed=1)


def test_a_peer_is_written_read_changed_atomically_and_receives(pytester: pytest.Pytester) -> None:
    text = """
        from nicemu.abi import AtomicOperation

        def test_it(nic, peer, virtual_time):
            go, done = nic.counters("go", "done")
            memory = nic.allocate((8,))
            local = nic.register(memory)
            peer.words()[1] = 40
            peer.array[16:24] = 9
            peer.post_receive(24, 32, wr_id=5)
            with nic.program("all") as program:
                program.when(go >= 1).atomic(AtomicOperation.SUM, peer.span[8:16], 2, then=done)
                program.when(go >= 1).read(local, peer.span[16:24], then=done)
                program.when(done >= 2).send(local, peer.qp_num, then=done)
            program.arm()
            go.add()
            done.wait(3)
            virtual_time.run_until_idle()
            assert peer.words()[1] == 42
            assert memory.array.tolist() == [9] * 8
            assert peer.bytes[24:32] == bytes([9] * 8)
            assert [arrival.wr_id for arrival in peer.arrivals] == [5]
    """
    run_inner(pytester, text).assert_outcomes(passed=1)


def test_virtual_time_stands_still_until_it_is_moved(pytester: pytest.Pytester) -> None:
    text = """
        def test_it(nics, virtual_time):
            world = nics("compute0", "storage0")
            assert virtual_time.now_ns == 0
            virtual_time.advance(1_000)
            assert virtual_time.now_ns == 1_000
            assert world.simulation.clock.now_ns() == 1_000
            assert not virtual_time.run_until(lambda: False, 500)
            assert virtual_time.now_ns == 1_500
    """
    run_inner(pytester, text).assert_outcomes(passed=1)


def test_a_world_of_one_nic_is_refused(pytester: pytest.Pytester) -> None:
    text = """
        import pytest
        from nicemu.errors import UsageError

        def test_it(nics):
            with pytest.raises(UsageError, match="two NICs"):
                nics("alone")
    """
    run_inner(pytester, text).assert_outcomes(passed=1)


def test_simulations_that_a_test_makes_itself_are_explored_too(pytester: pytest.Pytester) -> None:
    text = """
        import pytest
        from nicemu.nic import NicConfig
        from nicemu.run import Simulation

        @pytest.mark.explore
        def test_it():
            simulation = Simulation([NicConfig("a", "127.0.1.1", 1, 1 << 20)])
            order = []
            for name in "ab":
                simulation.stream().submit(lambda name=name: order.append(name))
            simulation.run_until_idle()
            assert order == ["a", "b"]
    """
    result = run_inner(pytester, text)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["failed after 2 schedules", "choices: 1 *"])


@pytest.mark.process
def test_in_a_project_that_does_not_use_it_the_plugin_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    heavy = {'numpy', 'numba', 'click', 'nicemu.nic', 'nicemu.run', 'nicemu.testing.worlds'}\n"
        "    assert not heavy & set(sys.modules)\n"
    )
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *PLUGIN,
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
