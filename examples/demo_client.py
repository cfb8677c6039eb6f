# SPDX-License-Identifier: Apache-2.0
"""The client process of `nicemu demo`: two users behind one UDP socket; one JSON line in, one out."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

from nicemu.kv import Answer, KvProtocolError, Request, decode


def main() -> None:
    """Obey lines until the input ends: {"do": "send"} sends a prompt, {"do": "answer"} waits for its
    answer.
    """
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(("127.0.0.1", 0))
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "send":
            request = Request(
                message["request_id"], bytes.fromhex(message["session"]), message["prompt"].encode()
            )
            sent = link.sendto(request.encode(), (message["host"], message["port"]))
            reply: dict[str, Any] = {"bytes": sent}
        else:
            reply = wait_for(link, message["request_id"], message["timeout_s"])
        print(json.dumps(reply), flush=True)


def wait_for(link: socket.socket, request_id: int, timeout_s: float) -> dict[str, Any]:
    """Return the answer to a request."""
    link.settimeout(timeout_s)
    while True:
        try:
            answer = decode(link.recv(65536))
        except TimeoutError:
            return {"error": f"no answer to request {request_id} within {timeout_s} s"}
        except KvProtocolError:
            continue
        if isinstance(answer, Answer) and answer.request_id == request_id:
            return {"answer": answer.body.hex(), "restored": answer.restored}


if __name__ == "__main__":
    main()
