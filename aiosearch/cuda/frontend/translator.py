"""Functions and statements of C++ as structured operations; every call is inlined.

C leaves blocks in the middle, by `return`, `break` and `continue`. Here each of them sets a flag,
which is a value like any other, and what stands behind it is in a branch on that flag:

    if (i >= n) return;        %p = ge %i, %n
    a[i] = 0;                  if (not %p) { store ... }

A `__syncthreads()` behind such a `return` is in the branch, too, and is right there: a thread that
has returned is not waited for. Where a kernel has barriers, a call of `exit` says who has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..errors import SourceError, UnsupportedConstruct
from ..ir.builder import block
from ..ir.operations import (
    Address,
    Atomic,
    Barrier,
    CallOperation,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    MemorySpace,
    Operand,
    Operation,
    ParallelFunction,
    Parameter,
    SourceLocation,
    Store,
    Symbol,
    While,
)
from ..ir.types import ScalarType
from . import clang, declarations, intrinsics, layout, loops, scanner
from .counting import Counting
from .cursors import Cursor, Diagnostic, Held, Leaves, Place, Stored

_FALSE, _TRUE = ConstantOperand(False, ScalarType.BOOL), ConstantOperand(True, ScalarType.BOOL)


@dataclass(slots=True)
class _Frame:
    """A function that is being inlined."""

    name: str
    returned: int
    """The variable that says whether it has."""
    result: Held | None
    reference: Place | None = None


@dataclass(slots=True)
class _Loop:
    broke: int
    continued: int


class Translator(Counting):
    """Translates one function, and all that it calls, into one body."""

    def __init__(self, *, is_kernel: bool = True, errors: Sequence[Diagnostic] = ()) -> None:
        super().__init__()
        self.is_kernel = is_kernel
        self._errors = errors
        self._frames: list[_Frame] = []
        self._loops: list[_Loop] = []
        self._waits = False
        """Whether there is a barrier, so that it has to be said who has returned."""
        self._addressed: set[int] = set()
        self._symbols: dict[int, Symbol] = {}
        self._shared: dict[int, Place] = {}
        self._dynamic: IrValue | None = None
        self._kept: dict[IrValue, Operand] = {}
        """Loop-carried values that turned out to be what they began as."""

    # --- functions

    def function(self, cursor: Cursor) -> ParallelFunction:
        """Translates a kernel or host function from its declaration."""
        clang.require_right(cursor, self._errors)
        body = clang.braces(cursor)
        at = clang.location(cursor)
        self._addressed |= scanner.addressed(body)
        self._waits = scanner.Barriers().inside(body)
        parameters: list[Parameter] = []
        for parameter in clang.parameters(cursor):
            parameters += self._parameter(parameter)
        result = cursor.result_type
        if layout.kind(result) != "VOID" and self.is_kernel:
            raise UnsupportedConstruct("a kernel that returns a value", at)
        place = None
        if layout.kind(result) != "VOID":
            zeros = tuple(ConstantOperand(0, leaf.type) for leaf in layout.leaves(result, at))
            place = self.held(result, zeros)
        self._frames.append(_Frame(cursor.spelling, self.new_key((_FALSE,)), place))
        self.statements(clang.children(body))
        yields = self.read(place) if place is not None else ()
        lines = [*self.builder.prologue, *self.builder.lines]
        from ..passes.rewriter import substituted

        whole = substituted(block(lines, *yields), self._kept)
        symbols = tuple(self._symbols.values())
        return ParallelFunction(
            cursor.spelling, tuple(parameters), whole, symbols, self.is_kernel, at
        )

    def _parameter(self, cursor: Cursor) -> list[Parameter]:
        """One parameter of the IR for each scalar of the argument."""
        at, name = clang.location(cursor), cursor.spelling
        if layout.is_reference(cursor.type):
            raise UnsupportedConstruct(f"the reference {name} as an argument of a launch", at)
        if layout.is_array(cursor.type):
            parameter = declarations.array_parameter(cursor, self.builder)
            self.places[cursor.hash] = Stored(Address(parameter.value), cursor.type)
            return [parameter]
        parts = layout.leaves(cursor.type, at)
        collected = []
        for place, leaf in enumerate(parts):
            value = self.builder.value(leaf.type, name)
            label = name if len(parts) == 1 else f"{name}.{place}"
            collected.append(Parameter(value, label))
        if len(parts) == 1 and parts[0].type is ScalarType.PTR:
            target = layout.pointee(cursor.type)
            void = layout.kind(target) in ("VOID", "FUNCTIONPROTO")
            element = None if void else layout.uniform_element(target, at)
            stride, const = 1 if void else layout.size(target), target.is_const_qualified()
            collected = [Parameter(collected[0].value, name, element, const, stride)]
        self._declared(cursor, tuple(item.value for item in collected))
        return collected

    def _declared(self, cursor: Cursor, values: Leaves) -> None:
        """Begins a variable with values."""
        if cursor.hash in self._addressed or layout.holds_array(cursor.type):
            place: Place = self._in_memory(cursor)
            self.places[cursor.hash] = place
            self.write(place, values)
        else:
            self.places[cursor.hash] = self.held(cursor.type, values)

    def _in_memory(self, cursor: Cursor) -> Stored:
        at, type = clang.location(cursor), cursor.type
        self.builder.at = at
        element = layout.main_scalar(type, at)
        pointer = self.builder.alloc(
            MemorySpace.PRIVATE, layout.size(type), element, cursor.spelling
        )
        return Stored(Address(pointer), type)

    def call(self, cursor: Cursor) -> Leaves:
        values, _ = self._called(cursor)
        return values

    def called_place(self, cursor: Cursor) -> Place | None:
        function = cursor.referenced
        if function is None or not layout.is_reference(function.result_type):
            return None
        _, place = self._called(cursor)
        return place

    def _called(self, cursor: Cursor) -> tuple[Leaves, Place | None]:
        function, at = cursor.referenced, clang.location(cursor)
        if at.line:
            self.builder.at = at
        if function is None:
            raise UnsupportedConstruct("a call through a pointer", self.builder.at)
        if function.kind.name == "CONSTRUCTOR":
            return self._constructed(cursor, function), None
        launch = declarations.configuration(cursor)
        if launch is not None:
            return self._launched(cursor, launch), None
        if declarations.copies(function):
            place, (source, *_) = self._object(cursor, function)
            assert place is not None
            self.write(place, self.value(source))
            return self.read(place), place
        name = function.spelling
        definition = function if clang.body(function) is not None else function.get_definition()
        if definition is None or clang.body(definition) is None:
            existing = intrinsics.translated(self, cursor, name)
            if existing is None:
                existing = self._hosted(cursor, name)
            if existing is None:
                raise UnsupportedConstruct(f"a call of {name}, which has no body here", at)
            return existing, None
        return self._inlined(cursor, definition)

    def _hosted(self, cursor: Cursor, name: str) -> Leaves | None:
        """What a host function asks of CUDA's library, left to whoever runs it."""
        if self.is_kernel or not name.startswith(("cu", "malloc", "free", "mem")):
            return None
        arguments = list(cursor.get_arguments())
        values: list[Operand] = []
        for argument in arguments:
            if name.endswith("Symbol") and declarations.is_symbol(argument):
                values.append(self.pointer(self.place(argument)))
            elif clang.children(argument) or argument.location.line:
                values += self.value(argument)
        type = layout.scalar(cursor.type)
        result = self.builder.value(type) if type is not None else None
        self.builder.write(CallOperation(name, tuple(values), "", result, self.builder.at))
        return () if result is None else (result,)

    def _launched(self, cursor: Cursor, launch: Cursor) -> Leaves:
        """A launch: the kernel's name, grid and block as six numbers, shared bytes, arguments."""
        shape: list[Operand] = []
        arguments = list(launch.get_arguments())
        for argument in arguments[:2]:
            shape += [self.builder.cast(item, ScalarType.U32) for item in self.value(argument)]
        shared: Operand = ConstantOperand(0, ScalarType.U64)
        if len(arguments) > 2 and arguments[2].location.line and clang.children(arguments[2]):
            shared = self.builder.cast(self.scalar(arguments[2]), ScalarType.U64)
        values: list[Operand] = []
        for argument in clang.children(cursor)[2:]:
            is_array = layout.is_array(scanner.stripped(argument).type)
            values += (self.pointer_to(argument),) if is_array else self.value(argument)
        name = declarations.signature(cursor.referenced)
        self.builder.write(
            CallOperation("launch", (*shape, shared, *values), name, None, clang.location(cursor))
        )
        return ()

    def _constructed(self, cursor: Cursor, function: Cursor) -> Leaves:
        """Copies, the constructors of `dim3`, and those that a struct defines."""
        arguments = list(cursor.get_arguments())
        parts = layout.leaves(cursor.type, self.builder.at)
        if function.is_copy_constructor() or function.is_move_constructor():
            return self.value(arguments[0])
        if layout.canonical(cursor.type).spelling == "dim3":
            supplied = [item for item in arguments if item.location.line and clang.children(item)]
            values = [leaf for item in supplied for leaf in self.value(item)]
            values = [self.builder.cast(item, ScalarType.U32) for item in values]
            return (*values, *[ConstantOperand(1, ScalarType.U32)] * (3 - len(values)))
        zeros = tuple(ConstantOperand(0, leaf.type) for leaf in parts)
        definition = function.get_definition() or function
        if clang.body(definition) is None or (
            function.is_default_constructor() and (not clang.children(clang.braces(definition)))
        ):
            return zeros
        place = self.held(cursor.type, zeros)
        self._initialized(place, definition, arguments)
        return self.read(place)

    def _initialized(self, place: Held, constructor: Cursor, arguments: Sequence[Cursor]) -> None:
        with _Inlining(self, constructor, None, place):
            self._arguments(constructor, arguments)
            field = None
            for child in clang.children(constructor):
                if child.kind.name == "MEMBER_REF":
                    field = child
                elif field is not None and child.kind.name != "COMPOUND_STMT":
                    target = self._member_of(place, field)
                    self.write(target, self.converted(child, target.type))
                    field = None
            self.statements(clang.children(clang.braces(constructor)))

    def _inlined(self, cursor: Cursor, function: Cursor) -> tuple[Leaves, Place | None]:
        at = clang.location(cursor)
        if any(frame.name == function.get_usr() for frame in self._frames):
            raise UnsupportedConstruct(f"the recursion of {function.spelling}", at)
        clang.require_right(function, self._errors)
        body = clang.braces(function)
        self._addressed |= scanner.addressed(body)
        receiver, arguments = self._object(cursor, function)
        result = None
        type = function.result_type
        if layout.kind(type) != "VOID" and not layout.is_reference(type):
            zeros = tuple(ConstantOperand(0, leaf.type) for leaf in layout.leaves(type, at))
            result = self.held(type, zeros)
        with _Inlining(self, function, result, receiver) as frame:
            self._arguments(function, arguments)
            self.statements(clang.children(body))
        self.builder.at = at
        if frame.reference is not None:
            return self.read(frame.reference), frame.reference
        return (self.read(result) if result is not None else ()), None

    def _object(self, cursor: Cursor, function: Cursor) -> tuple[Place | None, list[Cursor]]:
        """The object of a method, and the arguments without it."""
        arguments = list(cursor.get_arguments())
        if function.kind.name != "CXX_METHOD" or function.is_static_method():
            return None, arguments
        callee = clang.children(cursor)[0]
        if callee.kind.name != "MEMBER_REF_EXPR":
            return self.place(arguments[0]), arguments[1:]
        inner = clang.children(callee)
        if not inner:
            return self.this, arguments
        if layout.kind(inner[0].type) == "POINTER":
            return Stored(Address(self.scalar(inner[0])), layout.pointee(inner[0].type)), arguments
        return self.place(inner[0]), arguments

    def _arguments(self, function: Cursor, arguments: Sequence[Cursor]) -> None:
        """Binds parameters: references to places, all else to values of its own."""
        bound: list[tuple[Cursor, Place | Leaves]] = []
        parameters = clang.parameters(function)
        for parameter, argument in zip(parameters, arguments, strict=False):
            if not argument.location.line and not clang.children(argument):
                argument = clang.children(parameter)[-1]
            if layout.is_reference(parameter.type):
                bound.append((parameter, self.place(argument)))
            elif layout.is_array(parameter.type):
                bound.append((parameter, Stored(self.address(argument), parameter.type)))
            else:
                bound.append((parameter, self.converted(argument, parameter.type)))
        for parameter, target in bound:
            if isinstance(target, tuple):
                self._declared(parameter, target)
            else:
                self.places[parameter.hash] = target

    # --- variables of files

    def global_place(self, declaration: Cursor) -> Place | Leaves:
        """Variables outside of functions, `__shared__` ones, and tables that are `static const`."""
        at = self.builder.at
        if declaration.kind.name != "VAR_DECL":
            raise UnsupportedConstruct(f"the use of {declaration.spelling}", at)
        if clang.is_broken(declaration):
            raise SourceError(
                f"{at}: there is an error in the declaration of {declaration.spelling}"
            )
        constant = self._constant(declaration)
        if constant is not None:
            return constant
        if declaration.hash not in self._symbols:
            type = declaration.type
            element = layout.main_scalar(type, at)
            value = self.builder.value(ScalarType.PTR, declaration.spelling)
            self._symbols[declaration.hash] = Symbol(
                value,
                declaration.spelling,
                layout.size(type),
                element,
                declarations.table(declaration),
            )
        return Stored(Address(self._symbols[declaration.hash].value), declaration.type)

    def _constant(self, declaration: Cursor) -> Leaves | None:
        """The value of a constant that the compiler knows."""
        type = layout.scalar(declaration.type)
        if type is None or type is ScalarType.PTR or not declaration.type.is_const_qualified():
            return None
        initial = declarations.initializer(declaration)
        value = None if initial is None else clang.evaluated(initial)
        if value is None or isinstance(value, bytes):
            return None
        return (ConstantOperand(float(value) if type.is_float else int(value), type),)

    def _shared_variable(self, cursor: Cursor) -> None:
        if cursor.hash not in self._shared:
            type, at = cursor.type, clang.location(cursor)
            self.builder.at = at
            element = layout.main_scalar(type, at)
            if layout.kind(type) == "INCOMPLETEARRAY":
                if self._dynamic is None:
                    self._dynamic = self.builder.alloc(
                        MemorySpace.SHARED, None, element, cursor.spelling
                    )
                pointer = self._dynamic
            else:
                size = layout.size(type)
                pointer = self.builder.alloc(MemorySpace.SHARED, size, element, cursor.spelling)
            self._shared[cursor.hash] = Stored(Address(pointer), type)
        self.places[cursor.hash] = self._shared[cursor.hash]

    def block_vote(self, name: str, value: Operand) -> Leaves:
        """Counts the threads of a block that hold a value other than zero, between barriers."""
        builder, at = self.builder, self.builder.at
        count = Address(builder.alloc(MemorySpace.SHARED, 4, ScalarType.I32, "count"))
        zero = ConstantOperand(0, ScalarType.I32)
        builder.write(Barrier(at=at))
        first = builder.compare("eq", self._linear_thread(), ConstantOperand(0, ScalarType.U32))
        builder.write(If(first, block([Store(count, zero, ScalarType.I32, at)]), block([]), (), at))
        builder.write(Barrier(at=at))
        held = builder.cast(builder.cast(value, ScalarType.BOOL), ScalarType.I32)
        builder.write(Atomic(builder.value(ScalarType.I32), "add", count, held, None, at))
        builder.write(Barrier(at=at))
        total = builder.value(ScalarType.I32)
        builder.write(Load(total, count, at))
        if name == "count":
            return (total,)
        required: Operand = zero
        if name == "and":
            required = builder.cast(self._block_size(), ScalarType.I32)
        collected = builder.compare("eq" if name == "and" else "ne", total, required)
        return (builder.cast(collected, ScalarType.I32),)

    def _linear_thread(self) -> Operand:
        builder = self.builder
        x, y, z = (builder.index(f"thread.{axis}") for axis in "xyz")
        wide, high = builder.index("block.dim.x"), builder.index("block.dim.y")
        above = builder.compute("mul", ScalarType.U32, z, high)
        rows = builder.compute("add", ScalarType.U32, y, above)
        before = builder.compute("mul", ScalarType.U32, rows, wide)
        return builder.compute("add", ScalarType.U32, x, before)

    def _block_size(self) -> Operand:
        builder = self.builder
        x, y, z = (builder.index(f"block.dim.{axis}") for axis in "xyz")
        flat = builder.compute("mul", ScalarType.U32, x, y)
        return builder.compute("mul", ScalarType.U32, flat, z)

    # --- statements

    def statements(self, cursors: Sequence[Cursor]) -> None:
        """Translates statements in order; what stands behind a jump goes into a branch."""
        for place, cursor in enumerate(cursors):
            self.statement(cursor)
            behind = cursors[place + 1 :]
            if not behind or not scanner.jumps(cursor):
                continue
            stopped = self._stopped()
            if stopped == _TRUE:
                return
            if stopped != _FALSE:
                self.branch(self.builder.negated(stopped), self._present(behind), _nothing)
                return

    def _present(self, cursors: Sequence[Cursor]) -> Callable[[], None]:
        """Statements for threads that have not jumped: inside, their flags are known to be down."""

        def translate() -> None:
            # A branch on a flag that is down inside of it would only be folded away again later.
            flags = {key: self.environment[key] for key in self._flags()}
            self.environment |= dict.fromkeys(flags, (_FALSE,))
            self.statements(cursors)
            down = [key for key in flags if self.environment[key] == (_FALSE,)]
            self.environment |= {key: flags[key] for key in down}

        return translate

    def _flags(self) -> list[int]:
        keys = [self._frames[-1].returned]
        if self._loops:
            keys += [self._loops[-1].broke, self._loops[-1].continued]
        return [key for key in keys if key in self.environment]

    def _stopped(self) -> Operand:
        """Whether the thread has left the statements that are being translated."""
        stopped: Operand = _FALSE
        for key in self._flags():
            (flag,) = self.environment[key]
            stopped = self.builder.compute("or", ScalarType.BOOL, stopped, flag)
        return stopped

    def statement(self, cursor: Cursor) -> None:
        self.builder.at = clang.location(cursor)
        translate = _STATEMENTS.get(cursor.kind.name)
        if translate is not None:
            translate(self, cursor)
        elif cursor.kind.is_expression():
            self.value(cursor)
        else:
            kind = cursor.kind.name.lower().replace("_", " ")
            raise UnsupportedConstruct(f"a {kind}", self.builder.at)

    def compound_statement(self, cursor: Cursor) -> None:
        self.statements(clang.children(cursor))

    def attributed(self, cursor: Cursor) -> None:
        """A statement behind an attribute such as `#pragma unroll`."""
        inner = clang.children(cursor)
        if inner:
            self.statement(inner[-1])

    def nothing(self, cursor: Cursor) -> None:
        """An empty statement, or a declaration that declares no variable."""

    def declarations(self, cursor: Cursor) -> None:
        for child in clang.children(cursor):
            if child.kind.name == "VAR_DECL":
                self._variable(child)
            elif child.kind.name not in _SILENT:
                raise UnsupportedConstruct(
                    f"a declaration of {child.spelling} here", clang.location(child)
                )

    def _variable(self, cursor: Cursor) -> None:
        at = clang.location(cursor)
        self.builder.at = at
        if clang.attribute(cursor, "CUDASHARED_ATTR"):
            self._shared_variable(cursor)
            return
        if cursor.storage_class.name == "STATIC":
            return
        initial = declarations.initializer(cursor)
        if layout.is_reference(cursor.type):
            if initial is None:
                raise UnsupportedConstruct(f"the reference {cursor.spelling}", at)
            self.places[cursor.hash] = self.place(initial)
            return
        if cursor.hash not in self._addressed and not layout.holds_array(cursor.type):
            parts = layout.leaves(cursor.type, at)
            values: Leaves = tuple(ConstantOperand(0, leaf.type) for leaf in parts)
            if initial is not None:
                values = self.converted(initial, cursor.type)
            self.places[cursor.hash] = self.held(cursor.type, values)
            return
        place = self._in_memory(cursor)
        self.places[cursor.hash] = place
        if initial is not None and not declarations.is_default(initial):
            self.write(place, self.converted(initial, cursor.type))

    def if_statement(self, cursor: Cursor) -> None:
        inner = clang.children(cursor)
        if inner and inner[0].kind.name in ("DECL_STMT", "VAR_DECL"):
            raise UnsupportedConstruct("a declaration in a condition", self.builder.at)
        condition = self.condition(inner[0])
        self.builder.at = clang.location(cursor)
        arms = [self._arm(item) for item in inner[1:]]
        self.branch(condition, arms[0], arms[1] if len(arms) > 1 else _nothing)

    def _arm(self, cursor: Cursor) -> Callable[[], None]:
        return lambda: self.statements([cursor])

    def return_statement(self, cursor: Cursor) -> None:
        frame, inner = self._frames[-1], clang.children(cursor)
        if inner and frame.result is not None:
            self.write(frame.result, self.converted(inner[0], frame.result.type))
        elif inner:
            frame.reference = self.place(inner[0])
        self.environment[frame.returned] = (_TRUE,)
        if self._waits and len(self._frames) == 1:
            self.builder.write(CallOperation("exit", (), at=clang.location(cursor)))

    def break_statement(self, cursor: Cursor) -> None:
        self.environment[self._loops[-1].broke] = (_TRUE,)

    def continue_statement(self, cursor: Cursor) -> None:
        self.environment[self._loops[-1].continued] = (_TRUE,)

    def for_statement(self, cursor: Cursor) -> None:
        initial, condition, increment, body = loops.for_parts(cursor)
        at = clang.location(cursor)
        if initial is not None:
            self.statement(initial)
        if not self._counted(initial, condition, increment, body, at):
            self._repeated(condition, body, increment, at)

    def while_statement(self, cursor: Cursor) -> None:
        condition, body = clang.children(cursor)
        self._repeated(condition, body, None, clang.location(cursor))

    def do_statement(self, cursor: Cursor) -> None:
        body, condition = clang.children(cursor)
        self._repeated(condition, body, None, clang.location(cursor), tests_first=False)

    def _repeated(
        self,
        condition: Cursor | None,
        body: Cursor,
        increment: Cursor | None,
        at: SourceLocation,
        *,
        tests_first: bool = True,
    ) -> None:
        """A loop of any kind; whether to go on is a carried value, computed at the end."""
        parts = [item for item in (condition, body, increment) if item is not None]
        keys = self._assigned_keys(parts)
        first: Operand = _TRUE
        if tests_first and condition is not None:
            first = self.condition(condition)
            if first == _FALSE:
                return
        returned = self._frames[-1].returned
        if self.environment[returned] != (_FALSE,):
            first = self.builder.compute(
                "and", ScalarType.BOOL, first, self.builder.negated(self.environment[returned][0])
            )
        # The condition is a variable like the others, so that what its side effects assign is
        # carried, too.
        going = self.new_key((first,))
        before = dict(self.environment)
        carried = self._carry([going, *keys])
        with self.builder.block() as lines:
            self._body(body, increment, condition, going, at)
        self._finish([going, *keys], carried, before, lines, at, None)
        del self.environment[going]

    def _body(
        self, body: Cursor, increment: Cursor | None, condition: Cursor | None, going: int,
        at: SourceLocation,
    ) -> None:  # fmt: skip
        loop = _Loop(self.new_key((_FALSE,)), self.new_key((_FALSE,)))
        self._loops.append(loop)
        self.statements([body])
        self.environment[loop.continued] = (_FALSE,)
        stopped: Operand = _FALSE
        for key in (loop.broke, self._frames[-1].returned):
            stopped = self.builder.compute("or", ScalarType.BOOL, stopped, self.environment[key][0])
        # A thread that jumped out must not evaluate the condition, which may read memory.
        self.environment[going] = (_FALSE,)

        def proceed() -> None:
            if increment is not None:
                self.value(increment)
            test = _TRUE if condition is None else self.condition(condition)
            self.environment[going] = (test,)

        self.builder.at = at
        self.branch(self.builder.negated(stopped), proceed, _nothing)
        self._loops.pop()
        for key in (loop.broke, loop.continued):
            del self.environment[key]

    def _counted(
        self,
        initial: Cursor | None,
        condition: Cursor | None,
        increment: Cursor | None,
        body: Cursor,
        at: SourceLocation,
    ) -> bool:
        """Tries a loop as one that counts; says whether it is."""
        counting = self.counting(initial, condition, increment, body)
        if counting is None:
            return False
        variable, low, high, step = counting
        place = self.places[variable.hash]
        assert isinstance(place, Held)
        keys = [key for key in self._assigned_keys([body]) if key != place.key]
        before = dict(self.environment)
        carried = self._carry(keys)
        counter = self.builder.value(low.type, variable.spelling)
        with self.builder.block() as lines:
            type = layout.scalar(variable.type)
            assert type is not None
            self.environment[place.key] = (self.builder.cast(counter, type),)
            loop = _Loop(self.new_key((_FALSE,)), self.new_key((_FALSE,)))
            self._loops.append(loop)
            self.statements([body])
            self._loops.pop()
            for key in (loop.broke, loop.continued):
                del self.environment[key]
        self._finish(keys, carried, before, lines, at, (counter, low, high, step))
        self.left(initial, variable, low, high, step)
        return True

    def _assigned_keys(self, parts: Sequence[Cursor]) -> list[int]:
        """The variables of the environment that a loop may assign, and its function's flag."""
        keys: set[int] = set()
        for number in scanner.assigned(parts):
            place = self.places.get(number)
            if isinstance(place, Held) and place.key in self.environment:
                keys.add(place.key)
        if any("return" in scanner.jumps(item) for item in parts):
            frame = self._frames[-1]
            keys.add(frame.returned)
            if frame.result is not None:
                keys.add(frame.result.key)
        return sorted(keys)

    def _carry(self, keys: Sequence[int]) -> list[tuple[IrValue, ...]]:
        """Gives the variables of a loop new values, which stand for those of any iteration."""
        carried = []
        for key in keys:
            values = tuple(self.builder.value(item.type) for item in self.environment[key])
            self.environment[key] = values
            carried.append(values)
        return carried

    def _finish(
        self,
        keys: Sequence[int],
        carried: list[tuple[IrValue, ...]],
        before: dict[int, Leaves],
        lines: list[Operation],
        at: SourceLocation,
        counting: tuple[IrValue, Operand, Operand, int] | None,
    ) -> None:
        """Writes the loop. What it carried and never changed is what it was before."""
        inside: list[IrValue] = []
        outside: list[Operand] = []
        last: list[Operand] = []
        results: list[IrValue] = []
        after = self.environment
        self.environment = {key: after[key] for key in before if key in after}
        if counting is not None:
            self.environment |= {key: before[key] for key in before if key not in keys}
        for key, values in zip(keys, carried, strict=True):
            leaves = list(before[key])
            for place, value in enumerate(values):
                final = after[key][place]
                if final == value:
                    self._kept[value] = leaves[place]
                    continue
                inside.append(value)
                outside.append(leaves[place])
                last.append(final)
                result = self.builder.value(value.type)
                leaves[place] = result
                results.append(result)
            self.environment[key] = tuple(leaves)
        self.builder.at = at
        body = block(lines, *last)
        if counting is None:
            loop: For | While = While(tuple(inside), tuple(outside), body, tuple(results), at)
        else:
            counter, low, high, step = counting
            loop = For(
                counter, low, high, step, tuple(inside), tuple(outside), body, tuple(results), at
            )
        self.builder.write(loop)

    def switch_statement(self, cursor: Cursor) -> None:
        """Cases in order; one is entered where it matches or the one before ran into it."""
        selector, body = clang.children(cursor)
        value = self.scalar(selector)
        groups = loops.cases(body)
        matches = [self._match(value, labels) for labels, _ in groups]
        any_match: Operand = _FALSE
        for match, (labels, _) in zip(matches, groups, strict=True):
            if None not in labels:
                any_match = self.builder.compute("or", ScalarType.BOOL, any_match, match)
        outer = self._loops[-1] if self._loops else None
        continued = outer.continued if outer else self.new_key((_FALSE,))
        loop = _Loop(self.new_key((_FALSE,)), continued)
        self._loops.append(loop)
        entered: Operand = _FALSE
        for (labels, statements), match in zip(groups, matches, strict=True):
            if None in labels:
                match = self.builder.compute(
                    "or", ScalarType.BOOL, match, self.builder.negated(any_match)
                )
            entered = self.builder.compute("or", ScalarType.BOOL, entered, match)
            test = self.builder.compute(
                "and", ScalarType.BOOL, entered, self.builder.negated(self._stopped())
            )
            self.branch(test, self._sequence(statements), _nothing)
        self._loops.pop()
        del self.environment[loop.broke]

    def _sequence(self, statements: Sequence[Cursor]) -> Callable[[], None]:
        return lambda: self.statements(statements)

    def _match(self, value: Operand, labels: Sequence[int | None]) -> Operand:
        match: Operand = _FALSE
        for label in labels:
            if label is not None:
                equal = self.builder.compare("eq", value, ConstantOperand(label, value.type))
                match = self.builder.compute("or", ScalarType.BOOL, match, equal)
        return match


