# SPDX-License-Identifier: Apache-2.0
"""Checks what instantiates and applies parsers and controls.

Source: P4-16 Language Specification 1.2.5, "Parameterization", "Invoking controls", "Invoking subparsers".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from nicemu.pipeline import ir

from . import syntax
from .check_arguments import ArgumentChecker
from .constants import is_constant
from .control_names import has_controlled
from .diagnostics import Location, article, did_you_mean
from .symbols import (
    ActionSymbol,
    BlockInstance,
    BlockSymbol,
    CallKind,
    CallTarget,
    ConstantSymbol,
    Fixed,
    Instance,
    ParameterSymbol,
    Routine,
    TableSymbol,
    same_parameters,
)
from .type_variables import same, substituted, unify
from .types import (
    INTEGER,
    NOTHING,
    TEXT,
    UNKNOWN,
    BlockType,
    ExternSymbol,
    ExternType,
    ListType,
    Type,
    TypeVariable,
    UnknownType,
)

_ROUND = str.maketrans("[]", "()")
"""Names have no brackets: they are elements of stacks."""
Given: TypeAlias = ConstantSymbol | Instance | BlockInstance
"""What a parameter of a constructor stands for."""

MAX_BLOCK_DEPTH = 64
"""Parsers or controls inside one another."""
MAX_BLOCKS = 1 << 14
"""Parsers and controls of a program, each instance counted: two in each of the next double them."""
MAX_STATES = 1 << 13


class BlockCallChecker(ArgumentChecker):
    """Parsers and controls that are made and applied; `block` is the one being checked."""

    block: BlockSymbol | None = None
    loops = 0
    _block_depth = 0
    _blocks_made = 0
    _calls = 0

    def begin_calls(self) -> int:
        """Count the calls in a row that come now; return the count before, for `end_calls`."""
        before, self._calls = self._calls, 0
        return before

    def end_calls(self, symbol: ActionSymbol | TableSymbol | BlockSymbol | Routine, before: int) -> None:
        """Note that the calls in a row since `begin_calls` are those of `symbol`."""
        symbol.calls, self._calls = self._calls, before

    def count_call(self, at: Location, calls: int) -> None:
        """Count a call of what comes to some calls in a row itself; report one too many."""
        if calls >= ir.MAX_CALLS:
            self.reporter.unsupported(at, f"more than {ir.MAX_CALLS} calls in a row")
            return
        self._calls = max(self._calls, calls + 1)

    def _apply_type(
        self, node: syntax.Call, callee: syntax.MemberRef, symbol: BlockSymbol, types: list[Type]
    ) -> Type:
        """Check an application of a block by its type's name: of the one instance of that name."""
        if self.block is None:
            kind = symbol.declaration.kind
            self.reporter.error(node.at, f"{kind} {symbol.name} can only be applied in a {kind}")
            return UNKNOWN
        variables = symbol.declaration.type_parameters
        if not types and variables:
            bindings: dict[str, Type] = {}
            for argument, parameter in zip(node.arguments, symbol.parameters, strict=False):
                unify(parameter.type, self.expression(argument), bindings)
            types = [bindings.get(name, UNKNOWN) for name in variables]
        name = f"{self.block.name}.{symbol.name}"
        if variables:
            shown = ", ".join(getattr(kind, "name", str(kind)) for kind in types)
            name += f"<{shown.translate(_ROUND)}>"
        if symbol.constructor:
            what = f"{symbol.name} is applied by its name, and has parameters of a constructor"
            self.reporter.error(node.at, what, f"declare {symbol.name}(...) name; and apply that")
            return UNKNOWN
        made = self.block.by_type.get(name)
        if made is None:
            empty = syntax.Call(at=node.at, callee=None, arguments=[])
            is_taken = name in self.block.blocks
            made = self.block_of(empty, symbol, types, f"{name}#type" if is_taken else name)
            if made is None:
                return UNKNOWN
            self.block.by_type[name] = self.block.blocks[made.name] = made
            if is_taken and has_controlled(made):
                what = f"{symbol.name} is applied by its name, and an instance here is called so"
                self.reporter.error(node.at, what, f"declare {symbol.name}() name; and apply that")
        elif has_controlled(made):
            what = f"{symbol.name} is applied by its name twice; what is in both would have the same names"
            self.reporter.error(node.at, what, f"declare {symbol.name}() name; and apply that")
        return self._apply_block(node, callee, made)

    def _apply_block(
        self,
        node: syntax.Call,
        callee: syntax.MemberRef,
        block: BlockSymbol,
        parameters: Sequence[ParameterSymbol] | None = None,
    ) -> Type:
        """Check an application of a block, which is called by `parameters` if these are not its own."""
        kind = block.declaration.kind
        if callee.name != "apply":
            hint = did_you_mean(callee.name, ["apply"])
            self.reporter.error(callee.name_at, f"a {kind} has no method {callee.name}", hint)
            return UNKNOWN
        if self.context != kind and not (self.context == "deparser" and kind == "control"):
            self.reporter.error(node.at, f"a {kind} cannot be applied in {article(self.context)}")
        elif kind == "parser" and self.loops:
            self.reporter.unsupported(node.at, "applying a parser inside a loop", "use states")
        given = self.arrange(node, parameters or block.parameters, block.name)
        self.arguments(node.arguments, given, f"{kind} {block.name.rsplit('.', 1)[-1]}", node)
        self.check_known(node, given)
        block = self._with_objects(
            node, self._with_fixed(node, block) if block.has_fixed_parameters else block
        )
        node.symbol = CallTarget(CallKind.BLOCK, block.name, block)
        block.applied.append(node)
        if kind == "control":
            self.count_call(node.at, block.calls)
        elif self.block is not None:  # its states become those of the one around it
            self.block.states += block.states
            if self.block.states > MAX_STATES:
                what = f"a parser that comes to more than {MAX_STATES} states, those of parsers in it as well"
                self.reporter.unsupported(node.at, what)
        return NOTHING

    def _with_fixed(self, node: syntax.Call, block: BlockSymbol) -> BlockSymbol:
        """Return the instance that a block is for the numbers and texts that it is applied with."""
        wanted = [item.type for item in block.parameters if item.type in (INTEGER, TEXT)]
        pairs = zip(node.arguments, block.parameters, strict=False)
        values = [argument.value for argument, item in pairs if item.type in (INTEGER, TEXT)]
        kinds = [int if kind is INTEGER else str for kind in wanted]
        fixed = tuple(value for value, kind in zip(values, kinds, strict=False) if isinstance(value, kind))
        if len(fixed) != len(wanted) or block.copy is None or self.block is None:
            return block  # already reported
        for made in block.copies:
            if made.fixed == fixed:
                return made
        if block.copies and has_controlled(block):
            what, kind = f"{block.name} applied with other numbers or texts than before", block.declaration
            self.reporter.unsupported(node.at, what, f"declare {kind.name}() name; and apply that")
            return block
        if not self._may_make(node.at):
            return block
        name = f"{block.name}#fixed{len(block.copies)}" if block.copies else block.name
        self._block_depth += 1
        made = block.copy(name, fixed=fixed)
        self._block_depth -= 1
        made.copy, made.fixed = partial(block.copy, fixed=fixed), fixed
        made.blocks = block.blocks | made.blocks  # a constructor's arguments, which are in one of them
        block.blocks.clear()
        block.copies.append(made)
        self.block.blocks[name] = made
        return made

    def _may_make(self, at: Location) -> bool:
        """Return whether one more instance of a parser or control may be made here, and count it."""
        for count, most, what in (
            (self._block_depth, MAX_BLOCK_DEPTH, "blocks deep"),
            (self._blocks_made, MAX_BLOCKS, "instances of parsers and controls"),
        ):
            if count >= most:
                self.reporter.error(at, f"more than {most} {what}", "declare fewer inside one another")
                return False
        self._blocks_made += 1
        return True

    def _with_objects(self, node: syntax.Call, block: BlockSymbol) -> BlockSymbol:
        """Have the parameters of a block that are extern objects stand for those that it is applied to.

        Returns the block, or where it already stands with other objects, the same block made for these.
        """
        given: dict[str, Instance] = {}
        for argument, parameter in zip(node.arguments, block.parameters, strict=False):
            if parameter.name not in block.objects or argument.type is UNKNOWN:
                continue
            found = argument.symbol if isinstance(argument, syntax.NameRef) else None
            if isinstance(found, Instance):
                given[parameter.name] = found
            else:
                self.reporter.error(argument.at, f"argument {parameter.name} must be the name of an object")
        for made in (block, *block.copies):
            if all(made.objects[name].bound in (None, found) for name, found in given.items()):
                break
        else:
            if block.copy is None or self.block is None or has_controlled(block):
                self.reporter.unsupported(node.at, f"{block.name} applied to other objects than before")
                return block
            if not self._may_make(node.at):
                return block
            made = block.copy(f"{block.name}#{len(block.copies) + 2}")
            block.copies.append(made)
            self.block.blocks[made.name] = made
        for name, found in given.items():
            made.objects[name].bound = found
        return made

    def block_of(
        self,
        node: syntax.Call | syntax.Instantiation,
        symbol: BlockSymbol,
        types: Sequence[Type],
        name: str,
        top: bool = False,
        like: Sequence[Type] = (),
    ) -> BlockSymbol | None:
        """Return the instance `name` of a block, None where its arguments are wrong.

        Types that are left out are told by its arguments, or by those of the parameters that it is to have.
        """
        kind, wanted = symbol.declaration, len(symbol.declaration.type_parameters)
        if kind.is_type:
            self.reporter.error(node.at, f"{symbol.name} is only the type of a {kind.kind}")
            return None
        at = node.type_ref.at if isinstance(node, syntax.Instantiation) else node.at
        mark = self.reporter.mark()
        self.arrange(node, symbol.constructor, symbol.name)
        types = types or self._inferred_types(node, symbol, like)
        if len(types) != wanted:
            self.reporter.miscounted(at, symbol.name, "type argument", wanted, len(types))
            return None
        if len(node.arguments) != len(symbol.constructor):
            needed, given = len(symbol.constructor), len(node.arguments)
            if self.reporter.mark() == mark:
                self.reporter.miscounted(at, symbol.name, "argument", needed, given)
            return None
        bindings = dict(zip(kind.type_parameters, types, strict=True))
        if not self.takes(at, symbol.name, symbol.parameters, kind.kind, bindings):
            return None
        arguments: list[Given] = []
        for argument, parameter in zip(node.arguments, symbol.constructor, strict=True):
            found = self.scope.meant(argument) if isinstance(argument, syntax.NameRef) else None
            expected = substituted(parameter.type, bindings)
            if isinstance(expected, ExternType) and isinstance(argument, syntax.Call):
                found = self._object_argument(argument, f"{name}.{parameter.name}")
            if isinstance(found, Instance) and isinstance(expected, ExternType):
                if found.type != expected:
                    self.reporter.error(
                        argument.at, f"argument {parameter.name} is {found.type}; {expected} was expected"
                    )
                    return None
                arguments.append(found)
                continue
            if isinstance(expected, BlockType):
                block = self._block_argument(argument, expected, f"{name}.{parameter.name}")
                if block is None:
                    return None
                arguments.append(block)
                continue
            value = self.constant(argument, expected, f"argument {parameter.name}")
            known = same(argument.type, expected) and is_constant(argument)
            if (value is None and not known) or argument.type is UNKNOWN:
                return None
            made_by = argument if value is None else None
            arguments.append(ConstantSymbol(parameter.name, expected, value, made_by, given=True))
        if not self._may_make(node.at):
            return None
        self._block_depth += 1
        made = self.instantiate(symbol, types, arguments, name, top)
        self._block_depth -= 1
        inside = [
            replace(item, is_new=False) if isinstance(item, BlockInstance) else item for item in arguments
        ]
        made.copy = partial(self.instantiate, symbol, types, inside)
        return made

    def _inferred_types(
        self, node: syntax.Call | syntax.Instantiation, symbol: BlockSymbol, like: Sequence[Type]
    ) -> list[Type]:
        """Return the type arguments of an instance that is written without; none where not all are told."""
        bindings: dict[str, Type] = {}
        for parameter, kind in zip(symbol.parameters, like, strict=False):
            unify(parameter.type, kind, bindings)
        for parameter, argument in zip(symbol.constructor, node.arguments, strict=False):
            if isinstance(parameter.type, TypeVariable) and parameter.type.name not in bindings:
                bindings[parameter.type.name] = self.expression(argument)
        told = [bindings.get(name, UNKNOWN) for name in symbol.declaration.type_parameters]
        untold = any(isinstance(kind, UnknownType | ListType) or kind is INTEGER for kind in told)
        return [] if untold else told

    def _object_argument(self, node: syntax.Call, name: str) -> Instance | None:
        """Return the extern object that an argument of a constructor makes, None where it makes none."""
        ref = constructed(node)
        named = self.scope.meant(ref) if ref is not None else None
        if ref is None or not isinstance(named, ExternSymbol):
            return None
        kind = self.instantiated(ref)
        return self.object_of(node, kind, name) if isinstance(kind, ExternType) else None

    def object_of(self, node: syntax.Instantiation | syntax.Call, kind: ExternType, name: str) -> Instance:
        """Return the extern object that a declaration or constructor makes; the subclass that knows them does
        it.
        """
        raise NotImplementedError

    def _block_argument(self, node: syntax.Expression, wanted: BlockType, name: str) -> BlockInstance | None:
        """Return the parser or control that a constructor is given: one that there is, or a new one."""
        found = self.scope.meant(node) if isinstance(node, syntax.NameRef) else None
        if isinstance(found, BlockInstance):
            made: BlockSymbol | None = found.block
        elif isinstance(node, syntax.Call) and (ref := constructed(node)) is not None:
            kind = self.resolve(ref)
            if not isinstance(kind, BlockType):
                if kind is not UNKNOWN:
                    self.reporter.error(node.at, f"this is {kind}; {wanted} was expected")
                return None
            like = [item.type for item in called_as(wanted)]
            made = self.block_of(node, kind.symbol, kind.arguments, name, like=like)
        else:
            self.reporter.error(
                node.at, f"a {wanted} was expected here", "write Name() or the name of an object"
            )
            return None
        if made is None:
            return None
        expected = called_as(wanted)
        fits = same_parameters(made.parameters, expected)
        kind_of = made.declaration.kind
        if kind_of != wanted.symbol.declaration.kind:
            what = f"{made.declaration.name} is a {kind_of}; {wanted} was expected"
            self.reporter.error(node.at, what)
            return None
        if not fits:
            self.reporter.error(node.at, f"{made.declaration.name} has other parameters than {wanted}")
            return None
        if isinstance(found, BlockInstance):
            return replace(found, parameters=expected)
        return BlockInstance(name, made, is_new=True, parameters=expected)

    def instantiate(
        self,
        symbol: BlockSymbol,
        types: Sequence[Type],
        arguments: Sequence[Given],
        name: str,
        top: bool = False,
        fixed: Fixed = (),
    ) -> BlockSymbol:
        """Return an instance of a block; the subclass that knows blocks does it."""
        raise NotImplementedError


def called_as(kind: BlockType) -> list[ParameterSymbol]:
    """Return the parameters that calls of any block of a type are held against."""
    given = dict(zip(kind.symbol.declaration.type_parameters, kind.arguments, strict=False))
    return [item.of_type(substituted(item.type, given)) for item in kind.symbol.parameters]


def constructed(node: syntax.Call) -> syntax.TypeRef | None:
    """Return the type whose constructor is called, None where something else is."""
    if node.constructed is None and isinstance(node.callee, syntax.NameRef):
        return syntax.TypeRef(node.at, node.callee.name, absolute=node.callee.absolute)
    return node.constructed
