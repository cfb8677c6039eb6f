# SPDX-License-Identifier: Apache-2.0
"""Captures through a compiled program: files and counts are the interpreter's, byte for byte."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Literal

import pytest

from nicemu.capture import PcapngWriter, PcapWriter, batches, read_capture
from nicemu.errors import NicemuError, UsageError
from nicemu.kernels import CompiledEngine, slots
from nicemu.p4 import compile_text
from nicemu.pipeline import CloneSession, Engine, Program, Replica
from nicemu.switch import HOST, Summary, in_place, packing, switch_captures

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
HEADERS
header byte_t { bit<8> port; }
header tag_t { bit<8> more; bit<16> passed; }
struct headers_t { MEMBER byte_t h; tag_t tag; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<48>>(16) times;
    counter(16, CounterType.packets_and_bytes) seen;
    apply {
        times.write((bit<32>) s.ingress_port, s.ingress_global_timestamp);
        seen.count((bit<32>) s.ingress_port);
        if (!h.h.isValid() || h.h.port > 0xf0) { mark_to_drop(s); }
        MORE
        else if (h.h.port > 0xe0) { s.egress_spec = 510; FOR_HOST }
        else {
            s.egress_spec = (bit<9>) h.h.port & 7;
            if (h.h.port > 0x80) {
                h.tag.setValid();
                h.tag.more = 0xaa;
                h.tag.passed = (bit<16>) s.packet_length;
            }
        }
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { EMIT b.emit(h.tag); b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
"""The first byte says whether a frame is dropped, goes to the host, or to a port, and whether it grows."""


def program(*pairs: tuple[str, str]) -> Program:
    text = PROGRAM
    for name, given in (
        *pairs,
        ("HEADERS", ""),
        ("MEMBER", ""),
        ("FOR_HOST", ""),
        ("EMIT", ""),
        ("MORE", ""),
    ):
        text = text.replace(name, given, 1)
    return compile_text(text).program


PLAIN = program()
WITH_CONTROLLER = program(
    ("HEADERS", '@controller_header("packet_in") header in_t { bit<16> port; }'),
    ("MEMBER", "in_t in_;"),
    ("FOR_HOST", "h.in_.setValid(); h.in_.port = (bit<16>) s.ingress_port;"),
    ("EMIT", "b.emit(h.in_);"),
)

SHORTENED = compile_text("""
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> port; }
header tag_t { bit<8> more; bit<16> passed; }
header tail_t { bit<8> length; varbit<256> data; }
struct headers_t { byte_t h; tag_t[2] tags; tail_t tail; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.h);
        transition select(h.h.port[5:4]) { 0: accept; 1: tag; 2: tail; _: skip; }
    }
    state skip { b.advance(24); transition accept; }
    state tag { b.extract(h.tags.next); b.extract(h.tags.next); transition accept; }
    state tail {
        b.extract(h.tail, (bit<32>) b.lookahead<bit<8>>()[4:0] * 8);
        transition accept;
    }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<48>>(16) times;
    counter(16, CounterType.packets_and_bytes) seen;
    apply {
        times.write((bit<32>) s.ingress_port, s.ingress_global_timestamp);
        seen.count((bit<32>) s.ingress_port);
        if (!h.h.isValid() || h.h.port > 0xf0) { mark_to_drop(s); }
        else if (h.h.port > 0xe0) { s.egress_spec = 510; log_msg("{}", { h.h.port }); }
        else {
            s.egress_spec = (bit<9>) h.h.port & 7;
            if (h.h.port > 0x80) { h.tags.pop_front(1); truncate(20); } else { h.h.setInvalid(); }
            if (h.tags[0].isValid()) { h.tags[0].passed = (bit<16>) s.packet_length; }
        }
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.tags); b.emit(h.tail); b.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
""").program
"""Nothing that leaves is longer than what came: the records of a capture may be changed where they lie."""

WITH_COPIES = program(
    ("MORE", "else if ((h.h.port & 7) == 3) { s.mcast_grp = (bit<16>) h.h.port >> 7; }"),
    ("FOR_HOST", "clone(CloneType.I2E, 5);"),
)


@pytest.fixture(autouse=True, params=["small", "large"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take few packets at a time, with little memory, and as many as ever."""
    if request.param == "small":
        monkeypatch.setattr(batches, "BATCH_FRAMES", 5)
        monkeypatch.setattr(slots, "SLOTS", 3)
        monkeypatch.setattr(packing, "ROOM_BYTES", 10_000)
        monkeypatch.setattr(in_place, "GROUP_FRAMES", 4)
        monkeypatch.setattr(in_place, "PIECE_BYTES", 700)


