# SPDX-License-Identifier: Apache-2.0
"""A serving host in small: answers prompts, leaves KV with the storage NICs, goes on from what the NIC
brought back.

It runs unchanged over live NICs and in the stepper: everything it needs comes in with the NIC and the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nicemu.host import Nic, Packet, Span, Stream
from nicemu.kv import Answer, Chunk, KvLayout, Manifest, Request, chunks_of, decode
from nicemu.programs import find_program, load_module

swap_out = load_module(find_program("host/kv_swap_out.py"))
resume = load_module(find_program("host/kv_resume.py"))
decoder = load_module(find_program("examples/decoder.py"))

SALT = b"one tenant of the demo"
MODEL = "decoder/1"


@dataclass
class Session:
    """A user's conversation: all tokens so far, the chunks that are stored, and where its KV lies now."""

    tokens: list[int] = field(default_factory=list)
    stored: dict[tuple[int, int], Chunk] = field(default_factory=dict)
    slot: int | None = None


@dataclass
class Turn:
    """What one request cost and gave."""

    request_id: int
    answer: list[int]
    logits: list[str]
    computed_tokens: int
    restored: bool
    chunks_armed: int


class Server:
    """One host process behind one compute NIC."""

    def __init__(
        self,
        nic: Nic,
        stream: Stream,
        storage: list[str],
        *,
        slots: int = 3,
        config: dict[str, int] | None = None,
        seed: int = 7,
        answer_tokens: int = 12,
        slot_count: int = 256,
    ) -> None:
        self.nic = nic
        self.stream = stream
        self.answer_tokens = answer_tokens
        self.config = decoder.DecoderConfig(**(config or {}))
        model = self.config
        self.layout = KvLayout(
            model.layers,
            model.blocks,
            model.block_tokens,
            model.kv_heads,
            model.head_dim,
            np.dtype(np.float32),
        )
        nic.listen()
        peers = [
            nic.connect(name, slot_count=slot_count, slot_bytes=_whole_blocks(self.layout.chunk_bytes))
            for name in storage
        ]
        self.store = swap_out.SwapOut(nic, peers)
        self.resume = resume.Resume(nic, self.layout, slots)
        memory = {f"slot{number}": piece for number, piece in enumerate(self.resume.memory)}
        stream.load("examples/gpu_decoder.py", memory, config=config or {}, seed=seed)
        self.sessions: dict[bytes, Session] = {}
        self.turns: list[Turn] = []
        self._rung = 0

    # Computing

    def _run_step(self, tokens: list[int], slot: int, position: int) -> None:
        """Put one forward pass into the stream: after each layer the doorbell rings.

        What a layer touches is declared, so that `nicemu demo --check-races` has something to look at.
        """
        end = position + len(tokens)
        self.stream.launch("start", tokens=tokens, position=position)
        for layer in range(self.config.layers):
            reads = self._kv_of(slot, layer, 0, position)
            writes = self._kv_of(slot, layer, position, end)
            self.stream.launch("layer", reads=reads, writes=writes, index=layer, slot=slot, position=position)
            self.store.produced.trigger_after(self.stream)
        self.stream.launch("logits")

    def _kv_of(self, slot: int, layer: int, first: int, end: int) -> list[Span]:
        """Return where K and V of a layer lie for tokens `first` to `end` - 1."""
        tokens = self.layout.blocks * self.layout.block_tokens
        token_bytes = self.layout.total_bytes // (2 * self.layout.layers * tokens)
        begins = [half * tokens for half in (2 * layer, 2 * layer + 1)]
        span = self.resume.spans[slot]
        return [
            span[(begin + first) * token_bytes : (begin + end) * token_bytes]
            for begin in begins
            if end > first
        ]

    def _step(self, tokens: list[int], slot: int, position: int) -> dict[str, Any]:
        self._run_step(tokens, slot, position)
        self._rung += self.config.layers
        result: dict[str, Any] = self.stream.synchronize()[-1]
        return result

    def _arm(self, slot: int, chunks: list[Chunk]) -> int:
        """Arm the chunks' writes: a layer's go when that layer of the next step is done."""
        base = self._rung

        def threshold(chunk: Chunk) -> int:
            return base + chunk.layer + 1

        armed: int = self.store.arm(self.resume.memory[slot], self.resume.spans[slot].key, chunks, threshold)
        return armed

    def answer(self, session: Session, slot: int, prompt: list[int], restored: bool, request_id: int) -> Turn:
        """Compute a turn in `slot`, which holds the KV of all of the session's tokens so far."""
        position = len(session.tokens)
        session.tokens += prompt
        first = position // self.layout.block_tokens
        known = chunks_of(self.layout, session.tokens, model=MODEL, salt=SALT, first_block=first)
        early = [chunk for chunk in known if chunk.shareable]
        armed = self._arm(slot, early)
        result = self._step(prompt, slot, position)
        answer, logits = [result["token"]], [result["logits"]]
        computed = len(prompt)
        while len(answer) < self.answer_tokens:
            session.tokens.append(answer[-1])
            result = self._step(answer[-1:], slot, len(session.tokens) - 1)
            computed += 1
            answer.append(result["token"])
            logits.append(result["logits"])
        # The last token has to be in the cache too; with it every chunk's content, and so its key, is known.
        session.tokens.append(answer[-1])
        done = {(chunk.layer, chunk.block) for chunk in early}
        known = chunks_of(self.layout, session.tokens, model=MODEL, salt=SALT, first_block=first)
        armed += self._arm(slot, [chunk for chunk in known if (chunk.layer, chunk.block) not in done])
        result = self._step(answer[-1:], slot, len(session.tokens) - 1)
        computed += 1
        logits.append(result["logits"])
        for chunk in known:
            session.stored[chunk.layer, chunk.block] = chunk
        return Turn(request_id, answer, logits, computed, restored, armed)

    # Serving

    def handle(self, packet: Packet) -> Turn:
        """Answer one request packet."""
        request = decode(packet.payload)
        if not isinstance(request, Request):
            raise ValueError(f"a host receives requests, not {type(request).__name__}")
        landed = self.resume.landed(packet)
        session = self.sessions.setdefault(request.session, Session())
        prompt = list(request.prompt)
        if landed is not None:
            session.slot = landed
        elif session.slot is None:
            session.slot = self.resume.take()
            prompt = [*session.tokens, *prompt]  # a miss: everything is computed again
            session.tokens = []
        if not session.tokens:
            prompt = prompt if prompt[:1] == [decoder.BOS] else [decoder.BOS, *prompt]
        turn = self.answer(session, session.slot, prompt, landed is not None, request.request_id)
        text = bytes(token if token < 256 else 0x20 for token in turn.answer)
        reply = Answer(request.request_id, request.session, text, restored=turn.restored).encode()
        self.nic.transmit(packet.reply(reply))
        self.turns.append(turn)
        return turn

    def make_durable(self, name: bytes, timeout_s: float = 10.0) -> None:
        """Wait until a session's chunks are on the medium, then let the NIC fetch it by itself."""
        self.store.wait(timeout_s)
        session = self.sessions[name]
        placed = [(chunk, self.store.storage_number(chunk)) for chunk in session.stored.values()]
        self.resume.publish(Manifest.of(self.layout, name, len(session.tokens), placed))

    def drop(self, name: bytes) -> int:
        """Drop a session's KV; return the slot that is free now."""
        session = self.sessions[name]
        slot, session.slot = session.slot, None
        if slot is None:
            raise ValueError("the session holds no slot")
        self.resume.drop(slot)
        return slot


def _whole_blocks(length_bytes: int) -> int:
    return -(-length_bytes // 4096) * 4096


def server_path() -> Path:
    """Where this file lies, for whoever starts a process with it."""
    return Path(__file__).resolve()
