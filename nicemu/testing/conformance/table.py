# SPDX-License-Identifier: Apache-2.0
"""The rules of triggered operations, by number, and where the numbered cases that are not here have gone."""

from __future__ import annotations

RULES: dict[str, str] = {
    "R1": "A counter is a success value and an error value, both 0 at first.",
    "R2": "What does not fit a counter is refused, and changes nothing.",
    "R3": "At its maximum a value stays there and raises a flag; sums do not wrap.",
    "R4": "Counting is one step, whoever counts; counting 0 fires nothing new.",
    "R5": "Setting replaces one value or both, as asked (Portals: always both).",
    "R6": "A set fires what it reaches; what has fired is not armed again by a lower value.",
    "R7": "A set while operations are in flight is one step, and is noted.",
    "R8": "Values become visible eventually.",
    "R9": "A wait ends when the success value gets there; else by a change of the error value, or in time.",
    "R10": "On Cassini every wait takes a trigger entry until the counter gets there.",
    "R11": "A counter of bytes counts the bytes of a success, and 1 for an error.",
    "R12": "Arrivals from a peer count at ordinary counters, which may trigger work.",
    "R13": "Arming and the look at the counter are one step: work is armed or has fired, never lost.",
    "R14": "A threshold of 0 fires at once.",
    "R15": "Objects, kinds and lengths are checked when work is armed, remote keys when it fires.",
    "R16": "Counter operations have no completion counter.",
    "R17": "Data operations need no completion counter.",
    "R18": "What was armed is copied and kept alive; payloads are read when it fires.",
    "R19": "Entries are finite, each kind of work takes one, and a full table is said at arming.",
    "R20": "A program is armed whole or not at all.",
    "R21": "What Cassini cannot defer is refused under its profile.",
    "R22": "Work fires when success plus errors have reached or passed its threshold.",
    "R23": "It fires once; its entry is free afterwards.",
    "R24": "What one count makes due fires by ascending threshold (profiles: arming order, shuffled).",
    "R25": "Equal thresholds fire in arming order.",
    "R26": "The order is that of initiation; one queue pair's operations take effect in it.",
    "R27": "A failed operation counts an error and always tells; what depends on it fires.",
    "R28": "A success counts once at the completion counter, and tells only if asked.",
    "R29": "An end counts when the bytes are there, or, if asked, when they have left.",
    "R30": "Completions trigger: chains, and chains that drive themselves.",
    "R31": "Cascades and cycles come to rest, however deep.",
    "R32": "What the transport cannot take now is kept and tried again without another count.",
    "R33": "A counter with much due work lets others have their turn.",
    "R34": "Whoever counts may fire: the host, a peer, a doorbell, other work.",
    "R35": "Chains of writes, reads, atomics and counts need no CPU; what does is told.",
    "R36": "A counter's values are published in a word with Cassini's layout.",
    "R37": "One operation can be cancelled: it fires or is cancelled, never both (profiles: not at all).",
    "R38": "What waits for a counter can be cancelled, and all that a process has armed.",
    "R39": "What was cancelled does nothing any more; its entries are free.",
    "R40": "A counter that work concerns is closed only by force, which cancels that work.",
    "R41": "Memory that work uses is given back only by force; the work then ends in error.",
    "R42": "Closing a NIC cancels what its process has armed.",
}
"""What each rule says, in a sentence."""

ELSEWHERE: dict[str, str] = {
    "C7": "not applicable: work requests have no INJECT flag",
    "C31": "out of scope: appending match entries is an extension of Portals",
    "C35": "live, tests/process/test_races.py",
    "C36": "live, tests/process/test_races.py",
    "C37": "live, tests/process/test_races.py",
    "C48": "tests/conformance/trigger/test_trigger_unit.py",
}
"""Cases of the list, C1 to C48, that are not cases of this suite, and why."""

CASE_COUNT = 48
