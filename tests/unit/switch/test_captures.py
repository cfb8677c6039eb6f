# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from nicemu.capture import PcapWriter, read_capture
from nicemu.errors import NicemuError
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import CloneSession, Engine, Replica
from nicemu.switch import HOST, switch_captures

ENGINES = [Engine, pytest.param(CompiledEngine, marks=pytest.mark.skipif(not JIT, reason="NICEMU_JIT is 0"))]

S = 1_000_000_000


def written(path: Path, *packets: tuple[int, str]) -> Path:
    with open(path, "wb") as file:
        writer = PcapWriter(file)
        for time_ns, text in packets:
            writer.write(time_ns, bytes.fromhex(text))
    return path


def read(path: Path) -> list[tuple[int, str]]:
    return [(frame.time_ns, frame.data.hex()) for frame in read_capture(path)]


def test_packets_go_from_a_file_to_a_file_with_their_times(engine: Engine, tmp_path: Path) -> None:
    source = written(tmp_path / "in.pcap", (1 * S, "01aa"), (2 * S, "ff"), (3 * S + 5, "02bb"))
    summary = switch_captures(engine, {3: source}, {None: tmp_path / "out.pcap"})
    assert read(tmp_path / "out.pcap") == [(1 * S, "01aa"), (3 * S + 5, "02bb")]
    assert (summary.packets, summary.bytes) == (3, 5)
    assert summary.out == {1: 1, 2: 1}
    assert summary.dropped == {"pipeline.dropped": 1}
    assert engine.objects.register("times").values == {3: 3_000_000}


def test_a_port_may_have_a_file_of_its_own_and_the_host_too(engine: Engine, tmp_path: Path) -> None:
    engine.objects.multicast_groups[1] = (Replica(1), Replica(7), Replica(510))
    source = written(tmp_path / "in.pcap", (0, "fe"), (1, "01"), (2, "fd"))
    outputs: dict[int | str | None, Path] = {
        1: tmp_path / "one.pcap",
        HOST: tmp_path / "host.pcap",
        None: tmp_path / "rest.pcapng",
    }
    summary = switch_captures(engine, {0: source}, outputs)
    assert read(tmp_path / "one.pcap") == [(0, "fe"), (1, "01")]
    assert read(tmp_path / "host.pcap") == [(0, "fe"), (2, "fd")]
    assert read(tmp_path / "rest.pcapng") == [(0, "fe")]
    assert summary.out == {1: 2, 7: 1, HOST: 2}


