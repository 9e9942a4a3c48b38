"""A second oracle of barriers: Polygeist's `cpuify`, which the wheel `enzyme-ad` carries.

A kernel of the IR is printed as MLIR, with `enzymexla.barrier` for its barriers; Polygeist splits
the parallel loops; and what comes out, which has no barrier left, becomes Python text and runs.
Only what generated programs consist of is printed; anything else raises NotImplementedError.

Polygeist takes for granted that a branch around a barrier goes one way for all threads of a block.
An early return is such a branch, so the threads of a block have to return together.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import re
import resource
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from barrierprograms import program

from aiosearch import cuda
from aiosearch.cuda.ir.operations import (
    Address,
    Alloc,
    Barrier,
    CallOperation,
    Compute,
    ConstantOperand,
    For,
    If,
    IrValue,
    Load,
    Operand,
    Operation,
    ParallelFunction,
    Region,
    Store,
    While,
    walk,
)
from aiosearch.cuda.ir.types import ScalarType
from aiosearch.cuda.passes.simplification import specialized

_TYPES = {
    ScalarType.BOOL: "i1",
    ScalarType.I32: "i32",
    ScalarType.U32: "i32",
    ScalarType.I64: "i64",
    ScalarType.F32: "f32",
}
_PLAIN = {"add": "add", "sub": "sub", "mul": "mul"}
_BITS = {"and": "andi", "or": "ori", "xor": "xori", "shl": "shli"}
_ORDER = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def printed(function: ParallelFunction, grid: int, block: tuple[int, int]) -> str:
    """A kernel and its launch as a function of MLIR."""
    return _Printer(specialized(function, (*block, 1)), grid, block).text()


class _Printer:
    def __init__(self, function: ParallelFunction, grid: int, block: tuple[int, int]) -> None:
        self._function, self._grid, self._block = function, grid, block
        self._lines: list[str] = []
        self._count = 0
        self._elements: dict[IrValue, tuple[str, str, int]] = {}
        """Of each piece of memory: its type, that of its elements, and their bytes."""

    def text(self) -> str:
        parameters = []
        for item in self._function.parameters:
            if item.value.type is ScalarType.PTR:
                assert item.element is not None
                element = _TYPES[item.element]
                memory = f"memref<?x{element}>"
                self._elements[item.value] = (memory, element, item.element.size)
            else:
                memory = _TYPES[item.value.type]
            parameters.append(f"{_name(item.value)}: {memory}")
        self._emit("%c0 = arith.constant 0 : index")
        self._emit("%c1 = arith.constant 1 : index")
        self._emit(f"%grid = arith.constant {self._grid} : index")
        for axis, size in zip("xy", self._block, strict=True):
            self._emit(f"%wide{axis} = arith.constant {size} : index")
        self._emit("scf.parallel (%block) = (%c0) to (%grid) step (%c1) {")
        for operation in walk(self._function.body):
            if isinstance(operation, Alloc) and operation.space.value == "shared":
                self._alloc(operation)
        bounds = "(%c0, %c0) to (%widex, %widey) step (%c1, %c1)"
        self._emit(f"scf.parallel (%tx, %ty) = {bounds} {{")
        self._region(self._function.body)
        for _ in range(2):
            self._emit("scf.reduce")
            self._emit("}")
        body = "\n".join(self._lines)
        return f"module {{\nfunc.func @main({', '.join(parameters)}) {{\n{body}\nreturn\n}}\n}}\n"

    def _emit(self, line: str) -> None:
        self._lines.append(line)

    def _new(self) -> str:
        self._count += 1
        return f"%n{self._count}"

    def _region(self, block: Region) -> None:
        for operation in block.operations:
            self._operation(operation)

    def _operand(self, operand: Operand) -> str:
        if not isinstance(operand, ConstantOperand):
            return _name(operand)
        name, type = self._new(), _TYPES[operand.type]
        value: object = operand.value
        if operand.type is ScalarType.BOOL:
            self._emit(f"{name} = arith.constant {str(bool(operand.value)).lower()}")
            return name
        if operand.type is ScalarType.F32:
            bits = int(np.float32(operand.value).view(np.uint32))
            value = f"0x{bits:08X}"
        elif type == "i32":
            value = int(np.uint32(int(operand.value) & 0xFFFFFFFF).view(np.int32))
        self._emit(f"{name} = arith.constant {value} : {type}")
        return name

    def _operation(self, operation: Operation) -> None:
        match operation:
            case Compute():
                self._compute(operation)
            case Load(result=result, address=address):
                memory, place = self._place(address)
                self._emit(
                    f"{_name(result)} = memref.load {memory}[{place}] :"
                    f" {self._elements[_root(address)][0]}"
                )
            case Store(address=address, value=value):
                stored = self._operand(value)
                memory, place = self._place(address)
                memory_type = self._elements[_root(address)][0]
                self._emit(f"memref.store {stored}, {memory}[{place}] : {memory_type}")
            case Alloc(space=space):
                if space.value != "shared":
                    self._alloc(operation)
            case CallOperation(name="exit"):
                pass  # what a thread that has returned leaves out is in branches already
            case Barrier():
                self._emit('"enzymexla.barrier"(%tx, %ty) : (index, index) -> ()')
            case If():
                self._if(operation)
            case For():
                self._for(operation)
            case While():
                self._while(operation)
            case _:
                raise NotImplementedError(type(operation).__name__)

    def _alloc(self, operation: Alloc) -> None:
        assert operation.size is not None
        element, size = _TYPES[operation.element], operation.element.size
        memory = f"memref<{operation.size // size}x{element}>"
        self._elements[operation.result] = (memory, element, size)
        self._emit(f"{_name(operation.result)} = memref.alloca() : {memory}")

    def _place(self, address: Address) -> tuple[str, str]:
        root = _root(address)
        size = self._elements[root][2]
        fixed = address.offset
        index = address.index
        if isinstance(index, ConstantOperand):
            fixed += int(index.value) * address.scale
        elif address.scale % size:
            raise NotImplementedError("an address between elements")
        if fixed % size:
            raise NotImplementedError("an address between elements")
        place = self._new()
        self._emit(f"{place} = arith.constant {fixed // size} : index")
        if isinstance(index, ConstantOperand):
            return _name(root), place
        wide, factor, scaled, total = (self._new() for _ in range(4))
        self._emit(f"{wide} = arith.index_cast {_name(index)} : {_TYPES[index.type]} to index")
        self._emit(f"{factor} = arith.constant {address.scale // size} : index")
        self._emit(f"{scaled} = arith.muli {wide}, {factor} : index")
        self._emit(f"{total} = arith.addi {scaled}, {place} : index")
        return _name(root), total

    def _compute(self, operation: Compute) -> None:
        result, name = operation.result, operation.name
        target = f"{_name(result)} ="
        if not operation.operands:
            source = {"thread.x": "%tx", "thread.y": "%ty", "block.x": "%block"}.get(name)
            if source is None:
                raise NotImplementedError(name)
            self._emit(f"{target} arith.index_cast {source} : index to i32")
            return
        names = [self._operand(item) for item in operation.operands]
        kind = operation.operands[0].type
        type, signed, floats = _TYPES[kind], kind.is_signed, kind.is_float
        listed = ", ".join(names)
        if name == "cast":
            self._cast(target, names[0], kind, result.type)
        elif name == "select":
            self._emit(f"{target} arith.select {listed} : {_TYPES[result.type]}")
        elif name in _PLAIN:
            self._emit(f"{target} arith.{_PLAIN[name]}{'f' if floats else 'i'} {listed} : {type}")
        elif name in _BITS:
            self._emit(f"{target} arith.{_BITS[name]} {listed} : {type}")
        elif name == "not" and kind is ScalarType.BOOL:
            true = self._operand(ConstantOperand(True, ScalarType.BOOL))
            self._emit(f"{target} arith.xori {names[0]}, {true} : i1")
        elif name in ("div", "rem", "shr") and not floats:
            sign = "si" if signed else "ui"
            self._emit(f"{target} arith.{name}{sign} {listed} : {type}")
        elif name in ("eq", "ne") and not floats:
            self._emit(f"{target} arith.cmpi {name}, {listed} : {type}")
        elif name in _ORDER and not floats:
            self._emit(f"{target} arith.cmpi {'s' if signed else 'u'}{name}, {listed} : {type}")
        else:
            raise NotImplementedError(f"{name} of {type}")

    def _cast(self, target: str, name: str, source: ScalarType, type: ScalarType) -> None:
        first, second = _TYPES[source], _TYPES[type]
        if first == second:
            zero = self._operand(ConstantOperand(0, type))
            self._emit(f"{target} arith.addi {name}, {zero} : {first}")
            return
        if type.is_float:
            how = "sitofp" if source.is_signed else "uitofp"
        elif source.is_float:
            raise NotImplementedError("a float as a whole number")
        elif source.size < type.size:
            how = "extsi" if source.is_signed else "extui"
        else:
            how = "trunci"
        self._emit(f"{target} arith.{how} {name} : {first} to {second}")

    # --- control flow

    def _yield(self, block: Region, word: str = "scf.yield") -> None:
        names = [self._operand(item) for item in block.yields]
        types = ", ".join(_TYPES[item.type] for item in block.yields)
        self._emit(f"{word} {', '.join(names)} : {types}" if names else word)

    def _results(self, values: Sequence[IrValue]) -> tuple[str, str]:
        types = ", ".join(_TYPES[item.type] for item in values)
        return (f"{', '.join(map(_name, values))} = " if values else ""), types

    def _if(self, operation: If) -> None:
        head, types = self._results(operation.results)
        condition = self._operand(operation.condition)
        arrow = f" -> ({types})" if types else ""
        self._emit(f"{head}scf.if {condition}{arrow} {{")
        self._region(operation.then)
        self._yield(operation.then)
        self._emit("} else {")
        self._region(operation.otherwise)
        self._yield(operation.otherwise)
        self._emit("}")

    def _for(self, operation: For) -> None:
        if operation.step <= 0:
            raise NotImplementedError("a loop downwards")
        head, types = self._results(operation.results)
        type = _TYPES[operation.counter.type]
        low, high = self._operand(operation.low), self._operand(operation.high)
        step = self._operand(ConstantOperand(operation.step, operation.counter.type))
        starts = [self._operand(item) for item in operation.initial]
        pairs = zip(operation.carried, starts, strict=True)
        carried = ", ".join(f"{_name(first)} = {start}" for first, start in pairs)
        more = f" iter_args({carried}) -> ({types})" if carried else ""
        counter = _name(operation.counter)
        self._emit(f"{head}scf.for {counter} = {low} to {high} step {step}{more} : {type} {{")
        self._region(operation.body)
        self._yield(operation.body)
        self._emit("}")

    def _while(self, operation: While) -> None:
        head, types = self._results(operation.results)
        starts = [self._operand(item) for item in operation.initial]
        inside = [self._new() for _ in starts]
        pairs = zip(inside, starts, strict=True)
        carried = ", ".join(f"{first} = {start}" for first, start in pairs)
        self._emit(f"{head}scf.while ({carried}) : ({types}) -> ({types}) {{")
        self._emit(f"scf.condition({inside[0]}) {', '.join(inside)} : {types}")
        self._emit("} do {")
        blocks = ", ".join(f"{_name(item)}: {_TYPES[item.type]}" for item in operation.carried)
        self._emit(f"^bb0({blocks}):")
        self._region(operation.body)
        self._yield(operation.body)
        self._emit("}")


def _root(address: Address) -> IrValue:
    if not isinstance(address.base, IrValue):
        raise NotImplementedError("an address that is a number")
    return address.base


def _name(value: IrValue) -> str:
    return f"%v{value.number}"


METHODS = ("distribute", "distribute.mincut")
"""Ways in which Polygeist gets values across barriers: stored, or by a minimum cut, whose rewriting
does not end for many programs."""


ENDLESS = "it does not end"


class EndlessRewriting(Exception):
    """Polygeist has not ended after as many CPU seconds as it was given."""


def cpuified(text: str, method: str, seconds: int = 5) -> str:
    """What Polygeist makes of it, in a process that is ended after so many CPU seconds.

    Raises `EndlessRewriting` then, and RuntimeError with the reason where it refuses the text.
    `enzyme-ad` has to be installed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "polygeist", _ENZYME])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_cpuified, args=(text, method, seconds, sender))
    process.start()
    sender.close()
    try:
        done, result = receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            raise EndlessRewriting(ENDLESS) from None
        raise RuntimeError(f"{method}: the process ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    if not done:
        raise RuntimeError(f"{method}: {result}")
    return str(result)


_ENZYME = "enzyme_ad.jax.enzyme_call"


def _send_cpuified(text: str, method: str, seconds: int, sender: Connection) -> None:
    # Time on the processor, so that a busy machine calls nothing endless.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # it says what it does to each value
    enzyme_call: Any = importlib.import_module(_ENZYME)
    try:
        _, result = enzyme_call.run_pass_pipeline(["main"], text, f"cpuify{{method={method}}}")
    except Exception as error:
        sender.send((False, f"{type(error).__name__}: {error}"))
    else:
        sender.send((True, str(result)))


def differing(seed: int, methods: Sequence[str] = METHODS, seconds: int = 5) -> dict[str, str]:
    """For each method, how what it makes of a seed's program differs from the interpreter.

    That is nothing for the same numbers. The program divides by nothing that is zero, as Polygeist
    makes 1 of `t / t`, and the threads of a block return together.
    """
    generated = program(seed, defined=True)
    kernel = cuda.load(generated.text)["generated"]
    try:
        text = printed(kernel.function, generated.grid, generated.block)
    except NotImplementedError as error:
        return dict.fromkeys(methods, f"not printed: {error}")
    threads = generated.block[0] * generated.block[1]
    number = threads // 4 if threads % 8 == 0 else threads
    draw = np.random.default_rng(seed)
    whole = draw.integers(0, 1000, generated.elements).astype(np.uint32)
    floats = draw.integers(0, 16, generated.elements).astype(np.float32)
    begun = whole.tolist(), list(floats)
    kernel[generated.grid, generated.block].interpret(whole, floats, number)
    results = {}
    for method in methods:
        theirs = [item.copy() for item in begun]
        try:
            run(cpuified(text, method, seconds), [*theirs, number])
        except (EndlessRewriting, RuntimeError, AssertionError) as error:
            results[method] = str(error)
            continue
        pairs = (whole, np.array(theirs[0], np.uint32)), (floats, np.array(theirs[1], np.float32))
        count = sum(int((first != second).sum()) for first, second in pairs)
        results[method] = f"{count} numbers differ" if count else ""
    return results


def run(text: str, arguments: Sequence[Any]) -> None:
    """Runs MLIR without barriers on lists of numbers, which it writes into."""
    if "enzymexla.barrier" in text:
        raise AssertionError("a barrier is left")
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.allow_unregistered_dialects = True  # Enzyme's, of which one is left
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    module = ir.Module.parse(re.sub(r"func\.func private", "func.func", text), context)
    (function,) = module.body.operations
    lines = list(_Python().function(function))
    names: dict[str, Any] = {"F": np.float32, "np": np, "Memory": _Memory}
    exec("\n".join(lines), names)
    passed = [
        _Memory({(place,): value for place, value in enumerate(item)})
        if isinstance(item, list)
        else item
        for item in arguments
    ]
    with np.errstate(all="ignore"):
        names["main"](*passed)
    for before, after in zip(arguments, passed, strict=True):
        if isinstance(before, list):
            before[:] = [after.cells[place,] for place in range(len(before))]


class _Memory:
    """Cells by their indices; a part of it shares them, with some indices in front."""

    def __init__(self, cells: dict[tuple[int, ...], Any], front: tuple[int, ...] = ()) -> None:
        self.cells, self._front = cells, front

    def __getitem__(self, place: tuple[int, ...]) -> Any:
        return self.cells[self._front + place]

    def __setitem__(self, place: tuple[int, ...], value: Any) -> None:
        self.cells[self._front + place] = value

    def part(self, *front: int) -> _Memory:
        return _Memory(self.cells, self._front + front)


class _Python:
    """Operations of MLIR as lines of Python; whole numbers are held without their sign."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}

    def name(self, value: Any) -> str:
        # Values of the binding are new objects each time; their text in the printed form is not.
        key = value.get_name()
        return "v" + re.sub(r"\W", "_", key[1:])

    def function(self, function: Any) -> Iterator[str]:
        block = function.regions[0].blocks[0]
        yield f"def main({', '.join(map(self.name, block.arguments))}):"
        yield from self._block(block, "  ", ())

    def _block(self, block: Any, indent: str, targets: Sequence[str]) -> Iterator[str]:
        yield f"{indent}pass"
        for operation in block.operations:
            yield from self._operation(operation, indent, targets)

    def _operation(self, operation: Any, indent: str, targets: Sequence[str]) -> Iterator[str]:
        kind = operation.operation.name
        names = list(map(self.name, operation.operands))
        results = list(map(self.name, operation.results))
        match kind:
            case "scf.parallel":
                yield from self._parallel(operation, indent)
            case "scf.for":
                low, high, step, *starts = names
                body = operation.regions[0].blocks[0]
                counter, *carried = map(self.name, body.arguments)
                yield from _moved(carried, starts, indent)
                yield f"{indent}for {counter} in range({low}, {high}, {step}):"
                yield from self._block(body, indent + "  ", carried)
                yield from _moved(results, carried, indent)
            case "scf.while":
                before, after = (region.blocks[0] for region in operation.regions)
                inside = list(map(self.name, before.arguments))
                yield from _moved(inside, names, indent)
                yield f"{indent}while True:"
                passed = list(map(self.name, after.arguments))
                yield from self._block(before, indent + "  ", results)
                yield from _moved(passed, results, indent + "  ")
                yield from self._block(after, indent + "  ", inside)
            case "scf.condition":
                yield from _moved(targets, names[1:], indent)
                yield f"{indent}if not {names[0]}: break"
            case "scf.if":
                arms = [region.blocks for region in operation.regions]
                for word, blocks in zip((f"if {names[0]}:", "else:"), arms, strict=True):
                    if len(blocks):
                        yield f"{indent}{word}"
                        yield from self._block(blocks[0], indent + "  ", results)
            case "scf.yield":
                yield from _moved(targets, names, indent)
            case "scf.reduce" | "func.return" | "memref.alloca_scope.return":
                pass
            case "memref.alloca_scope":
                yield from self._block(operation.regions[0].blocks[0], indent, results)
            case "memref.alloca" | "memref.alloc":
                yield f"{indent}{results[0]} = Memory({{}})"
            case "memref.dealloc":
                pass
            case "memref.load":
                place = "".join(f"{item}, " for item in names[1:])
                yield f"{indent}{results[0]} = {names[0]}[({place})]"
            case "memref.store":
                place = "".join(f"{item}, " for item in names[2:])
                yield f"{indent}{names[1]}[({place})] = {names[0]}"
            case "enzymexla.subindex":
                yield f"{indent}{results[0]} = {names[0]}.part({', '.join(names[1:])})"
            case _:
                yield f"{indent}{results[0]} = {self._value(operation, kind, names)}"

    def _parallel(self, operation: Any, indent: str) -> Iterator[str]:
        names = list(map(self.name, operation.operands))
        body = operation.regions[0].blocks[0]
        counters = list(map(self.name, body.arguments))
        count = len(counters)
        for place, counter in enumerate(counters):
            bounds = ", ".join(names[place::count][:3])
            yield f"{indent}for {counter} in range({bounds}):"
            indent += "  "
        yield from self._block(body, indent, ())

    def _value(self, operation: Any, kind: str, names: list[str]) -> str:
        result = str(operation.results[0].type)
        bits = {"i1": 1, "i32": 32}.get(result, 64)
        mask = (1 << bits) - 1
        first = names[0] if names else ""
        second = names[1] if len(names) > 1 else ""
        source = str(operation.operands[0].type) if names else result
        width = {"i1": 1, "i32": 32}.get(source, 64)
        signs = [f"({item} - (({item} >> {width - 1}) << {width}))" for item in names]
        symbols = {"addi": "+", "subi": "-", "muli": "*", "andi": "&", "ori": "|", "xori": "^"}
        word = kind.removeprefix("arith.")
        if word == "constant":
            text = str(operation.attributes["value"]).partition(" :")[0]
            if result == "f32":
                if text.startswith("0x"):
                    return f"np.uint32({text}).view(F)"
                return f"F({text})"
            return str({"true": 1, "false": 0}.get(text, text)) + f" & {mask}"
        if word in symbols:
            return f"({first} {symbols[word]} {second}) & {mask}"
        if word in ("addf", "subf", "mulf"):
            return f"F({first} {symbols[word[:3] + 'i']} {second})"
        match word:
            case "divui":
                return f"{first} // {second} if {second} else 0"
            case "remui":
                return f"{first} % {second} if {second} else {first}"
            case "shli":
                return f"({first} << ({second} % {bits})) & {mask}"
            case "shrui":
                return f"{first} >> ({second} % {bits})"
            case "shrsi":
                return f"({signs[0]} >> ({second} % {bits})) & {mask}"
            case "select":
                return f"{second} if {first} else {names[2]}"
            case "extui" | "index_castui" | "trunci":
                return f"{first} & {mask}"
            case "extsi" | "index_cast":
                return f"{signs[0]} & {mask}"
            case "uitofp":
                return f"F({first})"
            case "sitofp":
                return f"F({signs[0]})"
            case "cmpi":
                predicate = int(str(operation.attributes["predicate"]).partition(" :")[0])
                symbol = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")[predicate]
                pair = signs if 2 <= predicate <= 5 else names
                return f"int({pair[0]} {symbol} {pair[1]})"
        raise NotImplementedError(kind)


def _moved(targets: Sequence[str], sources: Sequence[str], indent: str) -> Iterator[str]:
    if targets:
        yield f"{indent}{', '.join(targets)}, = {', '.join(sources)},"
