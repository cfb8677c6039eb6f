# SPDX-License-Identifier: Apache-2.0
"""Checks what an extern object defines itself: the bodies of its abstract methods, and objects that they use.

Source: P4-16 Language Specification 1.2.5, "Abstract methods", "Instantiating objects with abstract methods".
"""

from __future__ import annotations

from . import syntax
from .check_states import StateChecker
from .diagnostics import did_you_mean
from .symbols import THIS, Instance, ParameterSymbol, RoutineSymbol, Scope, TypeSymbol, same_parameters
from .type_variables import same
from .types import UNKNOWN, ExternType, Type


class MemberChecker(StateChecker):
    """The members of an instance, between braces.

    They see each other's objects, what the object's declaration sees, and with `this` their own object: as
    p4c does (p4c #5084), where the specification has what is declared outside all blocks alone.
    """

    def members(self, node: syntax.Instantiation, made: Instance) -> None:
        """Check what stands in braces behind an extern object, and give it its methods."""
        extern = made.type
        declared = {item.name: item for item in extern.symbol.declaration.methods if item.abstract}
        if node.members and not declared:
            self.reporter.error(node.at, f"{extern} has no abstract methods", "remove what is in braces")
            return
        members, mark = node.members or [], self.reporter.mark()
        self._check_complete(node, declared, members)
        outer, self.scope = self.scope, Scope(self.scope)
        outer_owner, self.owner = self.owner, made.name
        self.scope.names[THIS] = made
        methods: dict[str, RoutineSymbol] = {}
        for member in members:
            if isinstance(member, syntax.Instantiation):
                self.instance(member)
        for member in members:
            if not isinstance(member, syntax.FunctionDeclaration):
                continue
            method = declared.get(member.name)
            if method is None or member.name in methods:
                continue
            self.required(member.parameters, f"method {member.name}")
            if method.type_parameters or member.type_parameters:
                self.reporter.unsupported(member.at, f"type parameters of an abstract method, {member.name}")
                continue
            self._check_signature(member, method, extern)
            name = f"{made.name}.{THIS}.{member.name}"  # no name of the program's
            methods[member.name] = RoutineSymbol(name, member, self.scope)
        if not self.reporter.has_failed_since(mark):
            made.methods.update(methods)
            for symbol in methods.values():
                if ((), ()) not in symbol.made:
                    self.routine(symbol, (), ())
        self.scope, self.owner = outer, outer_owner

    def _check_complete(
        self,
        node: syntax.Instantiation,
        declared: dict[str, syntax.MethodDeclaration],
        members: list[syntax.Declaration],
    ) -> None:
        """Report abstract methods without a body, and members that are neither such nor objects."""
        given = [item.name for item in members if isinstance(item, syntax.FunctionDeclaration)]
        missing = [name for name in declared if name not in given]
        if missing:
            what = f"{node.name} lacks what its abstract methods do: {', '.join(missing)}"
            self.reporter.error(node.at, what, "" if given else f"write {node.name} = {{ ... }};")
        for place, member in enumerate(members):
            if isinstance(member, syntax.FunctionDeclaration):
                if member.name not in declared:
                    what = f"{member.name} is no abstract method of extern {node.type_ref.name}"
                    self.reporter.error(member.at, what, did_you_mean(member.name, declared))
                elif any(item.name == member.name for item in members[:place]):
                    self.reporter.error(member.at, f"{node.name} has two methods {member.name}")
            elif not isinstance(member, syntax.Instantiation):
                self.reporter.error(member.at, "an object has methods and objects of its own, no variables")

    def _check_signature(
        self, member: syntax.FunctionDeclaration, method: syntax.MethodDeclaration, extern: ExternType
    ) -> None:
        """Check that a body takes and returns what its extern says."""
        wanted, wanted_back = self._taken(method, extern)
        mark = self.reporter.mark()
        found, found_back = self.parameters_of(member.parameters), self.returned(member.returns)
        if self.reporter.has_failed_since(mark):
            self.reporter.rewind(mark)  # reported where the body is checked
            return
        if not same_parameters(found, wanted) or not same(found_back, wanted_back):
            shown = ", ".join(f"{item.direction} {item.type} {item.name}".strip() for item in wanted)
            self.reporter.error(
                member.at, f"{member.name} is not as its extern has it: {wanted_back} {method.name}({shown})"
            )
            return
        for node, has, needs in zip(member.parameters, found, wanted, strict=True):
            if has.name != needs.name:
                hint = f"calls by name say {has.name}; other compilers may refuse this"
                self.reporter.warning(node.at, f"the extern calls this parameter {needs.name}", hint)

    def _taken(
        self, method: syntax.MethodDeclaration, extern: ExternType
    ) -> tuple[list[ParameterSymbol], Type]:
        """Return what a method takes and returns, for the extern's type arguments."""
        outer, self.scope = self.scope, Scope(extern.symbol.scope)
        for place, name in enumerate(extern.symbol.declaration.type_parameters):
            told = extern.arguments[place] if place < len(extern.arguments) else UNKNOWN
            self.scope.names[name] = TypeSymbol(name, told)
        taken = self.parameters_of(method.parameters), self.returned(method.returns)
        self.scope = outer
        return taken