@dataclass(slots=True)
class _Inlining:
    """The time in which a function is inlined: its own frame, loops and `this`."""

    translator: Translator
    function: Cursor
    result: Held | None
    receiver: Place | None
    _outer: tuple[Place | None, list[_Loop]] = field(init=False)

    def __enter__(self) -> _Frame:
        translator = self.translator
        self._outer = (translator.this, translator._loops)
        translator.this, translator._loops = self.receiver, []
        returned = translator.new_key((_FALSE,))
        frame = _Frame(self.function.get_usr(), returned, self.result)
        translator._frames.append(frame)
        return frame

    def __exit__(self, *_: object) -> None:
        translator = self.translator
        translator._frames.pop()
        translator.this, translator._loops = self._outer


def _nothing() -> None:
    return None


_SILENT = frozenset({"TYPEDEF_DECL", "TYPE_ALIAS_DECL", "STRUCT_DECL", "USING_DECLARATION"}) | {
    "STATIC_ASSERT",
    "ENUM_DECL",
    "FUNCTION_DECL",
}

_STATEMENTS: dict[str, Callable[[Translator, Cursor], None]] = {
    "COMPOUND_STMT": Translator.compound_statement,
    "DECL_STMT": Translator.declarations,
    "IF_STMT": Translator.if_statement,
    "FOR_STMT": Translator.for_statement,
    "WHILE_STMT": Translator.while_statement,
    "DO_STMT": Translator.do_statement,
    "RETURN_STMT": Translator.return_statement,
    "BREAK_STMT": Translator.break_statement,
    "CONTINUE_STMT": Translator.continue_statement,
    "SWITCH_STMT": Translator.switch_statement,
    "NULL_STMT": Translator.nothing,
    "UNEXPOSED_STMT": Translator.attributed,
}
