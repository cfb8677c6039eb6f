# SPDX-License-Identifier: Apache-2.0
"""Parses statements, and the declarations that may stand among them.

Source: P4-16 Language Specification 1.2.5, "Statements".
"""

from __future__ import annotations

from . import syntax
from .parse_expressions import ExpressionParser
from .token_reader import SyntaxFault

_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|="})


class StatementParser(ExpressionParser):
    """Statements and local declarations."""

    def block(self, what: str) -> syntax.Block:
        """Parse `{...}`; goes on behind a faulty statement. Raises: SyntaxFault if there is no "{"."""
        opened = self.expect("{", f"to open {what}")
        statements: list[syntax.Statement] = []
        with self.nested(), self.scope():
            while not self.sees("}") and self.next.kind != "end":
                self._guarded(statements)
        self.expect("}", f"to close {what}")
        return syntax.Block(at=opened.location, statements=statements)

    def _guarded(self, statements: list[syntax.Statement]) -> None:
        """Parse one statement into `statements`; after a fault, step over the rest of it."""
        before = self._at
        try:
            statement = self.statement()
            if statement is not None:
                statements.append(statement)
        except SyntaxFault:
            self.recover()
            if self._at == before and not self.sees("}"):
                self.take()

    def statement(self) -> syntax.Statement | None:
        """Parse one statement or local declaration; None for an empty one. Raises: SyntaxFault."""
        annotations = self.annotations()
        token = self.next
        if self.takes(";"):
            return None
        match token.text if token.kind in ("keyword", "symbol") else "":
            case "{":
                return self.block("the block")
            case "if":
                return self._if()
            case "switch":
                return self._switch()
            case "exit":
                self.take()
                self.expect(";", "after exit")
                return syntax.ExitStatement(at=token.location)
            case "return":
                self.take()
                result = None if self.sees(";") else self.expression()
                self.expect(";", "after return")
                return syntax.ReturnStatement(at=token.location, result=result)
            case "for" | "break" | "continue":
                self.reporter.unsupported(token.location, f"'{token.text}'")
                self.take()
                raise SyntaxFault
            case "const":
                return self.constant(annotations)
        if self.starts_declaration():
            return self.variable_or_instance(annotations)
        return self._assignment_or_call()

    def starts_declaration(self) -> bool:
        """Return whether `type name` is next, as opposed to an expression."""
        if self.sees_type():
            return self.peek().text not in (".", "=")
        return self.sees_name() and (
            self.sees_name(1) or (self.peek().text == "<" and self._type_arguments_then_name())
        )

    def _type_arguments_then_name(self) -> bool:
        """Return whether an unknown name is followed by balanced <...> and a name: a declaration of unknown
        type.
        """
        ahead, depth = 1, 0
        while ahead < 64:
            text = self.peek(ahead).text
            depth += (text == "<") - (text == ">")
            if text in (";", "{", "}", "(", "") and text:
                return False
            ahead += 1
            if depth == 0:
                return self.sees_name(ahead) and self.peek(ahead + 1).text in ("=", ";")
        return False

    def constant(self, annotations: list[syntax.Annotation]) -> syntax.VariableDeclaration:
        """Parse `const type name = value;`."""
        self.take()
        type_ref = self.type_ref()
        name = self.name("the constant")
        self.expect("=", "before the value of a constant")
        value = self.expression()
        self.expect(";", "after the constant")
        self.declare(name.text, False)
        return syntax.VariableDeclaration(
            at=name.location,
            name=name.text,
            annotations=annotations,
            type_ref=type_ref,
            initial=value,
            constant=True,
        )

    def variable_or_instance(self, annotations: list[syntax.Annotation]) -> syntax.Declaration:
        """Parse `type name;`, `type name = value;` or `type(arguments) name;`."""
        type_ref = self.type_ref()
        if self.sees("("):
            arguments = self.arguments()
            name = self.name("the instance")
            if self.sees("="):
                self.reporter.unsupported(self.next.location, "abstract methods")
                raise SyntaxFault
            self.expect(";", "after the instance")
            self.declare(name.text, False)
            return syntax.Instantiation(
                at=name.location,
                name=name.text,
                annotations=annotations,
                type_ref=type_ref,
                arguments=arguments,
            )
        name = self.name("the variable")
        initial = self.expression() if self.takes("=") else None
        self.expect(";", f"after the declaration of {name.text}")
        self.declare(name.text, False)
        return syntax.VariableDeclaration(
            at=name.location, name=name.text, annotations=annotations, type_ref=type_ref, initial=initial
        )

    def annotations(self) -> list[syntax.Annotation]:
        """Parse all annotations that are next; their bodies may hold anything."""
        found = []
        while self.sees("@"):
            at = self.take().location
            name = self.take()
            body: list[str] = []
            if self.sees("(", "["):
                body = self.skip_balanced()
            found.append(syntax.Annotation(at=at, name=name.text, tokens=body))
        return found

    def _if(self) -> syntax.Statement:
        at = self.take().location
        with self.nested():
            self.expect("(", "after if")
            condition = self.expression()
            self.expect(")", "after the condition")
            then = self._branch("if")
            otherwise = self._branch("else") if self.takes("else") else None
        return syntax.IfStatement(at=at, condition=condition, then=then, otherwise=otherwise)

    def _branch(self, of: str) -> syntax.Statement:
        at = self.next.location
        if self.sees("}"):
            self.fail(f"expected a statement after {of}")
        with self.scope():
            statement = self.statement()
        if isinstance(statement, syntax.Declaration):
            self.reporter.error(statement.at, f"a declaration cannot be the body of {of}", "put it in { }")
        return statement or syntax.Block(at=at, statements=[])

    def _switch(self) -> syntax.Statement:
        at = self.take().location
        self.expect("(", "after switch")
        subject = self.expression()
        self.expect(")", "after the subject of switch")
        self.expect("{", "to open the cases of switch")
        cases: list[syntax.SwitchLabel] = []
        with self.nested():
            while not self.sees("}") and self.next.kind != "end":
                label_at = self.next.location
                label = None if self.takes("default") else self.expression()
                self.expect(":", "after the label of a case")
                body = self.block("the case") if self.sees("{") else None
                cases.append(syntax.SwitchLabel(at=label_at, label=label, body=body))
        self.expect("}", "to close switch")
        return syntax.SwitchStatement(at=at, subject=subject, cases=cases)

    def _assignment_or_call(self) -> syntax.Statement:
        at = self.next.location
        target = self._postfix(self._primary())
        token = self.next
        op = token.text if token.text in _ASSIGNMENTS else ""
        if token.text == ">" and self.peek().text == ">=" and token.touches(self.peek()):
            op = ">>="
            self.take()
        if op:
            self.take()
            value = self.expression()
            self.expect(";", "after the assignment")
            return syntax.Assignment(at=token.location, target=target, op=op, value=value)
        if not isinstance(target, syntax.Call):
            self.fail("expected '=' or a call")
        self.expect(";", "after the call")
        return syntax.CallStatement(at=at, call=target)
