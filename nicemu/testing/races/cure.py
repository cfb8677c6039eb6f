# SPDX-License-Identifier: Apache-2.0
"""Putting a race into words: what kind it is, which order is missing, how to add it."""

from __future__ import annotations

from .history import History
from .operation import Access, Armed, Count, Deregistration, Operation
from .report import Located, Race, RaceKind, short


def describe(history: History, one: Access, other: Access) -> Race:
    """Describe two accesses of the same bytes that have no order."""
    if one.actor == "operation" and other.actor == "operation":
        return _two_operations(history, one, other)
    if one.actor == "operation" or other.actor == "operation":
        access, work = (other, one) if one.actor == "operation" else (one, other)
        if work.is_landing:
            return _landing(history, access, work)
        return _source(history, access, work)
    return _host_and_stream(history, one, other)


def _race(history: History, kind: RaceKind, one: Access, other: Access, missing: str, cure: str) -> Race:
    first = max(one.first, other.first)
    length = min(one.end_address, other.end_address) - first
    causes = tuple(
        Located(access.operation.cause.text, access.operation.cause.place)
        for access in (one, other)
        if access.operation is not None and access.operation.cause is not None
    )
    accesses = (_located(one), _located(other))
    return Race(
        kind, one.nic, first, length, _memory(history, one.nic, first), accesses, causes, missing, cure
    )


def _located(access: Access) -> Located:
    verb = ""
    if access.actor == "operation":
        verb = " reads here" if access.mode == "r" else " writes here"
    return Located(f"{access.label}{verb}", access.place)


def _memory(history: History, nic: str, address: int) -> str:
    for region in reversed(history.hosts.regions):
        if region.nic == nic and region.address <= address < region.address + region.length_bytes:
            offset = address - region.address
            return f", byte {offset} of the memory registered at {short(region.place)}"
    return ""


def _wait(told: list[tuple[str, Count]], access: Access | None) -> str:
    """Return the call that waits for one of these counters before an access."""
    name, step = told[0]
    if step.success < 1:  # it ended in error, so successes of this counter say nothing
        return f"take the memory back when its work has ended: see that `{name}` counted it"
    value, all_of_them = step.success, ""
    if step.enough is not None:
        value = step.enough
        all_of_them = f" (others count at `{name}` in no order with it; or give it a counter of its own)"
    where = f" before {short(access.place)}" if access is not None and access.place else ""
    if access is not None and access.actor == "stream":
        return f"let the stream wait: `{name}.wait_on(stream, {value})`{where}{all_of_them}"
    return f"wait for it: `{name}.wait({value})`{where}{all_of_them}"


def _end_of(operation: Operation, access: Access | None) -> str:
    if operation.told:
        return _wait(operation.told, access)
    if operation.arrived:
        return _wait(operation.arrived, access)
    where = f" before {short(access.place)}" if access is not None and access.place else ""
    if operation.completion:
        return f"wait for its completion counter, `{operation.completion}`,{where}"
    return f"give the operation a completion counter (`then=counter`), and wait for that{where}"


def _source(history: History, access: Access, work: Access) -> Race:
    operation = work.operation
    assert operation is not None
    cause = operation.cause
    fired_from = cause.event if cause is not None else operation.armed
    what = operation.name
    if access.mode == "r":  # the operation writes, as an atomic does; somebody reads
        return _landing(history, access, work)
    if history.graph.is_before(fired_from, access.start):
        missing = f"nobody has waited for the end of {what} before {access.label}"
        cure = _end_of(operation, access)
        if cause is not None and access.actor == "stream":
            cure += "; if this is what should be sent, ring behind it"
        return _race(history, RaceKind.SOURCE_OVERWRITTEN, access, work, missing, cure)
    missing, cure = _fire_later(access, operation)
    return _race(history, RaceKind.SOURCE_NOT_READY, access, work, missing, cure)


