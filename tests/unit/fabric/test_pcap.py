# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
from scapy.contrib.roce import BTH
from scapy.utils import rdpcap

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


def test_a_full_disk_is_named_and_the_inner_port_is_closed() -> None:
    inner, _ = loopback_pair()
    port = PcapPort(inner, Path("/dev/full"), VirtualClock())
    assert port.send([bytes(60)]) == 1
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        port.close()
    with pytest.raises(UsageError, match="closed"):
        inner.send([bytes(60)])
