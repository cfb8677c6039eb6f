# SPDX-License-Identifier: Apache-2.0
"""Kernels of the stand-in GPU: the decoder, layer by layer, over session slots in memory that the NIC
reaches.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from nicemu.programs import load_module

decoder = load_module(Path(__file__).resolve().parent / "decoder.py")


class Kernels:
    """What can be launched. A session's tokens go through `start`, every `layer`, then `logits`."""

    def __init__(self, slots: dict[int, Any], config: dict[str, int], seed: int) -> None:
        self.decoder = decoder.Decoder(decoder.DecoderConfig(**config), seed)
        self.slots = slots
        self.hidden: Any = None

    def start(self, tokens: list[int], position: int) -> int:
        """Embed tokens; return how many are computed."""
        self.hidden = self.decoder.start(tokens, position)
        return len(tokens)

    def layer(self, index: int, slot: int, position: int) -> None:
        """Run one layer; its keys and values go into the slot."""
        self.hidden = self.decoder.layer(index, self.hidden, self.slots[slot], position)

    def logits(self) -> dict[str, Any]:
        """Return the most likely next token and a digest of all logits, bit for bit."""
        logits = self.decoder.logits(self.hidden)
        return {
            "token": int(np.argmax(logits)),
            "logits": blake2b(logits.tobytes(), digest_size=16).hexdigest(),
        }

    def poison(self, slot: int) -> None:
        """Fill a slot with a pattern that no cache holds."""
        self.slots[slot].view(np.uint8).fill(0xA5)

    def copy(self, source: int, target: int) -> None:
        """Copy one slot to another."""
        self.slots[target][...] = self.slots[source]

    def flip(self, slot: int, layer: int, half: int, token: int) -> None:
        """Flip one bit of one cached number's exponent."""
        block, place = divmod(token, self.slots[slot].shape[3])
        self.slots[slot].view(np.uint32)[layer, half, block, place, 0, 0] ^= np.uint32(1 << 23)

    def digest(self, slot: int, tokens: int) -> str:
        """Return a digest of the cached numbers of the first `tokens` tokens."""
        array = self.slots[slot]
        whole, rest = divmod(tokens, array.shape[3])
        digest = blake2b(digest_size=16)
        digest.update(np.ascontiguousarray(array[:, :, :whole]).tobytes())
        if rest:
            digest.update(np.ascontiguousarray(array[:, :, whole, :rest]).tobytes())
        return digest.hexdigest()


def kernels(memory: dict[str, Any], *, config: dict[str, int], seed: int) -> Kernels:
    """Make the kernels; `memory` holds the slots, named slot0 and up."""
    slots = {int(name.removeprefix("slot")): array for name, array in memory.items()}
    return Kernels(slots, config, seed)