def _fire_later(access: Access, operation: Operation) -> tuple[str, str]:
    """Say that an operation has to be fired after an access, and how to do that."""
    cause = operation.cause
    by = cause.text if cause is not None else "arming"
    missing = f"{access.label} has to come before {by}, which fires {operation.name}"
    if cause is not None and cause.by_hand and access.actor == "stream":
        counter = cause.text.strip("`").split(".")[0]
        return missing, (
            f"ring behind the kernel: `{counter}.trigger_after(stream)` after {short(access.place)} instead "
            f"of {cause.text} at {short(cause.place)} (or call `stream.synchronize()` before it)"
        )
    if cause is not None and access.actor == "stream":
        return missing, (
            f"put {by} into the same stream, behind {short(access.place)}; or synchronize the stream first"
        )
    where = f" at {short(cause.place)}" if cause is not None and cause.place else ""
    return missing, f"do it before {by}{where}"


def _landing(history: History, access: Access, work: Access) -> Race:
    operation = work.operation
    if operation is not None:
        fired_from = operation.armed if operation.cause is None else operation.cause.event
        if fired_from is not None and history.graph.is_before(access.host_event, fired_from):
            missing, cure = _fire_later(access, operation)
            return _race(history, RaceKind.LANDING_REUSED, access, work, missing, cure)
    missing = f"{access.label} has to come after the bytes have landed, and nothing says that they have"
    if operation is None:
        cure = "wait for the completion of the receive first"
    elif operation.arrived:
        cure = _wait(operation.arrived, access)
    elif work.nic == operation.nic:
        cure = _end_of(operation, access)
    else:
        cure = (
            "have the arrival counted (`nic.register(memory, counter)`, or an immediate), and wait for that "
            f"counter before {short(access.place)}"
        )
    return _race(history, RaceKind.LANDING_NOT_OBSERVED, access, work, missing, cure)


def _two_operations(history: History, one: Access, other: Access) -> Race:
    mine, its = one.operation, other.operation
    missing = "one of the two has to end before the other is fired"
    cure = "give each bytes of its own"
    first = mine if mine is not None and (its is None or mine.fired < its.fired) else its
    if first is not None and first.told:
        name, step = first.told[0]
        value = step.success if step.enough is None else step.enough
        cure += f", or let the later one wait for the other: `when({name} >= {value})`"
    elif first is not None:
        cure += ", or give the first a completion counter and let the other wait for it: `when(counter >= n)`"
    return _race(history, RaceKind.OVERLAPPING_OPERATIONS, one, other, missing, cure)


def _host_and_stream(history: History, one: Access, other: Access) -> Race:
    missing = f"{one.label} and {other.label} have no order"
    cure = "call `stream.synchronize()` in between, or do both in one stream"
    return _race(history, RaceKind.STREAM_NOT_SYNCHRONIZED, one, other, missing, cure)


def describe_deregistration(history: History, gone: Deregistration, operation: Operation) -> Race:
    """Describe a key that was taken back while an operation that uses it could still run."""
    here = [piece for piece in operation.pieces if piece[2] == gone.key and operation.nic == gone.nic]
    address, length = (here[0][0], here[0][1]) if here else (operation.remote, operation.length_bytes)
    cause = operation.cause
    causes = (Located(cause.text, cause.place),) if cause is not None else ()
    cure = _end_of(operation, None)
    return _deregistered(history, gone, operation.name, operation.place, address, length, causes, cure)


def describe_armed(history: History, gone: Deregistration, armed: Armed) -> Race:
    """Describe a key that was taken back under an operation that still waits."""
    address, length, _ = next(piece for piece in armed.pieces if piece[2] == gone.key)
    cure = "wait until it has fired and ended"
    return _deregistered(history, gone, armed.name, armed.place, address, length, (), cure)


def _deregistered(
    history: History,
    gone: Deregistration,
    name: str,
    place: str,
    address: int,
    length: int,
    causes: tuple[Located, ...],
    end: str,
) -> Race:
    missing = f"the end of {name} has to come before its memory is deregistered"
    cure = f"{end}; or cancel it (`program.cancel()`), before {short(gone.place)}"
    accesses = (Located("nic.deregister()", gone.place), Located(name, place))
    memory = _memory(history, gone.nic, address)
    return Race(RaceKind.DEREGISTERED, gone.nic, address, length, memory, accesses, causes, missing, cure)
