"""What XLA calls, against the header that says how."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import util
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from testkit.kernels import team_source
from testkit.kernels.llvm_texts import adding

from aiosearch.codegen.errors import NativeError
from aiosearch.codegen.native import handler
from aiosearch.codegen.native.compiler import target_machine
from aiosearch.codegen.native.handler import (
    aligned_ends,
    handler_text,
    interface_version,
    table_text,
)
from aiosearch.codegen.native.kernel_program import KernelPhase
from aiosearch.codegen.native.machine import CpuMachine, host
from aiosearch.tensor.types import DType

PLACES = {
    "XLA_FFI_Error_Create": 0,
    "XLA_FFI_Error_Destroy": 2,
    "XLA_FFI_ThreadPool_Schedule": 11,
    "XLA_FFI_ThreadPool_NumThreads": 12,
}
"""Which functions of XLA the handler calls."""


@pytest.fixture(scope="module")
def header() -> str:
    found = util.find_spec("jaxlib")
    assert found is not None
    assert found.submodule_search_locations is not None
    folder = Path(found.submodule_search_locations[0])
    return (folder / "include/xla/ffi/api/c_api.h").read_text()


def test_functions_stand_where_they_are_looked_for(header: str) -> None:
    """The handler finds XLA's functions by their places in a list, as this jaxlib has it."""
    listed = re.findall(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\);", header)
    assert {name: listed.index(name) for name in PLACES} == PLACES
    in_team = re.search(r"\bSCHEDULE = (\d+)", team_source.SOURCE.read_text())
    assert in_team is not None
    looked_for = re.findall(r"%Api, ptr %api, i64 0, i32 4, i64 (\d+)", handler_text(host()))
    places = set(map(int, looked_for))
    assert places | {int(in_team[1])} == set(PLACES.values())


@pytest.mark.parametrize("name", ["DataType_F32", "DataType_BF16", "DataType_PRED", "DataType_S32"])
def test_element_types(header: str, name: str) -> None:
    """XLA's numbers of element types are those in the table."""
    found = re.search(rf"XLA_FFI_{name} = (\d+)", header)
    assert found is not None
    types = {"F32": DType.F32, "BF16": DType.BF16, "PRED": DType.BOOL, "S32": DType.I32}
    dtype = types[name.removeprefix("DataType_")]
    assert f"[i64 {found[1]}, i64 1, i64 7, " in table_text(adding(dtype, 7))


def test_version(header: str) -> None:
    """The handler says that it was made for the interface of this jaxlib."""
    _, minor = interface_version()
    assert f"#define XLA_FFI_API_MINOR {minor}\n" in header
    assert f"store i32 {minor}, ptr %minor.at" in handler_text(host())


def test_an_unknown_interface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With another major version nothing is called, as its structures are not known."""
    folder = tmp_path / "jaxlib"
    header = folder / "include/xla/ffi/api/c_api.h"
    header.parent.mkdir(parents=True)
    (folder / "__init__.py").touch()
    spec = util.spec_from_file_location("jaxlib", folder / "__init__.py")
    assert spec is not None
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(handler.util, "find_spec", lambda _: spec)
    header.write_text("#define XLA_FFI_API_MAJOR 1\n#define XLA_FFI_API_MINOR 0\n")
    with pytest.raises(NativeError, match=r"interface 1\.0, which is not known"):
        interface_version.__wrapped__()
    header.write_text("nothing")
    with pytest.raises(NativeError, match="does not define XLA_FFI_API_MAJOR"):
        interface_version.__wrapped__()


@pytest.mark.parametrize("machine", [host(), CpuMachine("aarch64-linux-gnu", "generic", "+neon")])
def test_texts_are_valid(machine: CpuMachine) -> None:
    """Both texts are LLVM IR, and link to one module."""
    target_machine(host())
    context = llvm.create_context()
    module = llvm.parse_assembly(handler_text(machine), context)
    module.link_in(llvm.parse_assembly(table_text(adding(DType.F32, 3)), context))
    module.verify()


def test_too_many_blocks() -> None:
    """More than there is room to count are refused, not run from the first one again."""
    with pytest.raises(NativeError, match="the kernel adding has too many blocks"):
        table_text(replace(adding(DType.F32, 3), phases=(KernelPhase(1 << 40),)))


def test_temporaries_have_lines_of_their_own() -> None:
    """No two of them share 64 bytes."""
    assert aligned_ends((1, 64, 65, 0)) == [64, 128, 256, 256]
