# SPDX-License-Identifier: Apache-2.0
"""Parses whole programs: recursive descent over the tokens, recovering at ';' and '}' to report all it can.

Source: P4-16 Language Specification 1.2.5, "P4 grammar".
"""

from __future__ import annotations

from contextlib import suppress

from . import syntax
from .diagnostics import did_you_mean
from .includes import include_of
from .parse_expressions import BASE_TYPES
from .parse_tables import TableParser
from .token_reader import SyntaxFault

# fmt: off
_STARTS = (
    "const", "action", "parser", "control", "package", "struct", "header", "header_union", "enum", "error",
    "match_kind", "extern", "typedef", "type",
)
# fmt: on
_DERIVED = ("struct", "header", "header_union", "enum")
_STATEMENTS = ("if", "switch", "for", "return", "exit", "transition", "break", "continue")
_P4_14 = ("header_type", "field_list", "field_list_calculation", "calculated_field")
_OLD = "this looks like P4-14; write P4-16, or have p4c translate it: p4test --std p4-14 --pp new.p4 old.p4"
_SURPLUS = "a '}' before it may be one too many"


class Parser(TableParser):
    """Declarations, down from the program."""

    def program(self) -> list[syntax.Declaration]:
        """Parse everything up to the end; faults are reported, the rest is returned."""
        declarations: list[syntax.Declaration] = []
        while self.next.kind != "end":
            before = self._at
            of_a_block = self.sees("}") or self.sees_part()  # one that was closed too early
            try:
                if of_a_block and self.reporter.failed:
                    self.take()
                    self.recover(before, outside=True)
                elif not self.takes(";"):
                    declarations.append(self.declaration())
            except SyntaxFault:
                self.recover(before, outside=True)
                if self._at == before:
                    self.take()
        return declarations

    def declaration(self) -> syntax.Declaration:
        """Parse one declaration of the top level. Raises: SyntaxFault."""
        annotations = self.annotations()
        if self.sees_part():
            self.fail("expected a declaration", _SURPLUS)
        if self.next.text in _P4_14 and self.sees_name(1) and self.peek(2).text in ("{", ";"):
            self.fail("expected a declaration", _OLD)
        self._correct()
        token = self.next
        match token.text if token.kind == "keyword" else "":
            case "const":
                return self.constant(annotations)
            case "action":
                return self._action(annotations)
            case "parser" | "control":
                return self._block_declaration(annotations)
            case "package":
                return self._package(annotations)
            case "struct" | "header" | "header_union":
                return self._struct(annotations)
            case "enum":
                return self._enum(annotations)
            case "error" if self.peek().text == "{":
                return self._names(annotations)
            case "match_kind":
                return self._names(annotations)
            case "extern":
                return self._extern(annotations)
            case "typedef":
                return self._alias(annotations)
            case "type" if self.peek().kind in ("name", "keyword") or self.is_outermost_type(1):
                return self._alias(annotations)
        if self.function_follows():
            return self.function(annotations)
        if self.starts_declaration() or (self.sees_name() and self.peek().text in ("(", "<")):
            return self.variable_or_instance(annotations)
        hint = did_you_mean(token.text, _STARTS) if token.kind == "name" else ""
        hint = "value sets stand in parsers" if token.text == "value_set" else hint
        self.fail("expected a declaration", hint)

    def _correct(self) -> None:
        """Report a word that is nearly a keyword where one must stand, and go on as if it were."""
        token, behind = self.next, self.peek()
        if token.kind != "name" or self.is_type(token.text):
            return
        names = self.sees_name(1) and self.peek(2).text in ("{", "(", "<")
        hint = did_you_mean(token.text, _STARTS)
        meant = hint.removeprefix("did you mean ").removesuffix("?")
        if meant in _STARTS and (names or behind.text in BASE_TYPES or self.is_type(behind.text)):
            with suppress(SyntaxFault):
                self.fail("expected a declaration", hint)
            self._tokens[self._at] = token._replace(kind="keyword", text=meant)

    # Types

    def _alias(self, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        distinct = self.take().text == "type"
        declared = None if distinct else self._derived()
        type_ref = self.type_ref() if declared is None else syntax.TypeRef(at=declared.at, name=declared.name)
        name = self.name("the type")
        if self.sees("["):
            self.fail("expected ';' after the type", f"sizes stand before the name: TYPE[SIZE] {name.text};")
        self.expect(";", "after the type")
        self.declare(name.text, True)
        return syntax.TypeAliasDeclaration(
            at=name.location,
            name=name.text,
            annotations=annotations,
            type_ref=type_ref,
            distinct=distinct,
            declared=declared,
        )

    def _derived(self) -> syntax.Declaration | None:
        """Parse what a typedef declares and names at once; None where a type stands there."""
        annotations = self.annotations()
        if self.next.text in _DERIVED:
            return self._enum(annotations) if self.sees("enum") else self._struct(annotations)
        if annotations:
            self.fail("expected struct, header, header_union or enum")
        return None

    def _struct(self, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        kind = self.take().text
        name = self.name(f"the {kind}")
        self.declare(name.text, True)
        with self.scope():
            parameters = self.type_parameters()
            fields = self.each(f"{kind} {name.text}", lambda: self._field(kind))
        return syntax.StructDeclaration(
            at=name.location,
            name=name.text,
            annotations=annotations,
            kind=kind,
            fields=fields,
            type_parameters=parameters,
        )

    def _field(self, kind: str) -> syntax.FieldDeclaration:
        annotations = self.annotations()
        type_ref = self.type_ref()
        name = self.declarator(type_ref, f"a field of the {kind}")
        self.expect(";", f"after field {name.text}")
        return syntax.FieldDeclaration(
            at=name.location, name=name.text, annotations=annotations, type_ref=type_ref
        )

    def _enum(self, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        self.take()
        underlying = None if self.sees_name() and self.peek().text == "{" else self.type_ref()
        if self.sees("{") and underlying is not None and underlying.arguments:
            self.reporter.error(
                underlying.at, f"enum {underlying.name} has type parameters", "an enum has none"
            )
            raise SyntaxFault
        name = self.name("the enum")
        self.declare(name.text, True)
        members = self._members(f"enum {name.text}")
        return syntax.EnumDeclaration(
            at=name.location,
            name=name.text,
            annotations=annotations,
            kind="enum",
            underlying=underlying,
            members=members,
        )

    def _names(self, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        token = self.take()
        return syntax.EnumDeclaration(
            at=token.location,
            name=token.text,
            annotations=annotations,
            kind=token.text,
            underlying=None,
            members=self._members(token.text),
        )

    def _members(self, what: str) -> list[syntax.EnumMember]:
        self.expect("{", f"to open {what}")
        members = []
        while not self.sees("}"):
            self.annotations()
            name = self.name(f"a member of {what}")
            if self.sees("=") and not what.startswith("enum "):
                self.fail(f"expected ',' or '}}' behind a member of {what}")
            value = self.expression() if self.takes("=") else None
            members.append(syntax.EnumMember(at=name.location, name=name.text, value=value))
            if not self.takes(","):
                break
        closing = self.expect("}", f"to close {what}")
        if not members:
            self.reporter.error(closing.location, f"{what} has no members")
        return members

    # Externs, actions, packages

    def _extern(self, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        self.take()
        if not (self.sees_name() and self.peek().text in ("{", "<")) or self.function_follows():
            return self._method("", annotations)
        name = self.name("the extern")
        self.declare(name.text, True)
        with self.scope():
            parameters = self.type_parameters()
            methods = self.each(f"extern {name.text}", lambda: self._method(name.text, self.annotations()))
        return syntax.ExternDeclaration(
            at=name.location,
            name=name.text,
            annotations=annotations,
            methods=methods,
            type_parameters=parameters,
        )

    def _method(self, extern: str, annotations: list[syntax.Annotation]) -> syntax.MethodDeclaration:
        start = self.next.location
        abstract = self.takes("abstract")
        if abstract and not extern:
            self.reporter.error(start, "a function of the architecture cannot be abstract")
        constructor = extern and self.next.text == extern and self.peek().text == "("
        if abstract and constructor:
            self.reporter.error(start, f"the constructor of {extern} cannot be abstract")
        with self.scope():
            if not constructor:
                self.declare_result_type()
            returns = None if constructor else self.type_ref()
            if extern and returns is not None and returns.name != extern and self.sees("(") and not abstract:
                what = f"{returns.name} is not called as its extern, {extern}, and returns nothing"
                self.reporter.error(
                    returns.at, what, f"a constructor is {extern}(...), a method void {returns.name}(...)"
                )
                raise SyntaxFault
            name = self.name("the method" if extern else "the function")
            if name.text == extern and not constructor:
                what = f"the constructor of {extern} returns nothing"
                self.reporter.error(start, what, "write its name alone")
            parameters = self.type_parameters()
            arguments = self.parameters(name.text)
        self.expect(";", f"after {name.text}")
        return syntax.MethodDeclaration(
            at=name.location,
            name=name.text,
            annotations=annotations,
            returns=returns,
            parameters=arguments,
            type_parameters=parameters,
            abstract=abstract,
        )

    def _action(self, annotations: list[syntax.Annotation]) -> syntax.ActionDeclaration:
        self.take()
        name = self.name("the action")
        self.declare(name.text, False)
        with self.scope():
            parameters = self.parameters(f"action {name.text}")
            body = self.block(f"action {name.text}")
        return syntax.ActionDeclaration(
            at=name.location, name=name.text, annotations=annotations, parameters=parameters, body=body
        )

    def _package(self, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        self.take()
        name = self.name("the package")
        self.declare(name.text, True)
        with self.scope():
            types = self.type_parameters()
            parameters = self.parameters(f"package {name.text}")
        self.expect(";", "after the package")
        return syntax.PackageDeclaration(
            at=name.location,
            name=name.text,
            annotations=annotations,
            parameters=parameters,
            type_parameters=types,
        )

    # Parsers and controls

    def _block_declaration(self, annotations: list[syntax.Annotation]) -> syntax.BlockDeclaration:
        kind = self.take().text
        name = self.name(f"the {kind}")
        self.declare(name.text, True)
        with self.scope():
            types = self.type_parameters()
            block = syntax.BlockDeclaration(
                at=name.location,
                name=name.text,
                annotations=annotations,
                kind=kind,
                parameters=self.parameters(f"{kind} {name.text}"),
                type_parameters=types,
            )
            if self.takes(";"):
                return block
            if self.sees("("):
                block.constructor_parameters = self.parameters(f"the constructor of {name.text}")
            self.open(f"{kind} {name.text}")
            self._block_body(block)
        self.close(f"{kind} {name.text}")
        if kind == "control" and block.body is None:
            if not (self.reporter.failed or self.sees_part()):
                self.reporter.error(block.at, f"control {name.text} has no apply block", "add apply { }")
            block.body = syntax.Block(at=block.at, statements=[])
        return block

    def _block_body(self, block: syntax.BlockDeclaration) -> None:
        if block.kind == "parser":
            block.states = []
        while not self._is_over(block):
            before = self._at
            try:
                self._block_part(block)
            except SyntaxFault:
                if self._at == before and self._is_behind_surplus():
                    self._skip_body()
                    continue
                if self._at == before:
                    self.take()
                self.recover(before)

    def _is_behind_surplus(self) -> bool:
        """Return whether what is next would stand in a body, which a '}' too many may have ended."""
        begins = self.next.text in _STATEMENTS or (self.sees_name() and self.peek().text in (".", "=", "["))
        return begins and self._tokens[self._at - 1].text == "}"

    def _skip_body(self) -> None:
        """Step over what is left of a body, and its '}' if there is another one for the block around it."""
        while self.next.kind != "end" and not self.sees_closing():
            self.recover(self._at)
        if self.sees("}") and self.peek().text in ("}", "action", "table", "apply", "state"):
            self.take()

    def _is_over(self, block: syntax.BlockDeclaration) -> bool:
        """Return whether a block ends: by '}', or behind its last part by what only stands outside."""
        if block.body is None and not block.states:
            return self.sees("}") or self.next.kind == "end"
        return self.sees_closing(block=True) or self._sees_main()

    def _sees_main(self) -> bool:
        """Return whether `Package(...) main;` is next."""
        ahead = 1
        while self.sees_name() and self.peek(ahead).kind != "end" and self.peek(ahead).text not in (";", "{"):
            ahead += 1
        return self.peek(ahead - 1).text == "main" and self.peek(ahead).text == ";"

    def _block_part(self, block: syntax.BlockDeclaration) -> None:
        annotations = self.annotations()
        token = self.next
        if self.takes(";"):
            what = f"a ';' alone in {block.kind} {block.name}, where only declarations stand"
            self.reporter.error(token.location, what, "remove it")
            return
        if block.body is not None and token.text != "apply":
            if token.text not in ("action", "table", "const") and not self.starts_declaration():
                what = f"expected '}}' to close control {block.name} (nothing follows its apply block)"
                self.fail(what, _SURPLUS if self._is_behind_surplus() else "")
            if not self.reporter.has_error_at(token.location):
                what = "a declaration behind the apply block"
                self.reporter.error(token.location, what, "put it before apply")
        if block.states is not None and token.text == "state" and self.sees_name(1):
            block.states.append(self._state(annotations))
            return
        is_unnamed = self.peek().text == "{" or self.peek().kind in ("number", "keyword")
        if block.states is not None and token.text == "state" and is_unnamed:
            self.take()
            self.fail("expected the name of a state")
        if block.states:
            if token.text not in ("const", "value_set") and not self.starts_declaration():
                hint = _SURPLUS if self._is_behind_surplus() else did_you_mean(token.text, ["state"])
                self.fail(f"expected a state of parser {block.name}", hint)
            self.reporter.error(
                token.location, "a declaration behind a state", "put it before the first state"
            )
        if block.kind == "control" and token.text == "apply":
            self.take()
            if block.body is not None and not self.reporter.has_error_at(token.location):
                self.reporter.error(token.location, f"control {block.name} has two apply blocks")
            block.body = syntax.Block(
                at=token.location, statements=[]
            )  # it is there, whatever is wrong in it
            block.body = self.block(f"the apply block of {block.name}")
        elif block.kind == "control" and token.text == "action":
            block.locals.append(self._action(annotations))
        elif block.kind == "control" and token.text == "table":
            block.locals.append(self.table(annotations))
        elif token.text == "const":
            block.locals.append(self.constant(annotations))
        elif token.text == "value_set":
            block.locals.append(self._value_set(annotations))
        elif self.starts_declaration() and not self.sees_part():
            block.locals.append(self.variable_or_instance(annotations))
        else:
            if self.sees_name() and self.peek().text in ("(", "<"):
                types = [name for scope in self._scopes for name, is_type in scope.items() if is_type]
                hint = include_of(token.text, self._scopes[0]) or did_you_mean(token.text, types)
                self.no_type(token, hint)
            parts = ["state"] if block.kind == "parser" else ["action", "table", "apply"]
            hint = _SURPLUS if self._is_behind_surplus() else did_you_mean(token.text, parts)
            self.fail(f"expected a declaration in {block.kind} {block.name}", hint)

    def _value_set(self, annotations: list[syntax.Annotation]) -> syntax.ValueSetDeclaration:
        self.take()
        self.expect("<", "after value_set")
        type_ref = self.type_ref()
        self.expect(">", "after the type of the value set")
        self.expect("(", "before the size of the value set")
        size = self.expression()
        self.expect(")", "after the size of the value set")
        name = self.name("the value set")
        self.expect(";", "after the value set")
        self.declare(name.text, False)
        return syntax.ValueSetDeclaration(
            at=name.location, name=name.text, annotations=annotations, type_ref=type_ref, size=size
        )

    def _state(self, annotations: list[syntax.Annotation]) -> syntax.StateDeclaration:
        self.take()
        name = self.name("the state")
        state = syntax.StateDeclaration(at=name.location, name=name.text, annotations=annotations, body=[])
        self.open(f"state {name.text}")
        with self.nested(), self.scope():
            while not self.sees_closing():
                if self.sees("transition"):
                    start = self._at
                    try:
                        self._transition(state)
                    except SyntaxFault:
                        state.goto = state.goto or "accept"
                        self.recover(start)
                    break
                self._guarded(state.body)
        behind = " (nothing may follow its transition)" if state.goto or state.keys else ""
        self.close(f"state {name.text}{behind}")
        return state

    def _transition(self, state: syntax.StateDeclaration) -> None:
        self.take()
        if not self.takes("select"):
            goto = self.name("the next state")
            self.expect(";", "after the transition")
            state.goto, state.goto_at = goto.text, goto.location
            return
        self.expect("(", "after select")
        state.keys = [self.expression()]
        while self.takes(","):
            state.keys.append(self.expression())
        self.expect(")", "after the keys of select")
        state.cases = self.each("the cases of select", self._select_case)

    def _select_case(self) -> syntax.SelectLabel:
        at = self.next.location
        keysets = self.keysets()
        self.expect(":", "after a case of select")
        target = self.name("the next state")
        self.expect(";", "after a case of select")
        return syntax.SelectLabel(at=at, keysets=keysets, state=target.text, state_at=target.location)
