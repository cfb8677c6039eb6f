# SPDX-License-Identifier: Apache-2.0
"""Brings a device a pipeline that is ready to be sent, without knowing what is in it.

Source: P4Runtime Specification 1.4, "SetForwardingPipelineConfig RPC".
"""

from __future__ import annotations

import time

from .connection import Connection
from .messages import ConfigAction, messages
from .stream import uint128

TIMEOUT_S = 10.0
TOOLS_ROLE = "nicemu"
"""The role of commands: it has access to all, and takes the default one from no controller."""


def load_pipeline(address: str, config: bytes, device_id: int = 1, *, keep: bool = False) -> None:
    """Have the device run the pipeline of a serialized ForwardingPipelineConfig, as the newest primary of
    `TOOLS_ROLE`, with what it holds if it is to `keep` that.

    Raises: ControlError, and the old program goes on.
    """
    election_id = time.time_ns()
    action = ConfigAction.RECONCILE_AND_COMMIT if keep else ConfigAction.VERIFY_AND_COMMIT
    request = messages().SetForwardingPipelineConfigRequest(device_id=device_id, action=action)
    request.election_id.CopyFrom(uint128(election_id))
    request.role = TOOLS_ROLE
    request.config.MergeFromString(config)
    connection = Connection(address, TIMEOUT_S)
    try:
        connection.arbitrate(device_id, election_id, TOOLS_ROLE)
        connection.call("SetForwardingPipelineConfig", request)
    finally:
        connection.close()
