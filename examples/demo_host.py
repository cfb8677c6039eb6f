# SPDX-License-Identifier: Apache-2.0
"""The host process of `nicemu demo`: does one thing for each JSON line on its input, and answers with one."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from nicemu.host import Packet, ProcessStream, open_nic
from nicemu.kv import Request, decode
from nicemu.programs import find_program, load_module

serving = load_module(find_program("examples/serving.py"))

SLOTS = 6


class DemoHost:
    """Serves two users, and checks what comes back."""

    def __init__(self, nic: str, storage: list[str], config: dict[str, int]) -> None:
        self.nic = open_nic(nic)
        self.stream = ProcessStream()
        self.server = serving.Server(self.nic, self.stream, storage, slots=SLOTS, config=config)
        self.packet: Packet | None = None
        self.slots: dict[bytes, int] = {}

    def close(self) -> None:
        """Leave."""
        self.stream.close()
        self.nic.close()

    def opened(self) -> dict[str, Any]:
        """What is open: sizes for the report."""
        layout = self.server.layout
        return {"slots": SLOTS, "slot_bytes": layout.total_bytes, "chunk_bytes": layout.chunk_bytes}

    def receive(self, timeout_s: float = 10.0) -> dict[str, Any]:
        """Wait for the next packet, and say what the NIC did for it and what waiting cost."""
        cpu_ns = time.process_time_ns()
        self.packet = self.nic.receive(timeout_s)
        cpu_ns = time.process_time_ns() - cpu_ns
        if self.packet is None:
            return {"packet": False, "cpu_ns": cpu_ns}
        return {"packet": True, "info": list(self.packet.info), "cpu_ns": cpu_ns}

    def serve(self) -> dict[str, Any]:
        """Answer the packet that was received."""
        assert self.packet is not None
        request = decode(self.packet.payload)
        assert isinstance(request, Request)
        turn = self.server.handle(self.packet)
        session = self.server.sessions[request.session]
        self.slots[request.session] = session.slot
        return {
            "answer": turn.answer,
            "logits": turn.logits,
            "computed_tokens": turn.computed_tokens,
            "session_tokens": len(session.tokens),
            "restored": turn.restored,
            "chunks": turn.chunks_armed,
            "slot": session.slot,
            "bytes": turn.chunks_armed * self.server.layout.chunk_bytes,
        }

    def make_durable(self, session: str) -> dict[str, Any]:
        """Wait until a session is stored; then the NIC may fetch it."""
        name = bytes.fromhex(session)
        self.server.make_durable(name)
        chunks = len(self.server.sessions[name].stored)
        success, errors = self.server.store.durable.read()
        return {"chunks": chunks, "durable": success, "errors": errors}

    def digest(self, slot: int, tokens: int) -> dict[str, Any]:
        """Digest the cached numbers of a slot."""
        self.stream.launch("digest", slot=slot, tokens=tokens)
        return {"digest": self.stream.synchronize()[-1]}

    def drop(self, session: str) -> dict[str, Any]:
        """Drop a session's KV; its memory goes to the next session."""
        return {"slot": self.server.drop(bytes.fromhex(session))}

    def offer(self) -> dict[str, Any]:
        """Poison a free slot and let the NIC land a session there."""
        slot = self.server.resume.free[0]
        self.stream.launch("poison", slot=slot)
        self.stream.synchronize()
        return {"slot": self.server.resume.offer()}

    def landed(self) -> dict[str, Any]:
        """The slot that the received packet's session has landed in."""
        assert self.packet is not None
        return {"slot": self.server.resume.landed(self.packet)}

    def flipped(self, slot: int, tokens: int, prompt: str) -> dict[str, Any]:
        """Run the first step of a turn on a copy of `slot` with one bit flipped, and on one without."""
        spare = self.server.resume.take()
        logits = []
        for flip in (False, True):
            self.stream.launch("copy", source=slot, target=spare)
            if flip:
                self.stream.launch("flip", slot=spare, layer=0, half=1, token=tokens // 2)
            logits.append(self._forward(list(prompt.encode()), spare, tokens)["logits"])
        self.server.resume.drop(spare)
        return {"intact": logits[0], "flipped": logits[1]}

    def _forward(self, tokens: list[int], slot: int, position: int) -> dict[str, Any]:
        self.stream.launch("start", tokens=tokens, position=position)
        for layer in range(self.server.config.layers):
            self.stream.launch("layer", index=layer, slot=slot, position=position)
        self.stream.launch("logits")
        result: dict[str, Any] = self.stream.synchronize()[-1]
        return result

    def reference(self, prompts: list[str]) -> dict[str, Any]:
        """Compute the same turns in a slot of their own where nothing is ever evicted."""
        slot = self.server.resume.take()
        tokens: list[int] = []
        turns = []
        for prompt in prompts:
            new = list(prompt.encode())
            if not tokens:
                new = [serving.decoder.BOS, *new]
            result = self._forward(new, slot, len(tokens))
            tokens += new
            answer, logits = [result["token"]], [result["logits"]]
            while True:
                tokens.append(answer[-1])
                result = self._forward(answer[-1:], slot, len(tokens) - 1)
                logits.append(result["logits"])
                if len(answer) == self.server.answer_tokens:
                    break
                answer.append(result["token"])
            turns.append({"answer": answer, "logits": logits})
        self.server.resume.drop(slot)
        return {"turns": turns}


def main() -> None:
    """Obey lines until the input ends."""
    host: DemoHost | None = None
    try:
        for line in sys.stdin:
            message = json.loads(line)
            try:
                if message["do"] == "open":
                    host = DemoHost(message["nic"], message["storage"], message["config"])
                    reply: dict[str, Any] = host.opened()
                else:
                    reply = getattr(host, message.pop("do"))(**message)
            except Exception as error:
                reply = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(reply), flush=True)
    finally:
        if host is not None:
            host.close()


if __name__ == "__main__":
    main()
