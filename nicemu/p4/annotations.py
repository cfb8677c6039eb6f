# SPDX-License-Identifier: Apache-2.0
"""Checks which annotations may stand before one declaration, and what is in square brackets behind them.

Source: P4-16 Language Specification 1.2.5, "Annotations", "Bodies of Structured Annotations",
"Control-plane API annotations".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

from nicemu.pipeline import PACKAGE_FACTS, PLATFORM_PROPERTIES, SEMANTICS, arithmetic, ir, literal_value

from . import syntax
from .diagnostics import Reporter, did_you_mean

TRANSLATION = "p4runtime_translation"
MATCH = "match"
PACKAGE, PLATFORM = "pkginfo", "platform_property"
_ARCHITECTURE = "arch"
"""A key of @pkginfo that says nothing: the compiler knows the architecture."""
_FACTS = {
    PACKAGE: ((*PACKAGE_FACTS, _ARCHITECTURE), "keys and texts", 'version="2"'),
    PLATFORM: (PLATFORM_PROPERTIES, "keys and numbers below 2^31", f"{PLATFORM_PROPERTIES[0]}=16"),
}
"""What annotations of a package may say: keys, what they need, an example."""
DOCUMENTATION = ("brief", "description")
_MEANT = ("name", "id", PACKAGE, PLATFORM, "tableonly", "defaultonly")
_ONCE = ("name", "hidden", "id", TRANSLATION)
_BARE = (
    *("hidden", "tableonly", "defaultonly", "optional"),
    *("atomic", "likely", "unlikely", "pure", "noSideEffects"),
)
_WITH_TEXT = {"name": "a name", "deprecated": "a message", "noWarn": "the name of a warning"}
_WITH_NUMBER = ("max_group_size", "max_member_weight")
_NO_TEXT = (syntax.Number, syntax.BoolLiteral, syntax.ListValue)
_OPENING, _CLOSING = "([{", ")]}"
_KNOWN = (
    *_ONCE,
    *_BARE,
    *_WITH_TEXT,
    *_WITH_NUMBER,
    *_FACTS,
    *DOCUMENTATION,
    MATCH,
    "alias",
    "controller_header",
    "deparser",
    "field_list",
    "metadata",
    "p4runtime_translation_mappings",
    "pipeline",
    "priority",
    "selector_size_semantics",
)
"""What the specification, P4Runtime, v1model.p4 and p4c name so."""


def check_annotation(added: syntax.Annotation, earlier: syntax.Annotation | None, reporter: Reporter) -> None:
    """Report an annotation that cannot stand behind an `earlier` one of its name, or whose body is wrong."""
    if added.name not in _KNOWN and (hint := _known_like(added.name)):
        reporter.warning(added.at, f"@{added.name} is not known, and ignored", hint)
    if earlier is not None and earlier.structured != added.structured:
        what = f"@{added.name} stands here with square brackets and without"
        reporter.error(added.at, what, "call one of them otherwise")
    elif earlier is not None and (added.structured or added.name in _ONCE):
        reporter.error(added.at, f"@{added.name} stands here twice", "remove one")
    if added.name in _BARE and (added.tokens or added.structured):
        reporter.error(added.at, f"@{added.name} has no body", "remove the brackets")
    elif added.name == "name" and added.structured:
        reporter.error(added.at, "@name has its text in parentheses", 'write @name("a")')
    elif added.structured:
        _check_body(added, reporter)
    elif added.name == MATCH and len(added.tokens) != 1:
        reporter.error(added.at, "@match needs one match kind", "write @match(ternary)")
    if added.name in _WITH_NUMBER and literal_value("".join(added.tokens)) is None:
        reporter.error(added.at, f"@{added.name} needs a number, 32 bits at most", f"write @{added.name}(8)")
    if added.name == "selector_size_semantics" and unquoted("".join(added.tokens)) not in SEMANTICS:
        wanted = " or ".join(f'"{semantics}"' for semantics in SEMANTICS)
        reporter.error(added.at, f"@{added.name} needs {wanted}")
    if added.name in _WITH_TEXT and not _is_text(added):
        wanted = f"{_WITH_TEXT[added.name]} in quotes"
        reporter.error(added.at, f"@{added.name} needs {wanted}", f'write @{added.name}("...")')


def given_name(annotations: Sequence[syntax.Annotation]) -> str:
    """Return what @name says, "" where it does not stand.

    Source: P4-16 Language Specification 1.2.5, "Control-plane API annotations".
    """
    found = (unquoted(item.tokens[0]) for item in annotations if item.name == "name" and item.tokens)
    return next(found, "")


def deprecation(annotations: Sequence[syntax.Annotation]) -> str:
    """Return what @deprecated says, "" where it does not stand.

    Source: P4-16 Language Specification 1.2.5, "Deprecated annotation".
    """
    found = next((item.tokens for item in annotations if item.name == "deprecated"), ())
    return "".join(unquoted(token) for token in found if token[0] == '"')


def unquoted(token: str) -> str:
    """Return what stands between a string's quotes, and other tokens as they are.

    A backslash stays: strings go "unchanged" to whoever reads them.
    Source: P4-16 Language Specification 1.2.5, "String literals".
    """
    return token[1:-1] if token[:1] == '"' else token


@cache
def _known_like(name: str) -> str:
    return did_you_mean(name, _KNOWN, 0.75)


def is_plain(node: syntax.Expression) -> bool:
    """Return whether a value in square brackets can be a string, a number without a width or a bool."""
    match node:
        case syntax.Number():
            return node.width is None
        case syntax.MemberRef() | syntax.SliceRef() | syntax.InvalidHeader():  # of an enum, of bits, a header
            return False
        case syntax.CastOp():
            return node.target.name in ("int", "bool", "string") and node.target.width is None
        case syntax.UnaryOp():
            return is_plain(node.operand)
        case syntax.BinaryOp() if node.op not in arithmetic.COMPARISONS:
            return is_plain(node.left) and is_plain(node.right)
        case syntax.ConditionalOp():
            return is_plain(node.yes) and is_plain(node.no)
    return True


def translation_of(tokens: Sequence[str]) -> tuple[str, int] | None:
    """Return the URI and the bits in the body of @p4runtime_translation, 0 for string; None if it is wrong.

    Source: P4Runtime Specification 1.4, "User-defined types".
    """
    if len(tokens) < 3 or tokens[0][:1] != '"' or tokens[1] != ",":
        return None
    kind = list(tokens[2:])
    if kind == ["string"]:
        return tokens[0][1:-1], 0
    if kind[:2] == ["bit", "<"] and kind[3:] == [">"]:
        kind = kind[2:3]
    try:
        width = int(kind[0], 0) if len(kind) == 1 else 0
    except ValueError:
        return None
    return (tokens[0][1:-1], width) if 0 < width <= ir.MAX_WIDTH_BITS else None


def kept(annotations: Sequence[syntax.Annotation], meant: Sequence[str] = ()) -> tuple[ir.Annotation, ...]:
    """Return the annotations that controllers are told of: those without a meaning here, as those `meant`
    have one, documentation first. Square brackets hold what the checker has found, and are left out else.
    """
    found, texts = [], {}
    for item in annotations:
        tokens = joined(item.tokens)
        if item.name in _MEANT or item.name in meant:
            continue
        is_text = len(tokens) == 1 and tokens[0][:1] == '"'
        if item.structured:
            if all(value.value is not None for value in item.values):
                found.append(ir.Annotation(item.name, structured=True, values=_values_of(item)))
        elif item.name not in DOCUMENTATION:
            found.append(ir.Annotation(item.name, " ".join(tokens)))  # as p4c does
        elif is_text:
            texts[item.name] = ir.Annotation(item.name, tokens[0][1:-1])
    return (*(texts[name] for name in DOCUMENTATION if name in texts), *found)


def _values_of(annotation: syntax.Annotation) -> tuple[ir.AnnotationValue, ...]:
    return tuple(
        ir.AnnotationValue(
            value.value if isinstance(value.value, str) else int(value.value),
            key,
            isinstance(value.type, ir.Bool),
        )
        for key, value in zip(annotation.keys, annotation.values, strict=True)
    )


def package_info(annotations: Sequence[syntax.Annotation], reporter: Reporter) -> tuple[ir.Annotation, ...]:
    """Return what @pkginfo and @platform_property say of a package, each key once; report what they cannot
    say.

    Source: P4Runtime Specification 1.4, "Annotating P4 code with PkgInfo".
    """
    found: dict[str, str] = {}
    for item in annotations:
        if item.name not in _FACTS:
            continue
        allowed, wanted, example = _FACTS[item.name]
        for part in _parts(item.tokens):
            text = _fact_of(item.name, part)
            if text is None:
                reporter.error(item.at, f"@{item.name} needs {wanted}", f"write @{item.name}({example})")
            elif part[0] in found:
                reporter.error(item.at, f"@{item.name} has the key {part[0]} twice", "remove one")
            elif part[0] not in allowed:
                hint = f"there is {', '.join(allowed)}"
                reporter.error(item.at, f"@{item.name} has the key {part[0]}, which is unknown", hint)
            else:
                found[part[0]] = text
    return tuple(ir.Annotation(key, text) for key, text in found.items() if key != _ARCHITECTURE)


def _fact_of(name: str, part: Sequence[str]) -> str | None:
    """Return the value of a key as text, None where it is not of its kind."""
    if len(part) != 3 or part[1] != "=":
        return None
    if name == PACKAGE:
        return part[2][1:-1] if part[2][:1] == '"' else None
    number = literal_value(part[2])
    return str(number) if number is not None else None


def joined(tokens: Sequence[str]) -> list[str]:
    """Return the tokens of a body in which strings behind ++ have become part of the one before."""
    strings = [token for token in tokens if token not in ("++", "(", ")")]
    if len(strings) < 2 or any(token[:1] != '"' for token in strings) or "++" not in tokens:
        return list(tokens)
    return ['"' + "".join(token[1:-1] for token in strings) + '"']


def _is_text(annotation: syntax.Annotation) -> bool:
    """Return whether a body can be a string: one that is written out, or is computed."""
    tokens = annotation.tokens
    if annotation.name == "name":
        (token,) = tokens if len(tokens) == 1 else ("",)
        is_written = token[:1] == '"' and token not in ('""', '"."') and "\n" not in token
        is_text = not isinstance(annotation.value, _NO_TEXT)
        return is_written or (annotation.value is not None and is_text)
    return bool(tokens) and "," not in tokens and not any(token[0].isdigit() for token in tokens)


def _check_body(annotation: syntax.Annotation, reporter: Reporter) -> None:
    """Report a body that names a key twice, or of which only some values have one."""
    parts = _parts(annotation.tokens)
    keys = [part[0] for part in parts if part[1:2] == ["="]]
    if keys and len(keys) != len(parts):
        what = f"@{annotation.name} has values with a key and values without"
        reporter.error(annotation.at, what, "give all of them keys, or none")
    for key, count in Counter(keys).items():
        if count > 1:
            reporter.error(annotation.at, f"@{annotation.name} has the key {key} twice")


def _parts(tokens: Sequence[str]) -> list[list[str]]:
    """Return the tokens between the commas that stand in no brackets; behind the last one may be nothing."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if parts[-1] else parts[:-1]
