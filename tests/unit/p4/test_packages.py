# SPDX-License-Identifier: Apache-2.0
"""P4-16, "Architecture description": packages beside main, which nothing runs, and what they are given."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

PACKAGES = "struct p_t { bit<8> l; bit<16> r; } TriggerCounter() cc; register<bit<16>>(4) rr; "


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("package PA(p_t a); PA({ 1, 2, 3 }) x;", "argument a has 3 values; struct p_t has 2 fields"),
        ("package PA(p_t a); PA({ l = 1, zz = 2 }) x;", "struct p_t has no field zz"),
        ("package PA(p_t a); PA(true) x;", "argument a is bool; struct p_t was expected"),
        ("package PB(TriggerCounter a); PB(1) x;", "argument a is no object; extern TriggerCounter was"),
        ("package PB(counter a); PB(cc) x;", "argument a is extern TriggerCounter; extern counter was"),
        ("package PB(counter a); PB(TriggerCounter()) x;", "argument a is extern TriggerCounter"),
        ("package PB(counter a); PB(counter(1)) x;", "counter takes 2 arguments; 1 is given"),
        ("package PR<T>(register<T> r); PR<bit<8>>(rr) x;", "argument r is extern register<bit<16>>"),
        (
            "package PR(register<bit<8>> r); PR(register<bit<16>>(8)) x;",
            "argument r is extern register<bit<16>>",
        ),
        ("package PS(string a); PS(1) x;", "argument a is int; string was expected"),
        ("package PT(tuple<bit<8>, bool> a); PT({ 1 }) x;", "argument a has 1 values"),
        ("package PL(list<bit<8>> a); PL({ 1, true }) x;", "an element is bool; bit<8> was expected"),
        ("package PK<T>(T a, T b); PK(8w1, 16w2) x;", "argument b is bit<16>; bit<8> was expected"),
        ("package PK<T>(T a, T b); PK<bit<8>>(16w1, 2) x;", "argument a is bit<16>; bit<8> was expected"),
        ("package PO(@optional bit<8> a, bit<8> b); PO(1) x;", "PO takes 2 arguments; 1 is given"),
    ],
)
def test_what_a_package_beside_main_is_given_is_checked(
    p4: SimpleNamespace, package: str, message: str
) -> None:
    assert f": error: {message}" in p4.refusal(top=PACKAGES + package)


@pytest.mark.parametrize(
    "package",
    [
        "package PA(p_t a); PA({ l = 1, r = 2 }) x;",
        "package PB(TriggerCounter a); PB(cc) x;",
        "package PB(TriggerCounter a); PB(TriggerCounter()) x;",
        'package PS(string a); PS("x") x;',
        "package PL(list<bit<8>> a); PL({ 1, 2 }) x;",
        "package PK<T>(T a, T b); PK(8w1, 2) x;",
        "package PK<T>(T a, T b); PK(2, 8w1) x;",
        "package PK<T>(register<T> r); PK(rr) x;",
        "package PR(register<bit<16>> r); PR(register<bit<16>>(8)) x;",
        "package PO(@optional bit<8> a, bit<8> b); PO(b = 1) x;",
    ],
)
def test_a_package_beside_main_takes_what_its_parameters_say(p4: SimpleNamespace, package: str) -> None:
    assert p4.compile(top=PACKAGES + package)