def made(kind: Callable[[], Engine], loaded: Program) -> Engine:
    engine = kind()
    engine.load(loaded)
    engine.objects.multicast_groups[1] = (Replica(1), Replica(4, 7), Replica(510))
    engine.objects.clone_sessions[5] = CloneSession((Replica(2),), 10)
    return engine


def compiled() -> Engine:
    return CompiledEngine(optimised=False)


def a_capture(path: Path, chance: random.Random, count: int, most_bytes: int) -> Path:
    time_ns = 1_700_000_000_000_000_000
    with open(path, "wb") as file:
        ng = PcapngWriter(file) if path.suffix == ".pcapng" else None
        if ng is not None:
            ng.add_interface("port 0")
        pcap = PcapWriter(file) if ng is None else None
        for _ in range(count):
            time_ns += chance.randrange(-5, 50)
            frame = chance.randbytes(chance.choice([0, 1, 20, 64, chance.randrange(most_bytes)]))
            if pcap is not None:
                pcap.write(time_ns, frame)
            if ng is not None:
                ng.write(0, time_ns, frame, len(frame), outbound=False)
    return path


def switched(
    engine: Engine, inputs: dict[int, Path], folder: Path, names: dict[int | str | None, str]
) -> tuple[Summary, dict[str, bytes], object]:
    folder.mkdir()
    outputs = {port: folder / name for port, name in names.items()}
    summary = switch_captures(engine, inputs, outputs)
    registers = engine.objects.register("times").values
    counts = engine.objects.counter("seen").counts
    counted = {index: (count.packets, count.bytes) for index, count in counts.items()}
    state = [(registers.get(index, 0), counted.get(index, (0, 0))) for index in range(16)]
    files = {path.name: path.read_bytes() for path in outputs.values()}
    return summary, files, (state, dict(engine.drops))


LOADED = {
    "plain": PLAIN,
    "shortened": SHORTENED,
    "with_controller": WITH_CONTROLLER,
    "with_copies": WITH_COPIES,
}
OUTPUTS: list[dict[int | str | None, str]] = [
    {},
    {None: "all.pcap"},
    {None: "all.pcapng"},
    {1: "one.pcap", HOST: "host.pcap", None: "rest.pcap"},
    {2: "some.pcap", 3: "some.pcap", HOST: "some.pcapng"},
    {None: "all.pcap", 4: "all.pcap"},
]


@pytest.mark.parametrize("loaded", LOADED.values(), ids=LOADED)
@pytest.mark.parametrize("names", OUTPUTS, ids=[",".join(map(str, item)) or "none" for item in OUTPUTS])
def test_kernels_write_what_the_interpreter_writes(
    tmp_path: Path, loaded: Program, names: dict[int | str | None, str]
) -> None:
    chance = random.Random(11)
    inputs = {
        5: a_capture(tmp_path / "a.pcap", chance, 60, 300),
        2: a_capture(tmp_path / "b.pcapng", chance, 40, 9400),
        7: a_capture(tmp_path / "c.pcap", chance, 30, 9216),
    }
    for number, taken in enumerate((inputs, {5: inputs[5]})):
        engine = made(compiled, loaded)
        assert isinstance(engine, CompiledEngine)
        assert engine.kernel is not None, engine.interpreted_because
        found = switched(engine, taken, tmp_path / f"compiled{number}", names)
        wanted = switched(made(Engine, loaded), taken, tmp_path / f"interpreted{number}", names)
        assert found == wanted
        assert found[0].packets == (130 if number == 0 else 60)