CLONES = """
#include <core.p4>
#include <v1model.p4>
@controller_header("packet_in") header in_t { bit<9> port; bit<7> pad; }
header byte_t { bit<8> x; }
struct H { in_t told; byte_t b; } struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.b); transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply { s.egress_spec = (bit<9>) h.b.x; clone(CloneType.I2E, 5); } }
control E(inout H h, inout M m, inout standard_metadata_t s) {
    apply { if (s.egress_port == 510) h.told = { 3, 0 }; } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.mark.parametrize("kind", ENGINES)
def test_what_a_controller_would_get_is_the_hosts(kind: Callable[[], Engine], tmp_path: Path) -> None:
    engine = kind()
    engine.load(compile_text(CLONES).program)
    engine.objects.clone_sessions[5] = CloneSession((Replica(510),))
    source = written(tmp_path / "in.pcap", (0, "01aa"), (1, "02"))
    outputs: dict[int | str | None, Path] = {HOST: tmp_path / "host.pcap", None: tmp_path / "rest.pcap"}
    summary = switch_captures(engine, {3: source}, outputs)
    assert read(tmp_path / "host.pcap") == [(0, "018001aa"), (1, "018002")]
    assert read(tmp_path / "rest.pcap") == [(0, "01aa"), (1, "02")]
    assert summary.out == {1: 1, 2: 1, HOST: 2}
    assert not engine.drops


AGAIN = """#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> x; }
struct H { byte_t b; } struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.b); transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply { s.egress_spec = 1; if (s.instance_type == 0) clone(CloneType.I2E, 5); } }
control E(inout H h, inout M m, inout standard_metadata_t s) {
    apply { if (s.instance_type != 1) recirculate_preserving_field_list(0); } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.mark.parametrize("kind", ENGINES)
def test_a_packet_that_comes_again_without_end_is_counted_though_a_clone_left(
    kind: Callable[[], Engine], tmp_path: Path
) -> None:
    engine = kind()
    engine.load(compile_text(AGAIN).program)
    engine.objects.clone_sessions[5] = CloneSession((Replica(7),))
    source = written(tmp_path / "in.pcap", (0, "01aa"), (1, "02"))
    summary = switch_captures(engine, {3: source}, {None: tmp_path / "out.pcap"})
    assert summary.out == {7: 2}
    assert summary.dropped == {"pipeline.too_many_rounds": 2}


def test_a_pcapng_has_an_interface_for_each_port(engine: Engine, tmp_path: Path) -> None:
    source = written(tmp_path / "in.pcap", (0, "05"), (1, "04"), (2, "05"))
    path = tmp_path / "out.pcapng"
    switch_captures(engine, {0: source}, {None: path})
    assert [frame.interface for frame in read_capture(path)] == [0, 1, 0]
    data = path.read_bytes()
    assert data.index(b"port 5") < data.index(b"port 4")


def test_several_files_come_in_by_their_time_each_on_its_port(engine: Engine, tmp_path: Path) -> None:
    first = written(tmp_path / "a.pcap", (1 * S, "01a1"), (4 * S, "01a4"))
    second = written(tmp_path / "b.pcap", (2 * S, "01b2"), (3 * S, "01b3"))
    switch_captures(engine, {0: first, 1: second}, {None: tmp_path / "out.pcap"})
    assert [text for _, text in read(tmp_path / "out.pcap")] == ["01a1", "01b2", "01b3", "01a4"]
    assert engine.objects.register("times").values == {0: 4_000_000, 1: 3_000_000}


def test_a_run_that_is_ended_leaves_whole_files_and_tells_how_far_it_is(
    engine: Engine, tmp_path: Path
) -> None:
    source = written(tmp_path / "in.pcap", *((0, "01") for _ in range(1000)))
    out = tmp_path / "out.pcap"
    told: list[int] = []
    summary = switch_captures(
        engine,
        {0: source},
        {None: out},
        lambda arriving: islice(arriving, 600),
        lambda summary: told.append(summary.packets),
    )
    assert summary.packets == len(read(out)) == 600
    assert told == [0, 256, 512]


def test_a_file_is_not_read_and_written(engine: Engine, tmp_path: Path) -> None:
    source = written(tmp_path / "in.pcap", (0, "01"))
    with pytest.raises(NicemuError, match=r"in\.pcap is read and written"):
        switch_captures(engine, {0: source}, {None: source})
    assert len(read(source)) == 1


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_file_with_two_names_is_not_read_and_written(
    engine: Engine, tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    source, other = written(tmp_path / "in.pcap", (0, "01")), tmp_path / "other.pcap"
    link(other, source)
    for read_one, written_one in ((source, other), (other, source)):
        with pytest.raises(NicemuError, match="is read and written"):
            switch_captures(engine, {0: read_one}, {None: written_one})
    assert read(source) == [(0, "01")]


def test_an_output_with_two_names_is_one_file(engine: Engine, tmp_path: Path) -> None:
    source, out = written(tmp_path / "in.pcap", (0, "01"), (1, "02")), tmp_path / "out.pcap"
    (tmp_path / "further").mkdir()
    switch_captures(engine, {0: source}, {1: out, 2: tmp_path / "further" / ".." / "out.pcap"})
    assert read(out) == [(0, "01"), (1, "02")]


@pytest.mark.parametrize("text", [None, b"", b"no capture"])
def test_nothing_is_overwritten_for_what_is_no_capture(
    engine: Engine, tmp_path: Path, text: bytes | None
) -> None:
    out = written(tmp_path / "out.pcap", (0, "01"))
    if text is not None:
        (tmp_path / "in.pcap").write_bytes(text)
    with pytest.raises(NicemuError, match=r"cannot be read|is no capture"):
        switch_captures(engine, {0: tmp_path / "in.pcap"}, {None: out})
    assert read(out) == [(0, "01")]


def test_what_was_written_before_a_fault_of_the_capture_is_complete(engine: Engine, tmp_path: Path) -> None:
    source = written(tmp_path / "in.pcap", (0, "01"), (1, "02"))
    source.write_bytes(source.read_bytes()[:-1])
    with pytest.raises(NicemuError, match="it was cut"):
        switch_captures(engine, {0: source}, {None: tmp_path / "out.pcap"})
    assert read(tmp_path / "out.pcap") == [(0, "01")]
