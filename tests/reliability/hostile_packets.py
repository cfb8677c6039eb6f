# SPDX-License-Identifier: Apache-2.0
"""Batches of hostile packets, made with NumPy: whole messages of many queue pairs, and between their packets
forged, replayed, spliced, cut and corrupted ones.

A batch begins as columns of header fields, a row a packet. Before some rows a copy is put of which one field
is wrong; then rows are written out as frames, some of those are damaged as bytes, and all are sealed again
(checksum, ICRC) but those whose damage a checksum has to find.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.reliability.naive_responder import FIRST_NUMBER, TABLE, seal

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]
WIDTH = 1152
HEADERS_BYTES = 82
REMOTE = 0x1000
"""What a peer's queue pair number is more than that of ours."""
MESSAGES = [
    (10,), (10,), (6, 8), (6, 7, 8), (11,), (6, 9), (4,), (0, 2), (0, 1, 2), (5,), (0, 3), (12,), (19,),
    (20,),
]  # fmt: skip
READ, ACKNOWLEDGE = 12, 17
LENGTHS = (0, 1, 7, 8, 255, 256, 257, 512, 1024, 1025, 4096, 16384, 16385, (1 << 31) + 1, (1 << 32) - 1)
STRANGE_ADDRESSES = ((0, 0), (0xFFFFFFFF, 0xFFFFFFF8), (0x7FFFFFFF, 0xFFFFFFFF), (1, 0x100000))
_FIRST_ROWS = np.cumsum([0, *[len(message) for message in MESSAGES[:-1]]])
_ROWS = np.array([opcode for message in MESSAGES for opcode in message])
_COUNTS = np.array([len(message) for message in MESSAGES])


def put(frames: Array, place: int, values: Array | int, count: int) -> None:
    """Write a column of big-endian numbers of `count` bytes."""
    numbers = np.asarray(values, np.int64)
    for step in range(count):
        frames[:, place + step] = numbers >> 8 * (count - 1 - step) & 0xFF


