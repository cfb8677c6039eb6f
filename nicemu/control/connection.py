# SPDX-License-Identifier: Apache-2.0
"""A client's connection to a P4Runtime server: its StreamChannel, its calls, gRPC's errors as ControlError.

Source: P4Runtime Specification 1.4, "Client Arbitration and Controller Replication", "Error Reporting
Messages".
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from nicemu.errors import ControlError, NicemuError, P4RuntimeCode

from .messages import MAX_MESSAGE_BYTES, SERVICE, STATUS_DETAILS, Message, messages, parse, serialize
from .status_details import MAX_DETAILS_BYTES, MAX_DETAILS_KEY, code_of, errors_of_status
from .stream import election_id_of, uint128

_METADATA = ((MAX_DETAILS_KEY, str(MAX_DETAILS_BYTES)),)


class BatchError(ControlError):
    """A refused request, with what became of each of its parts."""

    def __init__(self, code: P4RuntimeCode, message: str, outcomes: list[ControlError | None]) -> None:
        super().__init__(code, message)
        self.outcomes = outcomes


class Connection:
    """One channel with one open StreamChannel. Requests of the stream wait in a queue that ends with None."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._channel = grpc.insecure_channel(
            address,
            options=[
                ("grpc.enable_http_proxy", 0),
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_metadata_size", MAX_DETAILS_BYTES * 2),
                ("grpc.absolute_max_metadata_size", MAX_DETAILS_BYTES * 2),
            ],
        )
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[Message | Exception] = queue.SimpleQueue()
        open_stream = self._channel.stream_stream(f"/{SERVICE}/StreamChannel")
        self._stream: Any = open_stream(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read_stream, name="p4runtime-client", daemon=True)
        self._reader.start()

    def arbitrate(self, device_id: int, election_id: int, role: str = "") -> None:
        """Become the primary of a role, "" for the default one.

        Raises: ControlError if another's election id is higher, or nobody answers.
        """
        request = messages().StreamMessageRequest()
        request.arbitration.device_id = device_id
        if role:
            request.arbitration.role.name = role
        request.arbitration.election_id.CopyFrom(uint128(election_id))
        self._requests.put(serialize(request))
        while (reply := self.receive(self._timeout_s)) is not None:
            if reply.WhichOneof("update") != "arbitration":
                continue
            told = reply.arbitration
            if told.status.code == int(P4RuntimeCode.OK):
                return
            if (election_id_of(told) or 0) > election_id:  # else it was said before this one came
                raise not_primary(told, election_id)
        raise ControlError(
            P4RuntimeCode.DEADLINE_EXCEEDED, f"{self._address} did not answer within {self._timeout_s} s"
        )

    def send(self, message: Message) -> None:
        """Send a message on the stream."""
        self._requests.put(serialize(message))

    def receive(self, timeout_s: float | None) -> Message | None:
        """Return the next message of the stream; None if none comes in time.

        Raises: ControlError, now and from now on, where the stream has ended.
        """
        try:
            reply = self._replies.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if not isinstance(reply, Exception):
            return reply
        self._replies.put(reply)
        if isinstance(reply, grpc.RpcError):
            raise self._control_error(reply)
        raise reply

    def call(self, method: str, request: Message) -> Message:
        """Return the response of a method. Raises: ControlError."""
        call = self._channel.unary_unary(f"/{SERVICE}/{method}")
        try:
            data = call(serialize(request), timeout=self._timeout_s, metadata=_METADATA)
        except grpc.RpcError as error:
            raise self._control_error(error) from None
        return parse(f"{method}Response", data)

    def call_for_stream(self, method: str, request: Message) -> Iterator[Message]:
        """Yield the responses of a method. Raises: ControlError."""
        call = self._channel.unary_stream(f"/{SERVICE}/{method}")
        try:
            for data in call(serialize(request), timeout=self._timeout_s, metadata=_METADATA):
                yield parse(f"{method}Response", data)
        except grpc.RpcError as error:
            raise self._control_error(error) from None

    def close(self) -> None:
        """End the stream, the thread that reads it, and the channel."""
        self._requests.put(None)
        self._stream.cancel()
        self._reader.join()
        self._channel.close()

    def _read_stream(self) -> None:
        """Hand on what comes; behind it, why nothing comes any more."""
        end: Exception = ControlError(P4RuntimeCode.ABORTED, f"{self._address} has ended the stream")
        try:
            for data in self._stream:
                self._replies.put(parse("StreamMessageResponse", data))
        except (grpc.RpcError, NicemuError) as error:
            end = error
        finally:
            self._replies.put(end)

    def _control_error(self, error: Any) -> ControlError:  # noqa: ANN401 - gRPC's calls are its errors
        code = code_of(error.code().value[0])
        sentence = error.details() or code.name
        if code is P4RuntimeCode.UNAVAILABLE:
            sentence = f"cannot reach a P4Runtime server at {self._address}: {sentence}"
        for key, value in error.trailing_metadata() or ():
            if key == STATUS_DETAILS:
                outcomes = errors_of_status(value)
                alone = outcomes[0] if len(outcomes) == 1 else None
                return (
                    BatchError(alone.code, str(alone), outcomes)
                    if alone
                    else BatchError(code, sentence, outcomes)
                )
        return ControlError(code, sentence)


def not_primary(told: Message, election_id: int) -> ControlError:
    """Return the error of a client that a MasterArbitrationUpdate says is not primary."""
    return ControlError(
        P4RuntimeCode.PERMISSION_DENIED,
        f"election id {election_id} is not the primary of device {told.device_id}: {election_id_of(told)} is "
        "the highest that the server has seen",
    )
