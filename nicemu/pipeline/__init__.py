# SPDX-License-Identifier: Apache-2.0
"""The match-action engine: a program's IR, its tables, and what they make of a frame.

Specifications: P4-16 Language Specification 1.2.5 (meaning of programs), P4Runtime Specification 1.4 (tables,
ids). The IR interpreter is the definition; whatever is faster must agree with it.
"""

from . import arithmetic, ir
from .architecture import Architecture
from .architectures import ARCHITECTURES
from .arrays import Count, CounterArray, RegisterArray
from .dissection import FieldPlace
from .engine import Engine, TableInfo
from .externs import ExternFunction, Kind
from .interpreter import MAX_FRAME_BYTES, reason_of
from .ir import Program
from .ir_dot import dot_of
from .ir_json import MAX_DEPTH
from .ir_walk import nodes_of
from .meters import Meter, MeterConfig
from .names import full_name
from .nic_externs import NIC_METADATA
from .objects import CloneSession, Objects, Replica
from .p4info import ActionInfo, KeyInfo, P4Info, ParameterInfo, TableDescription, allocate_ids, p4info_of
from .profiles import ActionProfile, ActionSet, Group, Member
from .tables import Exact, Lpm, Match, Optional, Range, Row, TableEntry, Ternary, width_of
from .trace import Departed, Event
from .trace_text import trace_json, trace_lines, value_text
from .v1switch import HOST_PORT
from .value_sets import ValueSet
from .values import Layouts
from .verdict import CounterAdd, DigestPosted, Disposition, Effect, EventPosted, LogMessage, Verdict
from .verify import verify

__all__ = [
    "ARCHITECTURES",
    "HOST_PORT",
    "MAX_DEPTH",
    "MAX_FRAME_BYTES",
    "NIC_METADATA",
    "ActionInfo",
    "ActionProfile",
    "ActionSet",
    "Architecture",
    "CloneSession",
    "Count",
    "CounterAdd",
    "CounterArray",
    "Departed",
    "DigestPosted",
    "Disposition",
    "Effect",
    "Engine",
    "Event",
    "EventPosted",
    "Exact",
    "ExternFunction",
    "FieldPlace",
    "Group",
    "KeyInfo",
    "Kind",
    "Layouts",
    "LogMessage",
    "Lpm",
    "Match",
    "Member",
    "Meter",
    "MeterConfig",
    "Objects",
    "Optional",
    "P4Info",
    "ParameterInfo",
    "Program",
    "Range",
    "RegisterArray",
    "Replica",
    "Row",
    "TableDescription",
    "TableEntry",
    "TableInfo",
    "Ternary",
    "ValueSet",
    "Verdict",
    "allocate_ids",
    "arithmetic",
    "dot_of",
    "full_name",
    "ir",
    "nodes_of",
    "p4info_of",
    "reason_of",
    "trace_json",
    "trace_lines",
    "value_text",
    "verify",
    "width_of",
]
