# SPDX-License-Identifier: Apache-2.0
"""From what a script says to what the engine takes: tables, keys and actions by name, and values of keys.

A name stands for what is called so; else for the one that ends in it behind a dot; else for the one that ends
in it at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nicemu.pipeline import (
    ActionInfo,
    Exact,
    KeyInfo,
    Lpm,
    Match,
    Optional,
    ParameterInfo,
    Range,
    TableEntry,
    TableStatus,
    Ternary,
    ir,
)

from .commands import ActionText, Add, KeyText, Word
from .line_reader import ScriptError, fault

_ELEMENT = re.compile(r"\$([0-9]+)")
_BITS = {"x": 4, "b": 1, "o": 3}
_PRIORITISED = ("ternary", "range", "optional")
_ADDRESS_BITS = 32
DEFAULT_PRIORITY = 1
"""Of an entry that is added without one where it needs one."""


def whole_name(word: Word, names: Iterable[str], what: str) -> str:
    """Return the name that `word` stands for among `names`. Raises: ScriptError, which calls it `what`."""
    known = list(dict.fromkeys(names))
    if word.text in known:
        return word.text
    for ending in (f".{word.text}", word.text):
        found = [name for name in known if name.endswith(ending)]
        if len(found) == 1:
            return found[0]
        if found:
            break
    if found:
        raise fault(word.location, f"{what} {word.text} is one of {', '.join(found)}; write more of its name")
    there = f"there is {', '.join(known)}" if known else "there is none"
    raise fault(word.location, f"there is no {what} {word.text}", there)


def table_named(word: Word, tables: Sequence[TableStatus]) -> TableStatus:
    """Return the table that a script means. Raises: ScriptError."""
    name = whole_name(word, [table.name for table in tables], "table")
    return next(table for table in tables if table.name == name)


def entry_of(command: Add, table: TableStatus) -> TableEntry:
    """Return the entry that `add` means: keys that it leaves out match 0 (exact) or everything.

    Raises: ScriptError.
    """
    given: dict[str, Match] = {}
    for text in command.keys:
        key = _key(text.name, table.keys)
        if key.name in given:
            raise fault(text.name.location, f"key {key.name} is given twice")
        given[key.name] = _match(text, key)
    matches = tuple(given.get(key.name) or _left_out(key) for key in table.keys)
    action, parameters = call_of(command.action, table.actions)
    return TableEntry(matches, action, parameters, _priority(command, table))


def call_of(text: ActionText, actions: Sequence[ActionInfo]) -> tuple[str, tuple[int, ...]]:
    """Return an action's whole name and its data in order. Raises: ScriptError."""
    name = whole_name(text.name, [action.name for action in actions], "action")
    params = {item.name: item for item in next(one for one in actions if one.name == name).params}
    given: dict[str, int] = {}
    for word, value in text.arguments:
        parameter = whole_name(word, params, f"parameter of {name}")
        if parameter in given:
            raise fault(word.location, f"parameter {parameter} is given twice")
        given[parameter] = _bits(value, params[parameter], "parameter")
    missing = [item for item in params if item not in given]
    if missing:
        raise fault(text.name.location, f"action {name} lacks {', '.join(missing)}")
    return name, tuple(given[item] for item in params)


def _priority(command: Add, table: TableStatus) -> int:
    """Return the engine's priority; the larger one wins in scripts too."""
    if not any(key.match_kind in _PRIORITISED for key in table.keys):
        return 0
    if command.priority is None:
        return DEFAULT_PRIORITY
    return command.priority + DEFAULT_PRIORITY


def _key(word: Word, keys: Sequence[KeyInfo]) -> KeyInfo:
    """Return the key that a script means: `stack$1.f` is stack[1].f, and `h.$valid` the validity of h."""
    names = [key.name for key in keys]
    text = _ELEMENT.sub(r"[\1]", word.text)
    meant = [text, f"{text}$", f"{text}.$valid$", re.sub(r"(^|\.)valid$", r"\1$valid$", text)]
    for candidate in meant:
        if candidate in names:
            return keys[names.index(candidate)]
    for candidate in meant:
        if any(name.endswith(f".{candidate}") for name in names):
            return keys[names.index(whole_name(Word(candidate, word.location), names, "key"))]
    return keys[names.index(whole_name(word, names, "key"))]


def _left_out(key: KeyInfo) -> Match:
    match key.match_kind:
        case "exact":
            return Exact(0)
        case "lpm":
            return Lpm(0, 0)
        case "ternary":
            return Ternary(0, 0)
        case "range":
            return Range(0, (1 << key.width) - 1)
    return Optional(None)


