"""Kernels as functions of JAX arrays."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.kernels.llvm_texts import (
    adding,
    copying,
    counting,
    forgetting,
    keeping,
    reading,
    relayed,
    relaying,
    reversing,
    store,
)

from aiosearch.codegen.errors import NativeError
from aiosearch.codegen.native.compiler import compile_handler, compile_program, digest, load
from aiosearch.codegen.native.guarded_process import KernelTrial
from aiosearch.codegen.native.jax_call import jax_function, register_program
from aiosearch.codegen.native.machine import host, masked, portable
from aiosearch.codegen.native.object_cache import default_objects_path, object_cache_in
from aiosearch.tensor.types import DType

pytestmark = pytest.mark.usefixtures("expendable")
NAMES = {
    DType.F32: "float32",
    DType.BF16: "bfloat16",
    DType.F16: "float16",
    DType.I32: "int32",
    DType.BOOL: "bool",
}


def drawn(size: int, dtype: DType = DType.F32) -> Any:
    return jnp.array(np.random.default_rng(size).normal(0, 3, size), NAMES[dtype])


@pytest.mark.parametrize("dtype", NAMES)
def test_every_element_type(dtype: DType) -> None:
    """Arrays of each type come in and go out as they are."""
    left, right = drawn(100, dtype), drawn(100, dtype)[::-1]
    (found,) = jax_function(adding(dtype, 100))(left, right)
    assert found.dtype == left.dtype
    np.testing.assert_array_equal(found, left + right)


def test_doubles() -> None:
    """64-bit numbers need jax's 64-bit types, as everywhere."""
    with jax.enable_x64(True):
        left = jnp.array(np.random.default_rng(0).normal(0, 3, 100))
        (found,) = jax_function(adding(DType.F64, 100))(left, left)
        np.testing.assert_array_equal(found, left + left)


def test_phases_run_in_order() -> None:
    """All of a phase is done before the next begins, and finds what it left in a temporary."""
    values = drawn(4099)
    run = jax.jit(jax_function(reversing(4099)))
    for _ in range(20):
        np.testing.assert_array_equal(run(values)[0], 2 * values[::-1])


@pytest.mark.parametrize("blocks", [(), (700, 0, 1, 0, 0, 699, 2, 1, 1, 700, 0), (1, 1, 0)])
def test_phases_of_any_size_follow_each_other(blocks: tuple[int, ...]) -> None:
    """Empty ones first, last and between, those of one block, and those that all threads share."""
    values = list(range(700))
    run = jax.jit(jax_function(relaying(700, blocks)))
    given = jnp.array(values)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(run, [given] * 200):
            assert [one.tolist() for one in found] == [*relayed(values, blocks)]


@pytest.mark.parametrize("blocks", [1, 2, 3, 17, 1000])
def test_each_block_runs_once(blocks: int) -> None:
    """Whatever threads share them, no block is left out or run again."""
    run = jax.jit(jax_function(counting(blocks)))
    for _ in range(20):
        assert run()[0].tolist() == [1] * blocks


def test_no_blocks() -> None:
    """Arrays with an empty axis are computed by doing nothing."""
    (found,) = jax.jit(jax_function(adding(DType.F32, 0)))(drawn(0), drawn(0))
    assert found.shape == (0,)


def test_scratch_is_each_threads_own() -> None:
    """Blocks that run at the same time do not write to each other's scratch memory."""
    values = drawn(5000)
    run = jax.jit(jax_function(keeping(5000)))
    for _ in range(20):
        np.testing.assert_array_equal(run(values)[0], values)


def test_scratch_is_aligned() -> None:
    """Scratch memory begins at a multiple of 64 bytes, on every thread."""
    lines = ["%at = ptrtoint ptr %scratch to i64", "%low = and i64 %at, 63"]
    lines += ["%value = uitofp i64 %low to float", *store("%value", "o", "float")]
    run = jax.jit(jax_function(copying("aligned", 1000, lines, scratch=4)))
    assert not np.any(run(drawn(1000))[0])


def test_among_neighbours_nothing_is_copied() -> None:
    """Inside a larger function it takes slices and gives to others, and the call copies nothing."""
    add = jax_function(adding(DType.F32, 99))

    def whole(left: Any, right: Any) -> Any:
        return jnp.tanh(add(left[1:], right[:-1])[0]) * 2

    left, right = drawn(100), drawn(100) + 1
    expected = jnp.tanh(left[1:] + right[:-1]) * 2
    np.testing.assert_allclose(jax.jit(whole)(left, right), expected, rtol=1e-6)
    alone = jax.jit(add).lower(left[1:], right[1:]).compile()
    assert " copy(" not in alone.as_text()


def test_batches() -> None:
    """A batch runs it once for each element."""
    values = drawn(600).reshape(6, 100)
    found = jax.vmap(jax_function(adding(DType.F32, 100)))(values, values)[0]
    np.testing.assert_array_equal(found, values + values)


