# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.fabric import SharedMemoryPort
from nicemu.pcie import PAGE_BYTES, Backing

Pair = tuple[SharedMemoryPort, SharedMemoryPort]


@pytest.fixture
def pair() -> Iterator[Pair]:
    a = SharedMemoryPort.create(1 << 15)
    b = SharedMemoryPort.attach(os.dup(a.memory_fd))
    yield a, b
    a.close()
    b.close()


@pytest.mark.parametrize("capacity", [0, 100, 1 << 14, (1 << 15) + 8])
def test_a_ring_is_a_power_of_two_of_32_kib_at_least(capacity: int) -> None:
    with pytest.raises(UsageError, match="power of two"):
        SharedMemoryPort.create(capacity)


def test_memory_that_holds_no_link_is_refused() -> None:
    backing = Backing.memfd("other", 3 * PAGE_BYTES)
    assert backing.fd is not None
    with pytest.raises(UsageError, match="holds no link"):
        SharedMemoryPort.attach(os.dup(backing.fd))
    backing.close()


def test_records_wrap_round_the_ring_for_ever(pair: Pair) -> None:
    a, b = pair
    for i in range(500):
        frame = bytes([i % 256]) * (14 + i * 131 % 9000)
        assert a.send([frame]) == 1
        assert b.receive() == [frame]
    assert not b.drops


def test_a_late_end_finds_what_was_sent_before_it_came() -> None:
    a = SharedMemoryPort.create()
    a.send([b"f" * 60])
    b = SharedMemoryPort.attach(os.dup(a.memory_fd))
    a.close()
    assert b.receive() == [b"f" * 60]
    b.close()


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=20),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 255)), max_size=40),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_hostile_writer_can_spoil_frames_but_never_the_reader(
    pair: Pair, control: list[tuple[int, int]], data: list[tuple[int, int]]
) -> None:
    a, b = pair
    a.send([b"f" * 60] * 3)
    memory = Backing.from_fd(os.dup(a.memory_fd), PAGE_BYTES + (1 << 16))
    for place, value in control:
        if place >= 64:
            memory.view[place] = value
    for place, value in data:
        memory.view[PAGE_BYTES + place] = value
    for port in (a, b):
        for _ in range(3):
            assert all(len(frame) <= 9216 for frame in port.receive())
        port.send([b"g" * 100])
    memory.close()


ECHO = """
import sys
from nicemu.fabric import SharedMemoryPort
port = SharedMemoryPort.attach(int(sys.argv[1]))
print("ready", flush=True)
while sys.stdin.readline() == "go\\n":
    while frames := port.receive():
        port.send([frame[::-1] for frame in frames])
    print("done", flush=True)
"""


@pytest.mark.process
def test_two_processes_exchange_frames() -> None:
    port = SharedMemoryPort.create()
    child_fd = os.dup(port.memory_fd)
    os.set_inheritable(child_fd, True)
    child = subprocess.Popen(
        [sys.executable, "-c", ECHO, str(child_fd)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[child_fd],
    )
    os.close(child_fd)
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for round_number in range(3):
            frames = [bytes([round_number, i]) * 300 for i in range(50)]
            assert port.send(frames) == 50
            child.stdin.write("go\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
            assert port.receive() == [frame[::-1] for frame in frames]
        child.stdin.close()
    assert child.returncode == 0
    port.close()
