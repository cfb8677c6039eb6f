# SPDX-License-Identifier: Apache-2.0
"""Annotations as P4Info's messages.

Source: P4Runtime Specification 1.4, "Annotating P4 Entities with Documentation", "Structured Annotations",
"PkgInfo Message".
"""

from __future__ import annotations

from collections.abc import Iterable

from nicemu.pipeline import ir

from .messages import Message

_DOCUMENTATION = ("brief", "description")


def fill_annotations(message: Message, annotations: Iterable[ir.Annotation]) -> None:
    """Add annotations to a message that has such; what documents goes into its documentation, if there is
    one.
    """
    for item in annotations:
        if item.structured:
            _fill_structured(message.structured_annotations.add(name=item.name), item)
        elif item.name not in _DOCUMENTATION:
            message.annotations.append(f"@{item.name}({item.body})" if item.body else f"@{item.name}")
        elif "doc" in message.DESCRIPTOR.fields_by_name:
            setattr(message.doc, item.name, item.body)


def annotations_of(message: Message) -> tuple[ir.Annotation, ...]:
    """Return the annotations of a message that has such."""
    found = []
    if "doc" in message.DESCRIPTOR.fields_by_name:
        texts = {name: getattr(message.doc, name) for name in _DOCUMENTATION}
        found += [ir.Annotation(name, text) for name, text in texts.items() if text]
    for written in message.annotations:
        name, bracket, body = written.removeprefix("@").partition("(")
        found.append(ir.Annotation(name, body.removesuffix(")") if bracket else ""))
    found += map(_structured_of, message.structured_annotations)
    return tuple(found)


def _fill_structured(message: Message, annotation: ir.Annotation) -> None:
    """Set a StructuredAnnotation; one without values has no body."""
    for item in annotation.values:
        if item.key:
            pair = message.kv_pair_list.kv_pairs.add(key=item.key)
            _fill_expression(pair.value, item)
        else:
            _fill_expression(message.expression_list.expressions.add(), item)


def _fill_expression(message: Message, item: ir.AnnotationValue) -> None:
    if item.is_bool:
        message.bool_value = bool(item.value)
    elif isinstance(item.value, str):
        message.string_value = item.value
    else:
        message.int64_value = item.value


def _structured_of(message: Message) -> ir.Annotation:
    pairs = [(pair.key, pair.value) for pair in message.kv_pair_list.kv_pairs]
    pairs += [("", expression) for expression in message.expression_list.expressions]
    values = []
    for key, expression in pairs:
        form = expression.WhichOneof("value") or "int64_value"
        value = getattr(expression, form)
        is_bool = form == "bool_value"
        values.append(ir.AnnotationValue(int(value) if is_bool else value, key, is_bool))
    return ir.Annotation(message.name, structured=True, values=tuple(values))