def test_many_calls_at_once() -> None:
    """Calls from many threads neither mix up their memory nor wait for each other for ever."""
    run = jax.jit(jax_function(reversing(2000)))
    arrays = [drawn(2000) + number for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(10):
            for array, found in zip(arrays, threads.map(run, arrays), strict=True):
                np.testing.assert_array_equal(found[0], 2 * array[::-1])


@pytest.mark.parametrize("machine", [masked(host(), "avx512"), portable(host())])
def test_fewer_features(machine: Any) -> None:
    """Code for a processor with less runs here too, under a name of its own."""
    native = adding(DType.F32, 50)
    values = drawn(50)
    np.testing.assert_array_equal(jax_function(native, machine)(values, values)[0], values + values)
    assert (register_program(native, machine) == register_program(native, host())) == (
        machine == host()
    )


def test_other_processors() -> None:
    """Code for a processor with more is refused before it can end this process."""
    more = replace(host(), name="dreamt", features=f"{host().features},+dreams")
    with pytest.raises(NativeError, match="the kernel adding was made for dreamt"):
        jax_function(adding(DType.F32, 5), more)


def test_other_arrays() -> None:
    """Arrays of other types or shapes are refused with both said."""
    add = jax_function(adding(DType.F32, 5))
    with pytest.raises(NativeError, match=r"adding takes a: f32\[5\], and was given float32\[6\]"):
        add(drawn(6), drawn(6))
    with pytest.raises(NativeError, match=r"adding takes b: f32\[5\], and was given int32\[5\]"):
        add(drawn(5), drawn(5, DType.I32))
    with pytest.raises(NativeError, match="adding takes 2 arrays, not 1"):
        add(drawn(5))


@pytest.mark.parametrize("shapes", [((5,), (6,), (5,)), ((5,), (5,), (5, 1)), ((5,), (5,))])
def test_the_handler_looks_for_itself(shapes: Any) -> None:
    """Whoever calls the target by its name, with other arrays, gets an error of jax's."""
    target = register_program(adding(DType.F32, 5), host())
    *inputs, output = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    call = jax.ffi.ffi_call(target, [output])
    with pytest.raises(jax.errors.JaxRuntimeError, match="not of the types that this kernel"):
        call(*(jnp.zeros(each.shape) for each in inputs))


def test_too_little_memory() -> None:
    """Temporaries that the machine cannot hold are an error of jax's; the process goes on."""
    native = replace(adding(DType.F32, 5), temporaries=(1 << 60,))
    library = load(native, compile_program(native, host()), compile_handler(host()))
    capsule = jax.ffi.pycapsule(ctypes.c_void_p(library.handler))
    jax.ffi.register_ffi_target("greedy", capsule, platform="cpu")
    call = jax.ffi.ffi_call("greedy", [jax.ShapeDtypeStruct((5,), jnp.float32)])
    with pytest.raises(jax.errors.JaxRuntimeError, match="out of memory for temporaries"):
        call(drawn(5), drawn(5))


def test_a_kernel_that_fails_its_trial_is_not_called() -> None:
    """It is refused, and again when it comes again."""
    for _ in range(2):
        with pytest.raises(NativeError, match="does not write to every element"):
            jax_function(forgetting(10))


def test_a_kernel_that_would_end_its_process_ends_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that is worth something, a kernel is tried out elsewhere first."""
    monkeypatch.setattr("aiosearch.measure.worker.expendable._expendable", False)
    monkeypatch.setattr("aiosearch.codegen.native.jax_call.run_guarded", _never)
    monkeypatch.setattr("aiosearch.codegen.native.jax_call.run_in_guarded_process", _died)
    with pytest.raises(NativeError, match="died elsewhere"):
        jax_function(reading(1000, 1))


def test_a_trial_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was tried out before, by whatever process, is not tried out again."""
    native = adding(DType.F32, 71)
    key = digest(native, host())
    object_cache_in(default_objects_path()).trust(key, compile_program(native, host()))
    monkeypatch.setattr("aiosearch.codegen.native.jax_call.run_guarded", _never)
    np.testing.assert_array_equal(jax_function(native)(drawn(71), drawn(71))[0], 2 * drawn(71))


def test_a_trial_of_other_code_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only exactly the code that was tried out goes without a trial."""
    native = adding(DType.F32, 72)
    object_cache_in(default_objects_path()).trust(digest(native, host()), b"other code")
    monkeypatch.setattr("aiosearch.codegen.native.jax_call.run_guarded", _never)
    with pytest.raises(AssertionError, match="was tried out"):
        jax_function(native)


def _died(trial: KernelTrial) -> None:
    raise NativeError(f"{trial.native.name} died elsewhere")


def _never(*_: Any) -> None:
    raise AssertionError("was tried out")
