# SPDX-License-Identifier: Apache-2.0
"""Brings a device a pipeline that is ready to be sent, without knowing what is in it.

Source: P4Runtime Specification 1.4, "SetForwardingPipelineConfig RPC".
"""

from __future__ import annotations

from .arbitration import passing_role
from .connection import Connection
from .messages import ConfigAction, messages
from .stream import uint128

TIMEOUT_S = 10.0


def load_pipeline(address: str, config: bytes, device_id: int = 1, *, keep: bool = False) -> None:
    """Have the device run the pipeline of a serialized ForwardingPipelineConfig, in a role of this
    call's own, with what it holds if it is to `keep` that.

    Raises: ControlError, and the old program goes on.
    """
    role, election_id = passing_role(), 1
    action = ConfigAction.RECONCILE_AND_COMMIT if keep else ConfigAction.VERIFY_AND_COMMIT
    request = messages().SetForwardingPipelineConfigRequest(device_id=device_id, action=action)
    request.election_id.CopyFrom(uint128(election_id))
    request.role = role
    request.config.MergeFromString(config)
    connection = Connection(address, TIMEOUT_S)
    try:
        connection.arbitrate(device_id, election_id, role)
        connection.call("SetForwardingPipelineConfig", request)
    finally:
        connection.close()
