# SPDX-License-Identifier: Apache-2.0
"""Annotations as P4Info's messages.

Source: P4Runtime Specification 1.4, "Annotating P4 Entities with Documentation", "PkgInfo Message".
"""

from __future__ import annotations

from collections.abc import Iterable

from nicemu.pipeline import ir

from .messages import Message


def fill_annotations(message: Message, annotations: Iterable[ir.Annotation]) -> None:
    """Add annotations to a Preamble or PkgInfo; what documents goes into its documentation."""
    for item in annotations:
        if item.name in ("brief", "description"):
            setattr(message.doc, item.name, item.body)
        else:
            message.annotations.append(f"@{item.name}({item.body})" if item.body else f"@{item.name}")


def annotations_of(message: Message) -> tuple[ir.Annotation, ...]:
    """Return the annotations of a Preamble or PkgInfo."""
    texts = {name: getattr(message.doc, name) for name in ("brief", "description")}
    found = [ir.Annotation(name, text) for name, text in texts.items() if text]
    for written in message.annotations:
        name, bracket, body = written.removeprefix("@").partition("(")
        found.append(ir.Annotation(name, body.removesuffix(")") if bracket else ""))
    return tuple(found)
