# SPDX-License-Identifier: Apache-2.0
"""Advice on calls of v1model's externs that do something else where they stand than they seem to.

Source: p4lang/behavioral-model, "The BMv2 Simple Switch target"; p4/include/v1model.p4.
"""

from __future__ import annotations

from nicemu.errors import counted

from . import syntax
from .diagnostics import Reporter
from .types import CompositeType

_CLONES = ("clone", "clone3", "clone_preserving_field_list")
_CLONE_TYPES = {"ingress": "I2E", "egress": "E2E"}
_ONLY_IN = {
    "resubmit": "ingress",
    "resubmit_preserving_field_list": "ingress",
    "recirculate": "egress",
    "recirculate_preserving_field_list": "egress",
}
OF_BEFORE = {
    "drop": "call mark_to_drop(standard_metadata)",
    "clone_spec": "instance_type tells whether a packet is a clone",
    "resubmit_flag": "call resubmit_preserving_field_list(0)",
    "recirculate_flag": "call recirculate_preserving_field_list(0)",
    "lf_field_list": "call digest(0, { ... })",
    "recirculate_port": "call recirculate_preserving_field_list(0)",
    "learn_flag": "call digest(0, { ... })",
}
"""Fields that standard metadata of older v1models had, and what is there instead."""


def advise(node: syntax.Call, name: str, role: str, reporter: Reporter) -> None:
    """Warn of a call in a role of the architecture, "" where that is not known."""
    arguments = node.arguments
    if name in _CLONES and role in _CLONE_TYPES and arguments:
        if arguments[0].value not in (None, list(_CLONE_TYPES).index(role)):
            what = f"simple_switch clones by where {name} is called, which is {role}, and not by this"
            reporter.warning(arguments[0].at, what, f"write CloneType.{_CLONE_TYPES[role]}")
    elif name in _ONLY_IN and role and role != _ONLY_IN[name]:
        reporter.warning(node.at, f"{name} is for {_ONLY_IN[name]}; this is {role}")
    elif name == "log_msg" and len(arguments) == 2 and isinstance(arguments[0].value, str):
        places, kind = arguments[0].value.count("{}"), arguments[1].type
        values = len(kind.fields) if isinstance(kind, CompositeType) else 1
        if places != values:
            what = f"log_msg has {counted(places, 'place')} {{}} for {counted(values, 'value')}"
            reporter.warning(node.at, what, "write {} for each value")
