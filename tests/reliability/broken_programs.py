# SPDX-License-Identifier: Apache-2.0
"""P4 programs that are nearly right: those of this repository with bytes, tokens and lines changed, and with
declarations, statements and expressions that a grammar makes without a thought of their meaning.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("p4", "examples", "tests/conformance")
LONGEST = 20_000
"""Characters of the longest program that is taken, or made."""
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d\w*|\s+|[^\w\s]")
_CHARACTERS = "\0\n\t \"\\'#@{}()[]<>;:,.=+-*/%&|^~!?_09azAZ$\u00e9\u2028\x0c"

GRAMMAR: dict[str, tuple[str, ...]] = {
    "declaration": (
        "const <type> <name> = <value>;",
        "typedef <type> <name>;",
        "type <type> <name>;",
        "struct <name> { <fields> }",
        "struct <name><<name>> { <fields> }",
        "header <name> { <fields> }",
        "header_union <name> { <fields> }",
        "enum <name> { <name>, <name> }",
        "enum <type> <name> { <name> = <value>, <name> = <value> }",
        "error { <name> }",
        "match_kind { <name> }",
        "extern <name> { <name>(<parameters>); <type> <name>(<parameters>); }",
        "extern <name><<name>> { <name>(<parameters>); abstract <type> <name>(<parameters>); }",
        "extern <type> <name><<name>>(<parameters>);",
        "<type> <name>(<parameters>) { <statements> return <value>; }",
        "<name> <name><<name>>(<parameters>) { <statements> }",
        "action <name>(<parameters>) { <statements> }",
        "control <name>(<parameters>)(<parameters>) { <parts> apply { <statements> } }",
        "control <name><<name>>(<parameters>) { <parts> apply { <statements> } }",
        "parser <name>(packet_in <name>, <parameters>) { <parts> state start { <statements> <transition> } }",
        "package <name><<name>>(<parameters>);",
        "<type>(<values>) <name>;",
        "<type>(<values>) <name> = { <members> };",
        "@<name>(<values>) <declaration>",
        "#define <name> <value>\n",
        "#define <name>(<name>) <statements>\n",
        "#if <value>\n<declaration>\n#endif\n",
    ),
    "members": ("", "<member>", "<member> <members>"),
    "member": (
        "<type> <name>(<parameters>) { <statements> return <value>; }",
        "<type>(<values>) <name>;",
        "<type>(<values>) <name> = { <members> };",
    ),
    "parts": ("", "<part>", "<part> <parts>"),
    "part": (
        "<type> <name> = <value>;",
        "<type>(<values>) <name>;",
        "<type>(<values>) <name> = { <members> };",
        "action <name>(<parameters>) { <statements> }",
        "table <name> { key = { <value>: <kind>; } actions = { <name>; <name>; } <property> }",
        "value_set<<type>>(<value>) <name>;",
        "state <name> { <statements> <transition> }",
    ),
    "kind": ("exact", "lpm", "ternary", "range", "optional", "<name>"),
    "property": (
        "",
        "size = <value>;",
        "default_action = <name>(<values>);",
        "const entries = { <keyset>: <name>(<values>); <keyset>: <name>(); }",
        "<name> = <value>;",
    ),
    "transition": (
        "transition accept;",
        "transition <name>;",
        "transition select(<values>) { <keyset>: <name>; <keyset>: accept; default: reject; }",
    ),
    "keyset": ("<value>", "<value> &&& <value>", "<value> .. <value>", "_", "(<keyset>, <keyset>)"),
    "fields": ("", "<type> <name>;", "<type> <name>; <fields>"),
    "parameters": ("", "<direction> <type> <name>", "<direction> <type> <name>, <parameters>"),
    "direction": ("", "in", "out", "inout"),
    "type": (
        "bit<8>",
        "bit<<value>>",
        "int<16>",
        "int",
        "bool",
        "error",
        "string",
        "varbit<32>",
        "tuple<<type>, <type>>",
        "list<<type>>",
        "<name>",
        "<name><<type>>",
        "<type>[2]",
        "<name>[<value>]",
        "packet_in",
        "void",
    ),
    "statements": ("", "<statement>", "<statement> <statements>"),
    "statement": (
        "<place> = <value>;",
        "<place> += <value>;",
        "<type> <name> = <value>;",
        "if (<value>) { <statements> } else { <statements> }",
        "switch (<value>) { <value>: { <statements> } default: { } }",
        "for (<type> <name> in <value> .. <value>) { <statements> }",
        "for (<type> <name> = <value>; <value>; <place> = <value>) { <statements> break; }",
        "<place>.<method>(<values>);",
        "<name>(<values>);",
        "<name>.apply(<values>);",
        "this.<name>(<values>);",
        "{ <statements> }",
        "return <value>;",
        "exit;",
    ),
    "method": (
        "setValid",
        "setInvalid",
        "push_front",
        "pop_front",
        "extract",
        "emit",
        "advance",
        "add",
        "post",
        "<name>",
    ),
    "place": ("<name>", "<place>.<name>", "<place>[<value>]", "<place>[<value>:<value>]", "<place>.next"),
    "values": ("", "<value>", "<value>, <values>", "<name> = <value>"),
    "value": (
        "<place>",
        "<number>",
        "<number>",
        "true",
        '"text"',
        "error.NoError",
        "{ <values> }",
        "{ <values>, ... }",
        "{#}",
        "...",
        "(<type>) <value>",
        "(<value> <operator> <value>)",
        "<value> ? <value> : <value>",
        "-<value>",
        "!<value>",
        "~<value>",
        "<name>(<values>)",
        "<name><<type>>(<values>)",
        "<place>.isValid()",
        "<name>.apply().hit",
        "this.<name>(<values>)",
        "<value>[<value>:<value>]",
    ),
    "operator": (
        *("+", "-", "*", "/", "%", "&", "|", "^", "&&", "||", "<<", ">>", "|+|", "|-|"),
        *("++", "==", "!=", "<", ">", "<=", ">="),
    ),
    "number": (
        *("0", "1", "2", "7", "8w255", "16w0", "4s7", "1w1", "0xffff", "-1", "4096", "4097", "65535"),
        *("18446744073709551616", "0b1010", "128w0xdeadbeef", "1s1", "999999999999999999999999999"),
    ),
    "name": (
        *("a", "b", "c", "h", "m", "s", "x", "y", "t", "T", "hdr", "meta", "headers", "metadata", "nic"),
        *("packet", "h_t", "headers_t", "metadata_t", "NoAction", "accept", "reject", "start", "I", "P"),
        *("standard_metadata_t", "main", "tag", "value", "counter", "register", "stack", "drop_packet"),
    ),
}
"""What each word of <> may become."""
_WORD = re.compile(r"<([a-z]+)>")


class BrokenPrograms:
    """An endless supply; `made` counts what was done to them, by name."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.made: Counter[str] = Counter()
        files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.p4"))]
        texts = [path.read_text() for path in files]
        self._programs = [text for text in texts if len(text) <= LONGEST and "main;" in text]
        self._tokens = sorted({token for text in texts for token in _TOKEN.findall(text)})
        self._lines = sorted({line for text in texts for line in text.splitlines()})
        self._changes = (
            self._of_characters,
            self._of_tokens,
            self._of_numbers,
            self._of_lines,
            self._of_grammar,
        )

    def next(self) -> str:
        """Return a program with one to four changes."""
        text = self.random.choice(self._programs)
        for _ in range(self.random.choice((1, 1, 1, 2, 2, 3, 4))):
            change = self.random.choice(self._changes)
            self.made[change.__name__.strip("_")] += 1
            text = change(text)
        return text[:LONGEST]

    def _of_characters(self, text: str) -> str:
        at = self.random.randrange(len(text) + 1)
        if self.random.random() < 0.1:
            return text[:at]
        kept = at + self.random.choice((0, 0, 1, 1, 2, 20))
        return text[:at] + "".join(self.random.choices(_CHARACTERS, k=self.random.randrange(3))) + text[kept:]

    def _of_tokens(self, text: str) -> str:
        tokens = _TOKEN.findall(text)
        if not tokens:
            return self._made("declaration")
        at, other = self.random.randrange(len(tokens)), self.random.randrange(len(tokens))
        match self.random.randrange(5):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[other])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = self.random.choice(self._tokens)
            case _:
                tokens[at : at + self.random.randrange(9)] = tokens[other : other + self.random.randrange(9)]
        return "".join(tokens)

    def _of_numbers(self, text: str) -> str:
        numbers = list(re.finditer(r"\b\d\w*", text))
        if not numbers:
            return text
        found = self.random.choice(numbers)
        return text[: found.start()] + self.random.choice(GRAMMAR["number"]) + text[found.end() :]

    def _of_lines(self, text: str) -> str:
        lines = text.splitlines()
        if not lines:
            return text
        at, other = self.random.randrange(len(lines)), self.random.randrange(len(lines))
        match self.random.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[other])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                lines.insert(at, self.random.choice(self._lines))
        return "\n".join(lines)

    def _of_grammar(self, text: str) -> str:
        """Put something of the grammar where its like may stand: behind a brace, or between declarations."""
        what, behind = self.random.choice(
            (
                ("declaration", r"^}\n"),
                ("statements", r"apply \{|action \w+\([^)]*\) \{|state \w+ \{"),
                ("part", r"(?:control|parser) \w+\([^)]*\) \{"),
                ("value", r"[=(] "),
                ("property", r"table \w+ \{"),
            )
        )
        places = [found.end() for found in re.finditer(behind, text, re.MULTILINE)]
        at = self.random.choice(places) if places else 0
        return f"{text[:at]} {self._made(what)} {text[at:]}"

    def _made(self, what: str) -> str:
        """Return a text of the grammar; the deeper it is, the shorter are the choices."""
        text, turns = f"<{what}>", 0
        while (found := _WORD.search(text)) and found[1] in GRAMMAR:
            choices = GRAMMAR[found[1]]
            turns += 1
            if turns > 60:
                choices = (min(choices, key=lambda item: len(_WORD.findall(item))),)
            text = text[: found.start()] + self.random.choice(choices) + text[found.end() :]
        return text