def _match(text: KeyText, key: KeyInfo) -> Match:
    joints = {"lpm": ("", "/"), "ternary": ("", "/", "&&&"), "range": ("", "..")}.get(key.match_kind, ("",))
    if text.joint not in joints:
        raise fault(
            text.value.location, f"key {key.name} is {key.match_kind}; {text.joint} cannot stand in it"
        )
    if text.value.text == "*" and not text.joint and key.match_kind != "exact":
        return _left_out(key)
    match key.match_kind:
        case "lpm":
            return Lpm(*_prefix(text, key))
        case "ternary":
            return Ternary(*_masked(text, key))
        case "range":
            return _range(text, key)
        case "optional":
            return Optional(_value(text.value, key))
    return Exact(_value(text.value, key))


def _value(word: Word, key: KeyInfo) -> int:
    if "*" in word.text:
        raise _open_digits(word, key)
    return _bits(word, key, "key")


def _bits(word: Word, typed: KeyInfo | ParameterInfo, what: str) -> int:
    """Return a number as the bits of its type's value: of int<N> it may have a minus, or be the bits."""
    number, kind = word.number(), _type_of(typed)
    if word.is_address and typed.width != _ADDRESS_BITS:
        raise fault(word.location, f"{word.text} is an address of 32 bits; {what} {typed.name} is {kind}")
    lowest = -(1 << typed.width - 1) if isinstance(kind, ir.Bits) and kind.signed else 0
    if not lowest <= number < 1 << typed.width:
        raise fault(word.location, f"{word.text} does not fit {what} {typed.name}, which is {kind}")
    return number & (1 << typed.width) - 1


def _type_of(typed: KeyInfo | ParameterInfo) -> ir.Type:
    return typed.type or ir.Bits(typed.width)


def _range(text: KeyText, key: KeyInfo) -> Range:
    """Return a range of bits, in which those of numbers below 0 come last."""
    low, second = _value(text.value, key), text.second
    if second is None:
        return Range(low, low)
    high, first_negative = _value(second, key), 1 << key.width - 1
    if text.value.is_negative and high < first_negative:
        hint = "write two entries, one up to -1, one from 0"
        raise fault(text.value.location, f"the range of key {key.name} passes 0", hint)
    if second.is_negative and low < first_negative:
        raise fault(text.value.location, f"the range of key {key.name} is empty")
    if low > high:
        raise fault(text.value.location, f"the range of key {key.name} is empty", "write the smaller first")
    return Range(low, high)


def _open_digits(word: Word, key: KeyInfo) -> ScriptError:
    return fault(word.location, f"key {key.name} is {key.match_kind}; no digit of {word.text} can be open")


def _prefix(text: KeyText, key: KeyInfo) -> tuple[int, int]:
    """Return value and prefix length: the digits before `*`, or all that are written, unless `/` says it."""
    word = text.value
    if text.second is not None:
        length = text.second.number()
        if length > key.width:
            raise fault(text.second.location, f"key {key.name} is {_type_of(key)}; {length} is too long")
        behind = key.width - length
        return _value(word, key) >> behind << behind, length
    if word.is_whole:
        return _value(word, key), key.width
    digits = word.text[2:]
    written = digits.rstrip("*")
    if "*" in written:
        raise fault(word.location, f"key {key.name} is lpm; * can only stand at the end of {word.text}")
    bits = _BITS[word.text[1].lower()]
    number = int(digits.replace("*", "0") or "0", 1 << bits)
    beyond = max(len(digits) * bits - key.width, 0)
    length = max(len(written) * bits - beyond, 0)
    if number >> key.width:
        raise fault(word.location, f"{word.text} does not fit key {key.name}, which is {_type_of(key)}")
    if number & ((1 << (key.width - length)) - 1):
        raise fault(
            word.location,
            f"{word.text} means a prefix of {length} bits, as many as its digits have; key {key.name} has "
            f"{key.width}, and the value has bits set behind them",
            f"write all digits, or the length: {word.text.replace('*', '0')}/{key.width}",
        )
    return number, length


def _masked(text: KeyText, key: KeyInfo) -> tuple[int, int]:
    """Return value and mask. Of digits in base 2, 8 or 16 only those that are written and no `*` count."""
    word, ones = text.value, (1 << key.width) - 1
    if text.second is not None:
        if text.joint == "/":
            value, length = _prefix(text, key)
            return value, ones >> (key.width - length) << (key.width - length)
        mask = _value(text.second, key)
        return _value(word, key) & mask, mask
    if word.is_whole:
        return _value(word, key), ones
    base = 1 << _BITS[word.text[1].lower()]
    digits = word.text[2:]
    value = int(digits.replace("*", "0"), base)
    mask = int("".join("0" if digit == "*" else _largest(base) for digit in digits), base) & ones
    if value >> key.width:
        raise fault(word.location, f"{word.text} does not fit key {key.name}, which is {_type_of(key)}")
    return value & mask, mask


def _largest(base: int) -> str:
    return f"{base - 1:x}"
