# SPDX-License-Identifier: Apache-2.0
"""v1model's hash algorithms, bit for bit those of BMv2.

Source: p4lang/behavioral-model, "Calculations"; RFC 1071, "Computing the Internet Checksum".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from .chance import Chance

Algorithm = Callable[[bytes, Chance], int]

_CRC16 = []
for _byte in range(256):
    _rest = _byte
    for _ in range(8):
        _rest = _rest >> 1 ^ (0xA001 if _rest & 1 else 0)
    _CRC16.append(_rest)


def crc16(data: bytes) -> int:
    """Return the CRC-16 with polynomial 0x8005, reflected, that starts at 0."""
    rest = 0
    for byte in data:
        rest = rest >> 8 ^ _CRC16[(rest ^ byte) & 0xFF]
    return rest


def internet_checksum(data: bytes) -> int:
    """Return the one's complement of the one's complement sum of 16-bit words; an odd byte is padded."""
    total = sum(int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big") for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def exclusive_or(data: bytes) -> int:
    """Return the exclusive or of 16-bit words; an odd byte is padded."""
    result = 0
    for at in range(0, len(data), 2):
        result ^= int.from_bytes(data[at : at + 2].ljust(2, b"\0"), "big")
    return result


ALGORITHMS: dict[str, Algorithm] = {
    "crc32": lambda data, chance: zlib.crc32(data),
    "crc32_custom": lambda data, chance: zlib.crc32(data),
    "crc16": lambda data, chance: crc16(data),
    "crc16_custom": lambda data, chance: crc16(data),
    "random": lambda data, chance: chance.word() >> 32,
    "identity": lambda data, chance: int.from_bytes(data[:8], "big"),
    "csum16": lambda data, chance: internet_checksum(data),
    "xor16": lambda data, chance: exclusive_or(data),
}
"""Every algorithm by the name of its member of HashAlgorithm, in that enum's order."""


def digest(algorithm: int, length_bits: int, number: int, payload: bytes, chance: Chance) -> int:
    """Return the hash of bits, filled up with zeros to whole bytes, and a payload behind them."""
    padding = -length_bits % 8
    data = (number << padding).to_bytes((length_bits + padding) // 8, "big") + payload
    names = tuple(ALGORITHMS)
    return ALGORITHMS[names[algorithm]](data, chance) if algorithm < len(names) else 0
