# SPDX-License-Identifier: Apache-2.0
import resource
from pathlib import Path

import pytest
from scapy.contrib.roce import BTH
from scapy.utils import rdpcap

from nicemu.capture import read_capture
from nicemu.clock import VirtualClock
from nicemu.errors import UsageError
from nicemu.fabric import PcapPort, loopback_pair
from nicemu.wire import RcOpcode, RoceFramer, parse_ipv4

FRAMER = RoceFramer(b"\2" * 6, b"\4" * 6, parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2"))


def frame(psn: int) -> bytes:
    return FRAMER.frame(RcOpcode.SEND_ONLY, 1, psn, payload=[b"p" * psn])


def test_scapy_reads_back_what_was_sent_and_received_with_its_time(tmp_path: Path) -> None:
    inner, other = loopback_pair(2)
    clock = VirtualClock()
    path = tmp_path / "capture.pcap"
    port = PcapPort(inner, path, clock, epoch_ns=1_700_000_000_000_000_000)
    clock.advance_to(1_000_000_123)
    assert port.send([frame(1), frame(2), frame(3)]) == 2
    other.send([frame(4)])
    clock.advance_to(2_000_000_456)
    assert port.receive() == [frame(4)]
    port.close()
    packets = rdpcap(str(path))
    assert [bytes(packet) for packet in packets] == [frame(1), frame(2), frame(4)]
    assert [packet[BTH].psn for packet in packets] == [1, 2, 4]
    assert [int(packet.time * 10**9) for packet in packets] == [
        1_700_000_001_000_000_123,
        1_700_000_001_000_000_123,
        1_700_000_002_000_000_456,
    ]


def test_a_capture_without_frames_is_a_file_that_can_be_read(tmp_path: Path) -> None:
    port = PcapPort(loopback_pair()[0], tmp_path / "empty.pcap", VirtualClock())
    port.close()
    assert len(rdpcap(str(tmp_path / "empty.pcap"))) == 0
    assert (tmp_path / "empty.pcap").stat().st_size == 24


def test_a_full_disk_is_named_and_the_inner_port_is_closed(tmp_path: Path) -> None:
    inner, _ = loopback_pair()
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        PcapPort(inner, Path("/dev/full"), VirtualClock())
    path = tmp_path / "some.pcap"
    port = PcapPort(inner, path, VirtualClock())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*some\.pcap'"):
            port.send([bytes(60)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(read_capture(path)) == []
    port.close()
    with pytest.raises(UsageError, match="closed"):
        inner.send([bytes(60)])


def test_a_file_can_be_read_while_frames_pass(tmp_path: Path) -> None:
    inner, _ = loopback_pair()
    path = tmp_path / "some.pcap"
    port = PcapPort(inner, path, VirtualClock())
    assert list(read_capture(path)) == []
    port.send([bytes(60)])
    assert [frame.data for frame in read_capture(path)] == [bytes(60)]
    port.close()
