# SPDX-License-Identifier: Apache-2.0
"""The agent of a guest, as a process here, and guests: what runs in them, and that nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu.cli import main
from nicemu.errors import ResourceError
from nicemu.fabric import SHARE, Guest, GuestLink, GuestTimeoutError, missing_packages
from nicemu.fabric.guest import agent as guest_agent
from nicemu.fabric.guest.channel import Channel, GuestProcess

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0
_SERVE = "import runpy, sys; runpy.run_path(sys.argv[1])['Agent'](int(sys.argv[2])).serve()"
LACKING = ", ".join(package.name for package in missing_packages() if package.boots)
NEEDS_GUEST = pytest.mark.skipif(bool(LACKING), reason=f"no guest without {LACKING}: nicemu vm packages")


# The agent


@pytest.fixture
def channel() -> Iterator[Channel]:
    """A channel to an agent that runs on this machine."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-I", "-S", "-c", _SERVE, guest_agent.__file__, str(theirs.fileno())]
        agent = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        channel = Channel(ours, time.monotonic() + LIMIT_S, lambda: "these were its last words")
        channel.wait_until(lambda: channel.release is not None, None, "the agent")
        yield channel
        ours.close()
        assert agent.wait(LIMIT_S) == 0, "the agent ends when the host's end is closed"


def start(channel: Channel, script: str, **variables: str) -> GuestProcess:
    """Start a script of bash's."""
    return channel.start(["bash", "-c", script], {"PATH": os.environ["PATH"], **variables}, Path("/"), None)


def test_status_and_outputs_come_back(channel: Channel) -> None:
    assert channel.release == os.uname().release
    done = start(channel, "echo out $WORD; echo err >&2; pwd; exit 7", WORD="two words").wait()
    assert (done.status, done.output, done.errors) == (7, "out two words\n/\n", "err\n")
    with pytest.raises(ResourceError, match="ended with 7: err"):
        done.checked()


def test_all_that_was_said_comes_before_the_end(channel: Channel) -> None:
    taken = bytearray()
    process = channel.start(
        ["head", "-c", "3000000", "/dev/zero"], {}, Path("/"), lambda stream, data: taken.extend(data)
    )
    assert len(process.wait().output) == len(taken) == 3_000_000


def test_what_cannot_be_started_ends_with_127(channel: Channel) -> None:
    done = channel.start(["/missing/program"], {}, Path("/"), None).wait()
    assert (done.status, done.errors) == (127, "/missing/program: No such file or directory\n")
    done = channel.start(["true"], {}, Path("/missing"), None).wait()
    assert (done.status, done.errors) == (127, "/missing: No such file or directory\n")


def test_a_process_is_spoken_with_while_another_runs(channel: Channel) -> None:
    sleeper = start(channel, "sleep 1000")
    process = start(channel, "echo ready; read line; echo got $line; cat; echo end")
    process.expect("^ready$")
    process.send("one\n")
    assert process.expect(r"got (\w+)")[1] == "one"
    process.end_input()
    assert process.wait().output == "ready\ngot one\nend\n"
    assert sleeper.status is None
    sleeper.signal()
    assert sleeper.wait().status == 128 + signal.SIGTERM


def test_what_is_never_said_is_not_waited_for_forever(channel: Channel) -> None:
    process = start(channel, "echo this; exec sleep 1000")
    with pytest.raises(GuestTimeoutError, match="'that' in the output of a process of the guest"):
        process.expect("that", timeout_s=0.2)
    with pytest.raises(GuestTimeoutError, match="the end of a process"):
        process.wait(0.1)
    channel.wait_until(lambda: process.status is not None, None, "its end")
    assert process.status == 128 + signal.SIGKILL
    with pytest.raises(ResourceError, match="ended with 137, no 'that': this"):
        process.expect("that")


def test_a_pipe_that_nobody_reads_ends_what_writes(channel: Channel) -> None:
    assert start(channel, "yes | head -1; echo ${PIPESTATUS[0]}").wait().output == "y\n141\n"


def test_a_process_that_outlives_its_command_holds_nothing_up(channel: Channel) -> None:
    done = start(channel, "sleep 100 & echo $!").wait()
    left = int(done.output)
    try:
        assert is_alive(left), "its end was waited for"
    finally:
        os.kill(left, signal.SIGKILL)
    assert done.status == 0


# A guest


