# SPDX-License-Identifier: Apache-2.0
"""Brings a device a pipeline that is ready to be sent, without knowing what is in it.

Source: P4Runtime Specification 1.4, "SetForwardingPipelineConfig RPC".
"""

from __future__ import annotations

import time

from .connection import Connection
from .messages import messages
from .stream import uint128

VERIFY_AND_COMMIT = 3
TIMEOUT_S = 10.0


def load_pipeline(address: str, config: bytes, device_id: int = 1) -> None:
    """Have the device run the pipeline of a serialized ForwardingPipelineConfig, as its newest primary.

    Raises: ControlError, and the old program goes on.
    """
    election_id = time.time_ns()
    request = messages().SetForwardingPipelineConfigRequest(device_id=device_id, action=VERIFY_AND_COMMIT)
    request.election_id.CopyFrom(uint128(election_id))
    request.config.MergeFromString(config)
    connection = Connection(address, TIMEOUT_S)
    try:
        connection.arbitrate(device_id, election_id)
        connection.call("SetForwardingPipelineConfig", request)
    finally:
        connection.close()