class HostilePackets:
    """Makes batches for the queue pairs of one NIC, whose peer has the address `peer_ip`."""

    def __init__(self, seed: int, own_ip: int, peer_ip: int, regions: np.ndarray[Any, Any]) -> None:
        self.rng = np.random.default_rng(seed)
        self._regions = regions
        header = np.zeros(HEADERS_BYTES, np.uint8)
        header[:14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]
        header[14:34] = [
            0x45,
            0,
            0,
            0,
            0,
            0,
            0x40,
            0,
            64,
            17,
            0,
            0,
            *peer_ip.to_bytes(4, "big"),
            *own_ip.to_bytes(4, "big"),
        ]
        header[34:38] = [0x12, 0xB7, 0x12, 0xB7]
        header[44:46] = 0xFF
        self._header = header
        self._pool = self.rng.integers(0, 256, 8 << 20, np.uint8)
        self._kept = np.zeros((0, WIDTH), np.uint8), np.zeros(0, np.int64)
        self.touched = np.zeros(HEADERS_BYTES, np.int64)
        """How often each byte of a header has been changed and sealed again."""
        self.made: dict[str, int] = {}

    def messages(self, pairs: np.ndarray[Any, Any], indices: Array, each: int) -> Columns:
        """Return rows of `each` valid messages of every pair (PEER records), one pair behind the other."""
        rng = self.rng
        count = len(indices) * each
        message = rng.integers(0, len(MESSAGES), count)
        packets = _COUNTS[message]
        first = np.cumsum(packets) - packets
        within = np.arange(packets.sum()) - np.repeat(first, packets)
        opcode = _ROWS[np.repeat(_FIRST_ROWS[message], packets) + within]
        index = np.repeat(np.repeat(indices, each), packets)
        mtu = pairs["mtu"][index]
        is_first, is_last = TABLE[opcode, 1] != 0, TABLE[opcode, 2] != 0
        segment = TABLE[opcode, 0] != 0
        shortest = np.where(is_first, 0, 1)
        payload = np.where(is_last, rng.integers(shortest, mtu + 1), mtu) * segment
        total = np.repeat(np.add.reduceat(payload, first), packets)
        read = opcode == READ
        dma = np.where(read, rng.integers(0, 2 * mtu), total)
        taken = np.where(read, np.maximum(1, -(-dma // mtu)), 1)
        before = np.cumsum(taken) - taken
        starts = np.searchsorted(index, indices)
        psn = pairs["expected"][index] + before - np.repeat(before[starts], np.diff([*starts, len(index)]))
        region = self._regions[0]
        place = 8 * rng.integers(0, (region["length"] - 4096) // 8, len(index))
        return {
            "opcode": opcode,
            "index": index,
            "number": index + FIRST_NUMBER,
            "psn": psn,
            "request": rng.random(len(index)) < 0.5,
            "rkey": np.full(len(index), region["key"]),
            "high": np.zeros(len(index), np.int64),
            "low": region["iova"] + place,
            "dma": dma,
            "payload": payload,
            "word": rng.integers(0, 1 << 32, len(index)),
            "operands": rng.integers(0, 4, len(index)),
        }

    def answers(self, index: Array, psn: Array, opcode: Array, dma: Array, mtu: int) -> Columns:
        """Return rows that answer requests: ACKs, NAKs, results of atomics, READs of one packet or two."""
        rng = self.rng
        times = np.where((opcode == READ) & (dma > mtu), 2, 1)
        second = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        index, psn, opcode, dma = (np.repeat(column, times) for column in (index, psn, opcode, dma))
        count, long = len(index), (opcode == READ) & (dma > mtu)
        answer = np.select([long, opcode == READ, opcode >= 19], [13 + 2 * second, 16, 18], ACKNOWLEDGE)
        payload = np.where(second == 1, dma - mtu, np.minimum(dma, mtu))
        syndrome = np.where(
            rng.random(count) < 0.04,
            rng.choice([0x20, 0x21, 0x3F, 0x60, 0x61, 0x62, 0x63, 0x64, 0x45], count),
            31,
        )
        zeros = np.zeros(count, np.int64)
        return {
            "opcode": answer,
            "index": index,
            "number": index + FIRST_NUMBER,
            "psn": psn + second,
            "request": zeros > 0,
            "rkey": zeros,
            "high": zeros,
            "low": zeros,
            "dma": zeros,
            "payload": np.where(opcode == READ, payload, 0),
            "word": syndrome << 24 | 1,
            "operands": zeros,
        }

    def with_wrong_ones(self, rows: Columns, share: float) -> Columns:
        """Return rows, and before a share of them a copy with one wrong field; some are lost or swapped."""
        rng = self.rng
        count = len(rows["index"])
        times = 1 + (rng.random(count) < share)
        times[rng.random(count) < 0.002] = 0  # lost
        source = np.repeat(np.arange(count), times)
        swapped = np.flatnonzero(rng.random(max(0, len(source) - 1)) < 0.002)
        source[swapped], source[swapped + 1] = source[swapped + 1], source[swapped].copy()
        wrong = np.flatnonzero(np.diff(source, append=-1) == 0)
        made = {name: column[source] for name, column in rows.items()}
        kinds = rng.choice(len(self._FAULTS), len(wrong), p=self._SHARES)
        for kind, (name, spoil, _) in enumerate(self._FAULTS):
            chosen = wrong[kinds == kind]
            spoil(self, made, chosen)
            self.made[name] = self.made.get(name, 0) + len(chosen)
        return made

    # Wrong fields

    def _repeat(self, rows: Columns, chosen: Array) -> None:
        """Leave it: the packet comes twice."""

    def _psn(self, rows: Columns, chosen: Array) -> None:
        steps = np.array([1, 2, 5, 70, -1, -2, -5, -70, 1 << 23, (1 << 23) - 1, 12345, -99999])
        rows["psn"][chosen] += self.rng.choice(steps, len(chosen))

    def _number(self, rows: Columns, chosen: Array) -> None:
        others = np.array([0, 1, FIRST_NUMBER - 1, 0xFFFFFF, 0x8000, *range(FIRST_NUMBER, FIRST_NUMBER + 64)])
        rows["number"][chosen] = self.rng.choice(others, len(chosen))

    def _key(self, rows: Columns, chosen: Array) -> None:
        keys = np.array([*self._regions["key"], 0, 0x100, 0xFFFFFFFF, *(self._regions["key"] ^ 1 << 12)])
        rows["rkey"][chosen] = self.rng.choice(keys, len(chosen))

    def _address(self, rows: Columns, chosen: Array) -> None:
        rng, region = self.rng, self._regions[0]
        rows["low"][chosen] = region["iova"] + rng.choice(
            [-8, -1, 1, 4, 12, region["length"] - 8, region["length"] - 1, region["length"]], len(chosen)
        )
        edge = chosen[rng.random(len(chosen)) < 0.5]  # it ends where the region does, or not quite
        length = np.where(rows["opcode"][edge] >= 19, 8, rows["dma"][edge])
        rows["low"][edge] = (
            region["iova"] + region["length"] - length + rng.choice([-8, -1, 0, 1, 8], len(edge))
        )
        strange = chosen[rng.random(len(chosen)) < 0.2]
        which = rng.integers(0, len(STRANGE_ADDRESSES), len(strange))
        rows["high"][strange], rows["low"][strange] = np.array(STRANGE_ADDRESSES)[which].T

    def _length(self, rows: Columns, chosen: Array) -> None:
        rows["dma"][chosen] = self.rng.choice(np.array(LENGTHS), len(chosen))

    def _opcode(self, rows: Columns, chosen: Array) -> None:
        rows["opcode"][chosen] = self.rng.integers(0, 32, len(chosen))

    def _payload(self, rows: Columns, chosen: Array) -> None:
        rows["payload"][chosen] = self.rng.choice(
            [0, 1, 2, 3, 255, 256, 257, 511, 512, 1023, 1024, 1025], len(chosen)
        )

    def _word(self, rows: Columns, chosen: Array) -> None:
        rows["word"][chosen] = self.rng.integers(0, 1 << 32, len(chosen))

    _Spoil = Callable[["HostilePackets", Columns, Array], None]
    _FAULTS: tuple[tuple[str, _Spoil, int], ...] = (
        ("repeated", _repeat, 40),
        ("wrong PSN", _psn, 25),
        ("wrong queue pair", _number, 10),
        ("wrong key", _key, 4),
        ("wrong address", _address, 8),
        ("wrong length", _length, 5),
        ("wrong opcode", _opcode, 5),
        ("wrong payload length", _payload, 5),
        ("wrong AETH or immediate", _word, 5),
        ("repeated", _repeat, 40),
    )
    _SHARES = np.array([share for _, _, share in _FAULTS]) / sum(share for _, _, share in _FAULTS)

    # Frames

    def frames(self, rows: Columns) -> tuple[Array, Array]:
        """Return rows as frames, uint8[rows, WIDTH], and their lengths, int64[rows], pairs mixed."""
        rng, count = self.rng, len(rows["index"])
        start = int(rng.integers(0, len(self._pool) - count * WIDTH))
        frames = self._pool[start : start + count * WIDTH].reshape(count, WIDTH).copy()
        frames[:, :54] = self._header[:54]
        opcode, payload = rows["opcode"], rows["payload"]
        pad = -payload & 3
        extension = TABLE[opcode & 31, 4]
        length = 54 + extension + payload + pad + 4
        put(frames, 16, length - 14, 2)
        put(frames, 38, length - 34, 2)
        put(frames, 42, opcode, 1)
        put(frames, 43, 0x40 | pad << 4, 1)
        put(frames, 46, rows["number"] & 0xFFFFFF, 4)
        put(frames, 50, (rows["psn"] & 0xFFFFFF) | rows["request"].astype(np.int64) << 31, 4)
        for has, place, names in (
            ((extension == 16) | (extension == 20) | (extension == 28), 54, ("high", "low", "rkey")),
            ((extension == 16) | (extension == 20), 66, ("dma",)),
            ((extension == 4) | (extension == 12), 54, ("word",)),
        ):
            part = frames[has]
            for step, name in enumerate(names):
                put(part, place + 4 * step, rows[name][has], 4)
            frames[has] = part
        small = np.flatnonzero(extension == 28)  # operands that sometimes match what is there
        put_small = frames[small]
        put_small[:, 66:82] = 0
        put_small[:, 73], put_small[:, 81] = rows["operands"][small] + 1, rows["operands"][small]
        frames[small] = put_small
        order = np.empty(count, np.int64)  # pairs are mixed, packets of one keep their order
        order[np.argsort(rng.permutation(rows["index"]), kind="stable")] = np.argsort(
            rows["index"], kind="stable"
        )
        frames, length = np.ascontiguousarray(frames[order]), length[order]
        return self._damaged(frames, length)

    def _damaged(self, frames: Array, length: Array) -> tuple[Array, Array]:
        """Damage frames as bytes, then seal most of them."""
        rng, count = self.rng, len(frames)
        sealed = np.ones(count, np.int64)
        chance = rng.random(count)
        damaged = one = np.flatnonzero(chance < 0.004)  # header bytes, which are sealed then
        for _ in range(2):
            place = rng.integers(0, np.minimum(length[one], HEADERS_BYTES))
            before = frames[one, place]
            drawn = rng.integers(0, 256, len(one)).astype(np.uint8)
            new = np.where(rng.random(len(one)) < 0.5, before ^ np.uint8(1) << (drawn & 7), drawn)
            frames[one, place] = new
            np.add.at(self.touched, place, 1)
            one = one[rng.random(len(one)) < 0.3]
        spliced = np.flatnonzero((chance >= 0.004) & (chance < 0.005))
        other = rng.integers(0, count, len(spliced))
        for row, source, place in zip(spliced, other, rng.integers(14, 200, len(spliced)), strict=True):
            frames[row, place:] = frames[source, place:].copy()
        seal(frames, length, sealed, frames.ctypes.data)
        loose = np.flatnonzero((chance >= 0.005) & (chance < 0.008))  # damage that a checksum finds, or not
        frames[loose, rng.integers(0, length[loose])] ^= np.uint8(1) << rng.integers(0, 8, len(loose)).astype(
            np.uint8
        )
        cut = np.flatnonzero((chance >= 0.008) & (chance < 0.010))
        length[cut] = rng.integers(0, length[cut])
        kept, kept_length = self._kept
        if len(kept):
            again = np.flatnonzero((chance >= 0.010) & (chance < 0.016))
            source = rng.integers(0, len(kept), len(again))
            frames[again], length[again] = kept[source], kept_length[source]
            self._made("replayed from before", len(again))
        for name, chosen in (
            ("header bytes", damaged),
            ("spliced", spliced),
            ("corrupted", loose),
            ("cut", cut),
        ):
            self._made(name, len(chosen))
        keep = rng.integers(0, count, 64)
        self._kept = (
            np.concatenate([kept, frames[keep]])[-4096:],
            np.concatenate([kept_length, length[keep]])[-4096:],
        )
        return frames, length

    def _made(self, name: str, count: int) -> None:
        self.made[name] = self.made.get(name, 0) + count