@NEEDS_GUEST
@pytest.mark.slow
def test_a_guest_runs_commands_and_writes_to_the_share_alone(tmp_path: Path) -> None:
    (tmp_path / "question").write_text("what is it?")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    said: list[str] = []
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    with ours, theirs:
        link = GuestLink(theirs, "10.7.0.2/24", peer="10.7.0.1")
        with Guest(share=tmp_path, links=[link], rxe=False, say=said.append, time_limit_s=180) as guest:
            assert "guest is up" in said[0]
            done = guest.run(f"cat {SHARE}/question; echo 42 > {SHARE}/answer; touch {outside}; pwd; exit 7")
            assert (done.status, done.output) == (7, f"what is it?{Path.cwd()}\n")
            assert (tmp_path / "answer").read_text() == "42\n"
            assert not outside.exists()
            assert guest.run(["python", "-c", "import sys; print(sys.prefix)"]).output == f"{sys.prefix}\n"
            ours.settimeout(LIMIT_S)
            guest.start("echo -n to the host > /dev/udp/10.7.0.1/4791")
            guest.run(["true"])
            while b"to the host" not in (frame := ours.recv(1 << 16)):
                pass
            assert frame[:12].hex() == "02000a07000102000a070002"
            with pytest.raises(GuestTimeoutError):
                guest.run(["sleep", "1000"], timeout_s=0.5)
            assert guest.run(["true"]).status == 0
            with pytest.raises(ResourceError, match="ended by itself"):
                guest.run(["/run/nicemu/busybox", "poweroff", "-f"])
    assert children_of(os.getpid(), "qemu-system", "virtiofsd") == set()


@NEEDS_GUEST
@pytest.mark.slow
def test_a_command_s_status_is_that_of_vm_run_also_with_the_root_by_9p(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nicemu.fabric.guest.guest.virtiofsd", lambda: None)
    words = [
        "vm",
        "run",
        "--no-rxe",
        "--env",
        "WORD=loud",
        "--",
        "sh",
        "-c",
        "echo $WORD; echo oh >&2; exit 9",
    ]
    result = CliRunner().invoke(main, words)
    assert (result.exit_code, result.stdout) == (9, "loud\n")
    assert "root by 9p" in result.stderr
    assert result.stderr.endswith("oh\n")


@NEEDS_GUEST
@pytest.mark.slow
def test_the_end_of_its_time_is_that_of_a_guest() -> None:
    with vm("--no-rxe", "--time-limit", "0.5", "--", "true") as late:
        assert b"time limit" in late.communicate(timeout=LIMIT_S)[1]
        assert late.returncode == 124


@NEEDS_GUEST
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_host_that_is_told_to_end_ends_its_guest_first(number: signal.Signals) -> None:
    with vm("--no-rxe", "--", "true") as ended:
        guests = wait_for_guest(ended.pid)
        ended.send_signal(number)
        ended.communicate(timeout=LIMIT_S)
        assert ended.returncode not in (0, -number), "it ends by itself, not by the signal"
        assert not [pid for pid in guests if is_alive(pid)]


@NEEDS_GUEST
@pytest.mark.slow
def test_a_guest_whose_host_is_killed_turns_itself_off() -> None:
    with vm("--no-rxe", "--", "sh", "-c", "echo up; sleep 1000") as killed:
        guests = wait_for_guest(killed.pid)
        assert killed.stdout is not None
        assert killed.stdout.read(3) == b"up\n"
        killed.kill()
        killed.communicate(timeout=LIMIT_S)
        end = time.monotonic() + LIMIT_S
        while any(is_alive(pid) for pid in guests):
            assert time.monotonic() < end, "the guest runs on"
            time.sleep(0.05)


def vm(*arguments: str) -> subprocess.Popen[bytes]:
    """Start `nicemu vm run`."""
    return subprocess.Popen(
        [sys.executable, "-m", "nicemu", "vm", "run", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def children_of(pid: int, *names: str) -> set[int]:
    """Return the children of a process whose programs have one of the names in their names."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            text, line = status.read_text(), status.with_name("cmdline").read_bytes().decode()
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == pid and any(name in line for name in names):
            found.add(int(status.parent.name))
    return found


def wait_for_guest(pid: int) -> set[int]:
    """Wait until a process has a QEMU; return it, and the server of its root."""
    end = time.monotonic() + LIMIT_S
    while not children_of(pid, "qemu-system"):
        assert time.monotonic() < end, "no guest was started"
        time.sleep(0.01)
    return children_of(pid, "qemu-system", "virtiofsd")


def is_alive(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
