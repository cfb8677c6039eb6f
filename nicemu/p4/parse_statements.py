# SPDX-License-Identifier: Apache-2.0
"""Parses statements, and the declarations that may stand among them.

Source: P4-16 Language Specification 1.2.5, "Statements".
"""

from __future__ import annotations

from typing import NoReturn

from . import syntax
from .diagnostics import Location
from .lexer import Token
from .parse_annotations import AnnotationParser
from .parse_expressions import BASE_TYPES
from .token_reader import SyntaxFault

_ASSIGNMENTS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|="})
_FOREIGN = dict.fromkeys(("elif", "elseif", "elsif"), "write else if (condition) {...}")
_FOREIGN["while"] = "write for (; condition; ) {...}"


class StatementParser(AnnotationParser):
    """Statements and local declarations."""

    def block(self, what: str, before: str = "") -> syntax.Block:
        """Parse `{...}`, before which annotations may stand; goes on behind a faulty statement.

        `before` is a keyword that stands inside only where the '}' is missing. Raises: SyntaxFault.
        """
        self.annotations()
        opened = self.open(what)
        statements: list[syntax.Statement] = []
        with self.nested(), self.scope():
            while not self.sees_closing(before=before):
                self._guarded(statements)
        if not self.takes("}"):
            self.close(what, lambda: self.sees_closing(before=before))
        return syntax.Block(at=opened, statements=statements)

    def _guarded(self, statements: list[syntax.Statement]) -> None:
        """Parse one statement into `statements`; after a fault, step over the rest of it."""
        start = self._at
        try:
            statement = self.statement()
            if statement is not None:
                statements.append(statement)
        except SyntaxFault:
            self.recover(start)
            self.takes("else")

    def statement(self) -> syntax.Statement | None:
        """Parse one statement or local declaration; None for an empty one. Raises: SyntaxFault."""
        annotations = self.annotations()
        token = self.next
        if annotations and not (token.text in ("{", "for", "const") or self.starts_declaration()):
            what = "annotations stand before blocks, for and declarations, and not before this statement"
            self.reporter.error(token.location, what, "put the statement into a block")
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
            case "for":
                return self._for()
            case "break" | "continue":
                self.take()
                self.expect(";", f"after {token.text}")
                kind = syntax.BreakStatement if token.text == "break" else syntax.ContinueStatement
                return kind(at=token.location)
            case "const":
                return self.constant(annotations)
            case "transition":
                what = "transition ends a state of a parser, and stands nowhere else"
                self.reporter.error(token.location, what)
                raise SyntaxFault
        if self.starts_declaration():
            return self.variable_or_instance(annotations)
        return self._assignment_or_call()

    def starts_declaration(self) -> bool:
        """Return whether `type name` is next, as opposed to an expression."""
        if self.sees_type():
            if self.sees(".") or (self.peek().text == "<" and self.sees_name()):
                return self.behind_type() != "."
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
        name = self.declarator(type_ref, "the constant")
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
            return self._instance(type_ref, annotations)
        name = self.declarator(type_ref, "the variable")
        if self.sees("("):
            self._refuse_call(name)
        initial = self.expression() if self.takes("=") else None
        self.expect(";", f"after the declaration of {name.text}")
        self.declare(name.text, False)
        return syntax.VariableDeclaration(
            at=name.location, name=name.text, annotations=annotations, type_ref=type_ref, initial=initial
        )

    def _refuse_call(self, name: Token) -> NoReturn:
        """Report `type name(`: a function that stands in a block, or an object made as in C++."""
        at = self.next.location
        self.skip_balanced()
        if self.sees("{"):
            what = f"function {name.text} stands inside a block"
            self.reporter.error(name.location, what, "write it outside all blocks")
        else:
            hint = f"write type(...) {name.text};"
            self.reporter.error(at, "the arguments of an object stand behind its type", hint)
        raise SyntaxFault

    def _instance(
        self, type_ref: syntax.TypeRef, annotations: list[syntax.Annotation]
    ) -> syntax.Instantiation:
        arguments, names = self.arguments()
        name = self.name("the instance")
        members = None
        if self.takes("="):
            with self.nested(), self.scope():
                members = self.each(f"the methods of {name.text}", self.member_of_instance)
        self.expect(";", "after the instance")
        self.declare(name.text, False)
        return syntax.Instantiation(
            at=name.location,
            name=name.text,
            annotations=annotations,
            type_ref=type_ref,
            arguments=arguments,
            names=names,
            members=members,
        )

    def member_of_instance(self) -> syntax.Declaration:
        """Parse a function or instance between the braces of an instance."""
        annotations = self.annotations()
        if self.function_follows():
            return self.function(annotations)
        return self.variable_or_instance(annotations)

    # Functions and their parameters, which stand here because an instance may hold some

    def function_follows(self) -> bool:
        """Return whether `type name (` or `type name <` is next; tells functions from instances."""
        dotted = int(self.sees("."))
        ahead = 1 + dotted
        if self.next.text not in BASE_TYPES and not self.sees_name(dotted):
            return False
        for opening, closing in (("<", ">"), ("[", "]")):
            if self.peek(ahead).text != opening:
                continue
            depth = 0
            while self.peek(ahead).text not in (";", "{") and self.peek(ahead).kind != "end":
                depth += (self.peek(ahead).text == opening) - (self.peek(ahead).text == closing)
                ahead += 1
                if depth == 0:
                    break
        return self.sees_name(ahead) and self.peek(ahead + 1).text in ("(", "<")

    def function(self, annotations: list[syntax.Annotation]) -> syntax.FunctionDeclaration:
        """Parse a function with a body. Raises: SyntaxFault."""
        with self.scope():
            self.declare_result_type()
            returns = self.type_ref()
            name = self.name("the function")
            types = self.type_parameters()
            parameters = self.parameters(f"function {name.text}")
            body = self.block(f"function {name.text}")
        self.declare(name.text, False)
        return syntax.FunctionDeclaration(
            at=name.location,
            name=name.text,
            annotations=annotations,
            returns=returns,
            parameters=parameters,
            type_parameters=types,
            body=body,
        )

    def declare_result_type(self) -> None:
        """Declare the type parameter T of `T name<T>(...)` before the result's type uses it."""
        if self.sees_name() and self.sees_name(1) and self.peek(2).text == "<":
            self.declare(self.next.text, True)

    def type_parameters(self) -> list[str]:
        """Parse `<T, U>` if it is next."""
        names: list[str] = []
        if self.takes("<"):
            while True:
                name = self.name("a type parameter")
                self.declare(name.text, True)
                names.append(name.text)
                if not self.takes(","):
                    break
            self.expect(">", "after the type parameters")
        return names

    def parameters(self, what: str) -> list[syntax.ParameterDeclaration]:
        """Parse parameters with both parentheses."""
        self.expect("(", f"before the parameters of {what}")
        parameters: list[syntax.ParameterDeclaration] = []
        while parameters or not self.sees(")"):  # behind a comma stands another
            annotations = self.annotations()
            direction = self.take().text if self.sees("in", "out", "inout") else ""
            type_ref = self.type_ref()
            name = self.declarator(type_ref, f"a parameter of {what}")
            default = self.expression() if self.takes("=") else None
            self.declare(name.text, False)
            parameters.append(
                syntax.ParameterDeclaration(
                    at=name.location,
                    name=name.text,
                    annotations=annotations,
                    type_ref=type_ref,
                    direction=direction,
                    default=default,
                )
            )
            if not self.takes(","):
                break
        self.expect(")", f"after the parameters of {what}")
        return parameters

    def _if(self) -> syntax.Statement:
        at = self.take().location
        otherwise = None
        with self.nested():
            arms = [self._arm()]
            while self.takes("else"):
                if not self.takes("if"):
                    otherwise = self._branch("else")
                    break
                arms.append(self._arm())
        return syntax.IfStatement(at=at, arms=arms, otherwise=otherwise)

    def _arm(self) -> syntax.IfArm:
        self.expect("(", "after if")
        condition = self.expression()
        if self.sees("="):
            self.fail("expected ')' after the condition", "compare with ==")
        self.expect(")", "after the condition")
        return syntax.IfArm(condition=condition, body=self._branch("if"))

    def _branch(self, of: str) -> syntax.Statement:
        at = self.next.location
        if self.sees("}"):
            self.fail(f"expected a statement after {of}")
        with self.scope():
            of_if = of == "if" and self.sees("{")
            statement = self.block("the block", before="else") if of_if else self.statement()
        if isinstance(statement, syntax.Declaration):
            self.reporter.error(statement.at, f"a declaration cannot be the body of {of}", "put it in { }")
        return statement or syntax.Block(at=at, statements=[])

    def _for(self) -> syntax.Statement:
        at = self.take().location
        with self.nested(), self.scope():
            self.expect("(", "after for")
            annotations = self.annotations()
            loop = self._for_in(at)
            if loop is not None:
                return loop
            initial = self._simple_statements(annotations, ";")
            self.expect(";", "after the first part of for")
            condition = self._condition_of_for()
            self.expect(";", "after the condition of for")
            update = self._simple_statements([], ")")
            for node in update:
                if isinstance(node, syntax.VariableDeclaration):
                    what = "a declaration cannot stand behind the condition of for"
                    self.reporter.error(node.at, what, "write it before the condition, or in the body")
            self.expect(")", "after the last part of for")
            body = self._branch("for")
        return syntax.ForStatement(at=at, initial=initial, condition=condition, update=update, body=body)

    def _condition_of_for(self) -> syntax.Expression:
        if not self.sees(";"):
            return self.expression()
        at = self.next.location
        self.reporter.error(at, "the condition of for is missing", "write true where break ends the loop")
        return syntax.BoolLiteral(at=at, truth=True)

    def _for_in(self, at: Location) -> syntax.Statement | None:
        """Parse the rest of `for (type name in collection) body`, None if it is the other kind of loop."""
        start, type_ref = self._at, None
        if self.starts_declaration():
            type_ref = self.type_ref()
        if not self.sees_name() or self.peek().text != "in":
            self._at = start
            return None
        name = self.name("the variable")
        self.take()
        if type_ref is not None:
            self.declare(name.text, False)
        collection = self.expression()
        if self.takes(".."):
            collection = syntax.RangeSet(at=collection.at, low=collection, high=self.expression())
        self.expect(")", "after what for goes through")
        return syntax.ForInStatement(
            at=at,
            name=name.text,
            name_at=name.location,
            type_ref=type_ref,
            collection=collection,
            body=self._branch("for"),
        )

    def _simple_statements(self, annotations: list[syntax.Annotation], end: str) -> list[syntax.Statement]:
        """Parse declarations, assignments and calls between commas, up to `end`."""
        found: list[syntax.Statement] = []
        while not self.sees(end):
            annotations = self.annotations() if found else annotations
            if self.starts_declaration():
                type_ref = self.type_ref()
                name = self.declarator(type_ref, "the variable")
                initial = self.expression() if self.takes("=") else None
                self.declare(name.text, False)
                found.append(
                    syntax.VariableDeclaration(
                        at=name.location,
                        name=name.text,
                        annotations=annotations,
                        type_ref=type_ref,
                        initial=initial,
                    )
                )
            else:
                found.append(self._assigned_or_called())
            if not self.takes(","):
                break
        return found

    def _switch(self) -> syntax.Statement:
        at = self.take().location
        self.expect("(", "after switch")
        subject = self.expression()
        self.expect(")", "after the subject of switch")
        with self.nested():
            cases = self.each("the cases of switch", self._case)
        return syntax.SwitchStatement(at=at, subject=subject, cases=cases)

    def _case(self) -> syntax.SwitchLabel:
        at = self.next.location
        if self.next.text == "case" and self.peek().text != ":":
            self.reporter.error(at, "P4 has no case", "write the value alone, and its statements in braces")
            raise SyntaxFault
        label = None if self.takes("default") else self.expression()
        if self.next.text in _ASSIGNMENTS or self.next.text == ";":
            self.fail("expected ':' after the label of a case", "the statements of a case stand in braces")
        self.expect(":", "after the label of a case")
        body = self.block("the case", before="default") if self.sees("{", "@") else None
        return syntax.SwitchLabel(at=at, label=label, body=body)

    def _assignment_or_call(self) -> syntax.Statement:
        statement = self._assigned_or_called()
        what = "call" if isinstance(statement, syntax.CallStatement) else "assignment"
        self.expect(";", f"after the {what}")
        return statement

    def _assigned_or_called(self) -> syntax.Statement:
        at, word = self.next.location, self.next.text
        if word in _FOREIGN and self.peek().text == "(":
            self.reporter.error(at, f"P4 has no {word}", _FOREIGN[word])
            raise SyntaxFault
        target = self._postfix(self._primary())
        token = self.next
        op = token.text if token.text in _ASSIGNMENTS else ""
        if token.text == ">" and self.peek().text == ">=" and token.touches(self.peek()):
            op = ">>="
            self.take()
        if op:
            self.take()
            value = self.expression()
            return syntax.Assignment(at=token.location, target=target, op=op, value=value)
        if not isinstance(target, syntax.Call):
            hints = {"==": "assign with =", "++": "write += 1", "-": "write -= 1"}
            is_arrow = token.text == "-" and self.peek().text == ">"
            self.fail("expected '=' or a call", "write . for ->" if is_arrow else hints.get(token.text, ""))
        return syntax.CallStatement(at=at, call=target)
