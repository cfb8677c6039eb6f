# SPDX-License-Identifier: Apache-2.0
"""The match-action engine: a program's IR, its tables, and what they make of a frame.

Specifications: P4-16 Language Specification 1.2.5 (meaning of programs), P4Runtime Specification 1.4 (tables,
ids). The IR interpreter is the definition; whatever is faster must agree with it.
"""

from . import arithmetic, chance, ir
from .architecture import HOST_PORT, Architecture, Arrival
from .architectures import ARCHITECTURES, last_port
from .arrays import MAX_COUNT, Count, CounterArray, MeterArray, RegisterArray
from .describe import p4info_of
from .dissection import FieldPlace
from .engine import Engine, Listener, TableStatus
from .externs import MAX_EFFECTS, ExternFunction, Kind, Stuck
from .interpreter import (
    MAX_EMITTED_BYTES,
    MAX_FRAME_BYTES,
    MAX_STATES,
    MAX_TURNS,
    Interpreter,
    reason_of,
)
from .ir import Program
from .ir_dot import dot_of
from .ir_json import MAX_DEPTH, json_of
from .ir_walk import nodes_of
from .matches import Exact, Lpm, Match, Optional, Range, Ternary, matches_text, width_of
from .meters import (
    METER_TYPES,
    UNCOUNTED,
    Colours,
    Meter,
    MeterConfig,
    MeterMode,
    MeterState,
)
from .names import full_name, key_name
from .nic_externs import NIC_METADATA
from .objects import MAX_ALL_REPLICAS, CloneSession, Objects, Replica
from .own_externs import OwnExterns, extern, externs_in, read_externs
from .p4info import (
    PACKAGE_FACTS,
    PLATFORM_PROPERTIES,
    ActionCallInfo,
    ActionInfo,
    ActionRefInfo,
    ArgumentInfo,
    CounterInfo,
    DigestInfo,
    DirectCounterInfo,
    DirectMeterInfo,
    KeyInfo,
    MeterInfo,
    P4Info,
    P4InfoObject,
    PacketMetadataInfo,
    ParameterInfo,
    ProfileInfo,
    RegisterInfo,
    TableInfo,
    ValueSetInfo,
)
from .p4info_ids import PREFIXES, Prefix, allocate_ids, numbers_of
from .packet_state import PacketState
from .profiles import ActionProfile, ActionSet, Choice, Group, Member
from .selector_limits import SEMANTICS, SelectorLimits, literal_value
from .shapes import shaped
from .shared_externs import HASH_ALGORITHMS
from .table_entry import Row, TableEntry
from .tables import Table
from .trace import Departed, Event
from .trace_text import trace_json, trace_lines, value_text
from .v1model import DROP_PORT, Clone, InstanceType, V1Outcome, digest_of, message_of
from .v1switch import MAX_AGAIN_BYTES, MAX_COPIES, MAX_ROUNDS, Journey
from .value_sets import ValueSet
from .values import HeaderValue, Layouts, StackValue, UnionValue, Value, Varbits, plain
from .verdict import (
    CounterAdd,
    DigestConfig,
    DigestPosted,
    DigestReport,
    Disposition,
    Effect,
    EventPosted,
    LogMessage,
    PacketIn,
    Report,
    Verdict,
    WorkArmed,
)
from .verify import MAX_TABLE_SIZE, program_of_json, verify

__all__ = [
    "ARCHITECTURES",
    "DROP_PORT",
    "HASH_ALGORITHMS",
    "HOST_PORT",
    "MAX_AGAIN_BYTES",
    "MAX_ALL_REPLICAS",
    "MAX_COPIES",
    "MAX_COUNT",
    "MAX_DEPTH",
    "MAX_EFFECTS",
    "MAX_EMITTED_BYTES",
    "MAX_FRAME_BYTES",
    "MAX_ROUNDS",
    "MAX_STATES",
    "MAX_TABLE_SIZE",
    "MAX_TURNS",
    "METER_TYPES",
    "NIC_METADATA",
    "PACKAGE_FACTS",
    "PLATFORM_PROPERTIES",
    "PREFIXES",
    "SEMANTICS",
    "UNCOUNTED",
    "ActionCallInfo",
    "ActionInfo",
    "ActionProfile",
    "ActionRefInfo",
    "ActionSet",
    "Architecture",
    "ArgumentInfo",
    "Arrival",
    "Choice",
    "Clone",
    "CloneSession",
    "Colours",
    "Count",
    "CounterAdd",
    "CounterArray",
    "CounterInfo",
    "Departed",
    "DigestConfig",
    "DigestInfo",
    "DigestPosted",
    "DigestReport",
    "DirectCounterInfo",
    "DirectMeterInfo",
    "Disposition",
    "Effect",
    "Engine",
    "Event",
    "EventPosted",
    "Exact",
    "ExternFunction",
    "FieldPlace",
    "Group",
    "HeaderValue",
    "InstanceType",
    "Interpreter",
    "Journey",
    "KeyInfo",
    "Kind",
    "Layouts",
    "Listener",
    "LogMessage",
    "Lpm",
    "Match",
    "Member",
    "Meter",
    "MeterArray",
    "MeterConfig",
    "MeterInfo",
    "MeterMode",
    "MeterState",
    "Objects",
    "Optional",
    "OwnExterns",
    "P4Info",
    "P4InfoObject",
    "PacketIn",
    "PacketMetadataInfo",
    "PacketState",
    "ParameterInfo",
    "Prefix",
    "ProfileInfo",
    "Program",
    "Range",
    "RegisterArray",
    "RegisterInfo",
    "Replica",
    "Report",
    "Row",
    "SelectorLimits",
    "StackValue",
    "Stuck",
    "Table",
    "TableEntry",
    "TableInfo",
    "TableStatus",
    "Ternary",
    "UnionValue",
    "V1Outcome",
    "Value",
    "ValueSet",
    "ValueSetInfo",
    "Varbits",
    "Verdict",
    "WorkArmed",
    "allocate_ids",
    "arithmetic",
    "chance",
    "digest_of",
    "dot_of",
    "extern",
    "externs_in",
    "full_name",
    "ir",
    "json_of",
    "key_name",
    "last_port",
    "literal_value",
    "matches_text",
    "message_of",
    "nodes_of",
    "numbers_of",
    "p4info_of",
    "plain",
    "program_of_json",
    "read_externs",
    "reason_of",
    "shaped",
    "trace_json",
    "trace_lines",
    "value_text",
    "verify",
    "width_of",
]
