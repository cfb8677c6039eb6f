# SPDX-License-Identifier: Apache-2.0
"""The types that one random program declares, and what of its metadata leaves with the packet."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.reliability import p4_meaning_tree as tree
from tests.reliability.p4_meaning import STANDARD
from tests.reliability.p4_meaning_tree import (
    Bits,
    Bool,
    Error,
    Literal,
    Member,
    Named,
    Record,
    StackOf,
    Type,
    Varbit,
    Variable,
)
from tests.reliability.p4_meaning_values import width

ERRORS = ["NotGood", "NotBetter"]
OBSERVED_ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", *ERRORS]


@dataclass
class Types:
    """The types of one program."""

    numbers: list[Bits]
    named: list[Named]
    headers: list[Record]
    varied: Record
    union: Record
    pair: Record
    both: Record
    meta: Record
    whole: Record


def padded(fields: list[tuple[str, Type]]) -> tuple[tuple[str, Type], ...]:
    rest = -sum(width(kind) for _, kind in fields) % 8
    return (*fields, ("pad", Bits(rest))) if rest else tuple(fields)


def random_types(random: Random) -> Types:
    widths = [8, random.randint(1, 16), random.choice((32, 64, 128, random.randint(17, 130)))]
    numbers = [Bits(one) for one in dict.fromkeys(widths)]
    numbers += [Bits(one, True) for one in {random.randint(2, 16), random.choice((8, 32, 65, 128))}]
    named: list[Named] = [Named("tag_t", random.choice((8, 9, 24)))]
    named.append(Named("op_t", 8, (("READ", 1), ("WRITE", random.randint(2, 255)), ("NONE", 0))))
    scalars: list[Type] = [*numbers, *named, Bool()]
    headers = []
    for name in ("a_t", "b_t"):
        inner: list[tuple[str, Type]] = [
            (f"f{at}", random.choice(scalars)) for at in range(random.randint(2, 4))
        ]
        if random.random() < 0.5:
            inner.append(("g", StackOf(random.choice(scalars), random.choice((2, 4)))))
        headers.append(Record("header", name, padded([("k", Bits(8)), *inner])))
    varied = Record("header", "v_t", (("k", Bits(8)), ("v", Varbit(32))))
    union = Record("header_union", "u_t", (("a", headers[0]), ("b", headers[1])))
    pair = Record(
        "struct", "pair_t", (("x", random.choice(scalars)), ("y", random.choice(scalars)), ("h", headers[0]))
    )
    both = Record("tuple", "", (("0", random.choice(numbers)), ("1", random.choice(scalars))))
    meta = Record(
        "struct",
        "meta_t",
        (
            *((f"n{at}", kind) for at, kind in enumerate(scalars)),
            ("e", Error()),
            ("p", pair),
            ("q", pair),
            ("t", both),
            ("h", headers[1]),
            ("s", StackOf(headers[0], random.choice((2, 4)))),
            *((f"g{at}", kind) for at, kind in enumerate(_arrays(random, scalars, [both]))),
        ),
    )
    whole = Record(
        "struct",
        "headers_t",
        (
            ("o", Record("header", "o_t", observed_fields(meta))),
            ("a", headers[0]),
            ("b", headers[1]),
            ("c", headers[0]),
            ("v", varied),
            ("w", varied),
            ("u", union),
            ("s", StackOf(headers[0], random.choice((2, 4)))),
        ),
    )
    return Types(numbers, named, headers, varied, union, pair, both, meta, whole)


def _arrays(random: Random, scalars: list[Type], records: list[Type]) -> list[Type]:
    """Some arrays; of structs with headers in them none, which kernels leave to the interpreter."""
    of_numbers = StackOf(random.choice(scalars), random.choice((2, 4)))
    return random.sample([of_numbers, StackOf(of_numbers, 2), StackOf(random.choice(records), 2)], 2)


def leaves(base: tree.Expression, kind: Type) -> list[tuple[tree.Expression, list[tree.Expression]]]:
    """The scalars in a value, each with the headers that must be valid for it; of headers, validity too."""
    found: list[tuple[tree.Expression, list[tree.Expression]]] = []
    if isinstance(kind, Record):
        above = [base] if kind.kind == "header" else []
        if above:
            found.append((tree.IsValid(Bool(), base), []))
        for name, inner in kind.fields:
            found += [(each, above + more) for each, more in leaves(Member(inner, base, name), inner)]
    elif isinstance(kind, StackOf):
        for at in range(kind.size):
            found += leaves(tree.Index(kind.element, base, Literal(Bits(8), at)), kind.element)
    elif isinstance(kind, Error):
        found += [(tree.Binary(Bool(), "==", base, Literal(Error(), one)), []) for one in OBSERVED_ERRORS]
    elif not isinstance(kind, Varbit):
        found.append((base, []))
    return found


def observed_leaves(meta: Record) -> list[tuple[tree.Expression, list[tree.Expression]]]:
    standard = Member(Error(), Variable(STANDARD, "standard"), "parser_error")
    return leaves(Variable(meta, "meta"), meta) + leaves(standard, Error())


def observed_fields(meta: Record) -> tuple[tuple[str, Type], ...]:
    kinds = [each.kind for each, _ in observed_leaves(meta)]
    return padded([(f"o{at}", kind) for at, kind in enumerate(kinds) if kind is not None])