@pytest.mark.parametrize("most_bytes", [70, 9400])
@pytest.mark.parametrize("magic", ["a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1"])
@pytest.mark.parametrize("way", ["plain", "gzipped"])
def test_a_capture_is_changed_where_it_lies_as_if_it_were_not(
    tmp_path: Path, magic: str, way: str, most_bytes: int
) -> None:
    order: Literal["big", "little"] = "big" if magic.startswith("a1") else "little"
    chance = random.Random(f"{magic} {way} {most_bytes}")
    data = bytes.fromhex(magic) + b"".join(
        number.to_bytes(size, order) for number, size in ((2, 2), (4, 2), (0, 4), (0, 4), (65535, 4), (1, 4))
    )
    for number in range(80):
        frame = chance.randbytes(chance.choice([0, 1, 20, 64, chance.randrange(most_bytes)]))
        header = (number, chance.randrange(1_000_000), len(frame), len(frame) + number % 3)
        data += b"".join(item.to_bytes(4, order) for item in header) + frame
    source = tmp_path / "in.pcap"
    source.write_bytes(gzip.compress(data) if way == "gzipped" else data)
    engine = made(compiled, SHORTENED)
    assert isinstance(engine, CompiledEngine)
    assert in_place.fits(engine)
    outputs: list[dict[int | str | None, str]] = [{None: "out.pcap"}, {2: "out.pcap", HOST: "out.pcap"}]
    for number, names in enumerate(outputs):
        engine = made(compiled, SHORTENED)
        found = switched(engine, {3: source}, tmp_path / f"compiled{number}", names)
        reference = made(Engine, SHORTENED)
        assert found == switched(reference, {3: source}, tmp_path / f"interpreted{number}", names)
        assert engine.now_ns == reference.now_ns
        assert found[0].packets == 80


def test_a_pipe_is_taken_as_it_comes(tmp_path: Path) -> None:
    source, out = tmp_path / "in.pcap", tmp_path / "out.pcap"
    os.mkfifo(source)
    data = a_capture(tmp_path / "whole.pcap", random.Random(4), 50, 3000).read_bytes()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(source.write_bytes, data)
        summary = switch_captures(made(compiled, SHORTENED), {0: source}, {None: out})
        writing.result()
    assert summary.packets == 50
    switch_captures(made(Engine, SHORTENED), {0: tmp_path / "whole.pcap"}, {None: tmp_path / "wanted.pcap"})
    assert out.read_bytes() == (tmp_path / "wanted.pcap").read_bytes()


@pytest.mark.parametrize("loaded", [PLAIN, SHORTENED], ids=["plain", "shortened"])
def test_what_was_written_before_a_fault_of_the_capture_is_complete(tmp_path: Path, loaded: Program) -> None:
    source = a_capture(tmp_path / "in.pcap", random.Random(1), 12, 20)
    source.write_bytes(source.read_bytes() + b"cut")
    outs = [tmp_path / "compiled.pcap", tmp_path / "interpreted.pcap"]
    for kind, out in zip((compiled, Engine), outs, strict=True):
        with pytest.raises(NicemuError, match="it was cut"):
            switch_captures(made(kind, loaded), {0: source}, {None: out})
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert list(read_capture(outs[0]))


@pytest.mark.parametrize("loaded", [PLAIN, SHORTENED], ids=["plain", "shortened"])
def test_a_run_that_is_ended_leaves_whole_files(tmp_path: Path, loaded: Program) -> None:
    source, out = tmp_path / "in.pcap", tmp_path / "out.pcap"
    with open(source, "wb") as file:
        writer = PcapWriter(file)
        for number in range(80_000):
            writer.write(number, b"\1" + bytes(59))
    summary = switch_captures(
        made(compiled, loaded), {0: source}, {None: out}, lambda arriving: islice(arriving, 2)
    )
    assert 0 < summary.packets < 80_000
    assert len(list(read_capture(out))) == summary.packets


@pytest.mark.parametrize("loaded", [PLAIN, SHORTENED], ids=["plain", "shortened"])
def test_a_disk_that_is_full_is_a_sentence(tmp_path: Path, loaded: Program) -> None:
    source = a_capture(tmp_path / "in.pcap", random.Random(2), 500, 100)
    with pytest.raises(UsageError, match="/dev/full cannot be written: No space left on device"):
        switch_captures(made(compiled, loaded), {0: source}, {None: Path("/dev/full")})
