"""Pickles that want more than to be read: none of them runs anything, and all end in an error that is documented."""

import builtins
import gzip
import io
import os
import pickle
import re
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import seekset
from hex_shards import hex_examples
from seekset.shards import PickleShards
from seekset.shards.unpickling import load_pickle

READER = PickleShards(max_bytes=1 << 24)
DOCUMENTED = (seekset.FormatError, seekset.MemoryLimitError)


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.fixture
def refused(tmp_path):
    """`refused(content, message)` says that a pickle is refused with a message, and that nothing was run."""

    def refused(content, message, kind=seekset.FormatError, protocol=4):
        path = tmp_path / "a.pkl"
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, protocol))
        with pytest.raises(kind, match=f"^{re.escape(str(path))}: .*{message}"):
            READER.read(path)
        assert sorted(one.name for one in tmp_path.iterdir()) == ["a.pkl"]

    return refused


# --- code -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "function, arguments, name",
    [
        (os.system, ("touch ran",), r"posix\.system"),
        (os.mkdir, ("ran",), r"posix\.mkdir"),
        (builtins.eval, ("1",), r"(builtins|__builtin__)\.eval"),
        (builtins.exec, ("1",), r"(builtins|__builtin__)\.exec"),
        (builtins.open, ("ran", "w"), r"_?io\.open"),
        (builtins.getattr, ("a", "upper"), r"(builtins|__builtin__)\.getattr"),
        (builtins.__import__, ("os",), r"(builtins|__builtin__)\.__import__"),
        (builtins.range, (10**9,), r"(builtins|__builtin__)\.x?range"),
        (np.load, ("ran.npy",), r"numpy\.load"),
        (np.memmap, ("ran",), r"numpy\.memmap"),
        (np.zeros, (10**12,), r"(numpy\._core\.multiarray|numpy)\.zeros"),
    ],
)
def test_a_name_that_is_not_on_the_list_is_refused_by_name(
    refused, monkeypatch, tmp_path, protocol, function, arguments, name
):
    monkeypatch.chdir(tmp_path)
    refused([{"x": 1.0, "y": Calls(function, *arguments)}], f"it names {name}, which is refused$", protocol=protocol)


@pytest.mark.parametrize(
    "content",
    [
        b"(S'touch ran'\nios\nsystem\n.",
        b"cos\nsystem\n(S'touch ran'\ntR.",
        b"(cos\nsystem\nS'touch ran'\no.",
        b"\x80\x02cos\nsystem\nX\x09\0\0\0touch ran\x85\x81.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x09touch ran\x85R.",
        b"\x80\x04\x8c\x08builtins\x8c\x0fgetattr.__call__\x93.",
        b"\x80\x04\x8c\x05numpy\x8c\x14_core.multiarray.zero\x93.",
        b"c__main__\nCalls\n.",
    ],
)
def test_every_opcode_that_names_something_goes_through_the_list(refused, monkeypatch, tmp_path, content):
    monkeypatch.chdir(tmp_path)
    refused(content, "")


def test_the_list_has_pairs_and_no_spellings_of_them(refused):
    refused(b"\x80\x04\x8c\x0anumpy.core\x8c\x17multiarray._reconstruct\x93.", r"numpy\.core\.multiarray\._reconstruct")


def test_what_is_on_the_list_has_no_attribute_to_set(refused):
    # BUILD sets attributes: its state is a dict, or a pair of dicts of which the second is set by setattr.
    for name in (b"numpy\ndtype\n", b"_codecs\nencode\n", b"builtins\nset\n", b"numpy.core.multiarray\n_reconstruct\n"):
        refused(b"\x80\x02c" + name + b"}X\1\0\0\0aK\1sb.", "a function has no state to set")
        refused(b"\x80\x02c" + name + b"N}X\1\0\0\0aK\1s\x86b.", "a function has no state to set")
    refused(b"\x80\x02cnumpy\nndarray\nN}X\1\0\0\0aK\1s\x86b.", "can't be read")


def test_persistent_ids_extensions_and_buffers_from_elsewhere_are_refused(refused):
    for content in (b"Pabc\n.", b"K\1Q.", b"\x82\1.", b"\x84\1\0\0\0.", b"\x80\x05\x97.", b"\x80\x05\x98."):
        refused(content, "expected a pickle, but it can't be read")


# --- numpy ----------------------------------------------------------------------------------------------------------


def array_pickle(
    shape=(2,), code="i1", state=(3, "|", None, None, None, -1, -1, 0), raw=b"ab", fortran=False, kind=None
):
    """The pickle of an array with any parts."""
    dtype = Calls(np.dtype, code, False, True)
    dtype.call = (*dtype.call, state)
    array = Calls(np._core.multiarray._reconstruct, kind or np.ndarray, (0,), b"b")
    array.call = (*array.call, (1, shape, dtype, fortran, raw))
    file = io.BytesIO()
    pickler = pickle._Pickler(file, 4)
    pickler.dump([{"x": array}])
    return file.getvalue()


def test_the_pickle_of_an_array_that_tests_write_is_one(tmp_path):
    (tmp_path / "a.pkl").write_bytes(array_pickle())
    assert READER.read(tmp_path / "a.pkl").columns["x"].tolist() == [[97, 98]]
    assert pickle.loads(array_pickle())[0]["x"].tolist() == [97, 98]


@pytest.mark.parametrize(
    "parts, message",
    [
        ({"code": "O8"}, "dtype 'O8' is refused: only plain numbers and strings are read"),
        ({"code": "O"}, "dtype 'O' is refused"),
        ({"code": b"O8"}, "dtype 'O8' is refused"),
        ({"code": "V8"}, "dtype 'V8' is refused"),
        ({"code": "M8"}, "dtype 'M8' is refused"),
        ({"code": [("a", "O")]}, "dtype list is refused"),
        ({"code": {"names": ["a"]}}, "dtype dict is refused"),
        ({"code": "i1, O"}, "dtype 'i1, O' is refused"),
        ({"state": (3, "|", ("O", (1,)), None, None, -1, -1, 0)}, "a dtype with fields is refused"),
        ({"state": (3, "|", None, ("a",), {"a": 1}, -1, -1, 0)}, "a dtype with fields is refused"),
        ({"state": (3, "=", None, None, None, -1, -1, 0)}, "a dtype with fields is refused"),
        ({"state": (3,)}, "ValueError: not enough values"),
        ({"shape": (3,)}, r"an array of int8 and shape \(3,\) has 3 bytes, but 2 were found"),
        ({"shape": (10**30, 10**30)}, "bytes, but 2 were found"),
        ({"shape": (-1, -2)}, "a shape is a few numbers that are not negative"),
        ({"shape": (2.0,)}, "a shape is a few numbers that are not negative"),
        ({"shape": (1,) * 40 + (2,)}, "a shape is a few numbers that are not negative"),
        ({"shape": [2]}, "can't be read"),
        ({"shape": "ab"}, "an array is made of a version, a shape, a dtype, an order and bytes"),
        ({"raw": ["a", "b"]}, "an array is made of bytes, not of list"),
        ({"raw": "ab"}, "an array is made of bytes, not of str"),
        ({"kind": set}, "only plain arrays are read"),
    ],
)
def test_arrays_whose_parts_do_not_fit_are_refused(refused, parts, message):
    refused(array_pickle(**parts), message)


def test_flags_of_a_dtype_are_not_believed(tmp_path):
    # To numpy, the last number is flags: with these, bytes would be taken for objects, and objects for bytes.
    for flags in (0, 1, 63, 255):
        state = (3, "<", None, None, None, -1, -1, flags)
        (tmp_path / "a.pkl").write_bytes(array_pickle(code="i8", state=state, raw=b"\1" * 8, shape=(1,)))
        assert READER.read(tmp_path / "a.pkl").columns["x"].tolist() == [[0x0101010101010101]]


def test_arrays_of_objects_are_refused_however_they_are_pickled(refused):
    for protocol in range(6):
        refused([{"x": np.array([{}, []], dtype=object)}], "dtype 'O8' is refused", protocol=protocol)
        refused([{"x": np.zeros(2, dtype=[("a", "i4")])}], "dtype 'V4' is refused", protocol=protocol)


def test_an_array_that_is_never_filled_is_refused(refused):
    content = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85X\1\0\0\0btR\x85."
    refused(content, "an array is made of a version, a shape")


def test_classes_of_arrays_are_refused(refused):
    refused([{"x": np.ma.array([1])}], r"it names numpy\.ma\.(core\._mareconstruct|core\.MaskedArray)")
    refused([{"x": np.array([1]).view(np.recarray)}], r"it names numpy\.(rec\.|recarray)")


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".",  # BINBYTES8
        b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b".",  # BYTEARRAY8
        b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b".",  # BINUNICODE8
        b"\x80\x03B\xff\xff\xff\xff.",  # BINBYTES
        b"\x80\x02X\xff\xff\xff\x7f.",  # BINUNICODE
        b"\x80\x02\x8b\xff\xff\xff\x7f.",  # LONG4
        b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b".",  # FRAME
        b"]r\xff\xff\xff\xff.",  # LONG_BINPUT
        b"]r\x00\x00\x00\x10.",
        b"]p99999999\n.",  # PUT
        b"]p99999999999999999999999\n.",
        b"]j\xff\xff\xff\xff.",  # LONG_BINGET
        b"L" + b"9" * 10_000 + b"\n.",
    ],
)
def test_an_opcode_that_asks_for_all_memory_gets_none(refused, content):
    refused(content, "", kind=DOCUMENTED)


def test_numbers_of_the_memo_are_told_from_the_bytes_of_strings(refused, tmp_path):
    text = "r\xff\xff\xff\xffp99999999\n"
    examples = [text, text.encode("latin1"), {text: bytearray(b"r\xff\xff\xff\xff")}, 1.5] * 400
    for protocol in range(6):
        content = pickle.dumps(examples, protocol)
        (tmp_path / "a.pkl").write_bytes(content)
        assert READER.read(tmp_path / "a.pkl").objects == examples
        refused(content[:-1] + b"r\xff\xff\xff\x7f.", "it keeps a value as number 2147483647")
        refused(content[:-1] + b"p99999999\n.", "it keeps a value as number 99999999")


def test_pickles_with_many_numbers_in_their_memo_are_read(tmp_path):
    for protocol in range(6):
        (tmp_path / "a.pkl").write_bytes(pickle.dumps([[row] for row in range(70_000)], protocol))
        assert len(READER.read(tmp_path / "a.pkl")) == 70_000


def test_what_is_asked_for_in_excess_is_told_with_its_place(refused):
    refused(b"]r\0\0\0\x10.", "at byte 1 it keeps a value as number 268435456, though it has kept no more than 0$")
    refused(
        b"(\x96" + b"\xff" * 8, "at byte 1 it says that its next value ends at byte 18446744073709551625, but it has 10"
    )


def test_one_array_in_many_examples_counts_as_often_as_it_comes(tmp_path):
    board = np.zeros(1 << 20, np.uint8)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps([{"x": board} for _ in range(100)]))
    with pytest.raises(seekset.MemoryLimitError, match="its columns take 104857600 bytes, but 16777216 are allowed"):
        READER.read(tmp_path / "a.pkl")


@pytest.mark.parametrize(
    "head, call",
    [
        (b"c_codecs\nencode\nq\1X\0\0\x10\0" + b"a" * (1 << 20) + b"X\6\0\0\0latin1\x86q\2", b"h\1h\2R0"),
        (b"cbuiltins\nbytearray\nq\1B\0\0\x10\0" + b"a" * (1 << 20) + b"\x85q\2", b"h\1h\2R0"),
        (
            b"cbuiltins\nset\nq\1](" + b"".join(b"J" + struct.pack("<i", n) for n in range(1 << 16)) + b"e\x85q\2",
            b"h\1h\2R0",
        ),
    ],
)
def test_copies_of_what_is_kept_count_together(refused, tmp_path, head, call):
    (tmp_path / "a.pkl").write_bytes(b"\x80\x03(" + head + call * 2 + b"t.")
    assert len(READER.read(tmp_path / "a.pkl")) == 2
    refused(
        b"\x80\x03(" + head + call * 100 + b"t.", r"more than max_bytes \(16777216\)", kind=seekset.MemoryLimitError
    )


@pytest.mark.parametrize(
    "content, message",
    [
        # Keys whose hash is many calls deep, or takes two to the power of sixty steps.
        (b"\x80\x04}()" + b"\x85" * 150_000 + b"Nu.", "a key is made of up to 65536 values, nested up to 200 deep"),
        (b"\x80\x04}()" + b"2\x86" * 60 + b"Nu.", "a key is made of up to 65536 values, nested up to 200 deep"),
        (b"\x80\x04\x8f()" + b"\x85" * 150_000 + b"\x90.", "a key is made of up to"),
        (b"\x80\x04()" + b"\x85" * 150_000 + b"\x91.", "a key is made of up to"),
        (b"cbuiltins\nset\n(]()" + b"\x85" * 150_000 + b"etR.", "a key is made of up to"),
        (b"]r\x00\x00\x00\x40.", "it keeps a value as number 1073741824"),
        (b"\x80\x04}]Ns.", "TypeError: unhashable type: 'list'"),
    ],
)
def test_what_would_end_the_process_is_refused_before_it_is_unpickled(refused, content, message):
    refused(content, message)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04(" + b"\x8f" * 10_000_000 + b"l.",  # two gigabytes of empty sets
        b"\x80\x04(" + b"]" * 10_000_000 + b"l.",
        b"\x80\x04K\1" + b"2" * 10_000_000 + b".",
        b"\x80\x04](N" + b"2" * 500_000 + b"e.",
    ],
)
def test_values_count_against_max_bytes(tmp_path, content):
    (tmp_path / "a.pkl").write_bytes(content)
    with pytest.raises(seekset.MemoryLimitError, match=r"a\.pkl: unpickling it takes more "):
        READER.read(tmp_path / "a.pkl")


def test_memory_that_has_run_out_is_no_fault_of_a_pickle(run):
    """What a shard asks for in excess can be skipped; that the machine has none left can't."""
    printed = run("""
        import pickle, resource
        from pathlib import Path
        from seekset.shards.unpickling import load_objects

        content = pickle.dumps([bytes(64 << 20)])
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (32 << 20),) * 2)
        try:
            load_objects(content, Path("a.pkl"), max_bytes=1 << 30)
        except MemoryError as error:
            print(type(error).__name__)
    """)
    assert printed == "MemoryError\n"


def test_values_that_are_nested_deep_are_refused_and_not_followed(refused):
    # As objects beside an array: whoever follows them by calls of calls would end the process.
    deep = b"]" * 100_000 + b"a" * 99_999
    refused(b"\x80\x04(" + deep + pickle_body(np.arange(3)) + b"l.", "nested up to 200 deep")


def pickle_body(value):
    """A pickle without its first and its last opcode, to be put into another one."""
    return pickle.dumps(value, 2)[2:-1]


def test_values_that_hold_themselves_many_times_are_visited_once(tmp_path):
    value = [np.arange(2)]
    for _ in range(60):
        value = [value, value] if len(value) % 2 else (value, value)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps([value, value]))
    rows = READER.read(tmp_path / "a.pkl")
    assert rows.objects[0] is rows.objects[1]


# --- damage ---------------------------------------------------------------------------------------------------------


SEEDS = [
    pickle.dumps({"examples": hex_examples(2, without_policy={1})}, protocol)
    if protocol < 6
    else gzip.compress(pickle.dumps(hex_examples(2)))
    for protocol in range(7)
]


def harmless(path):
    """Read a file of whatever bytes: rows or an error that is documented, and nothing else."""
    wrong = None
    try:
        READER.read(path)
    except DOCUMENTED as error:
        wrong = str(error)
    assert wrong is None or wrong.startswith(f"{path}: ")


@given(st.sampled_from(SEEDS), st.integers(0, 10_000))
def test_a_pickle_that_is_cut_is_refused(scratch, seed, end):
    if end < len(seed):
        with pytest.raises(seekset.FormatError):
            READER.read(scratch(seed[:end]))


@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_pickle_with_other_bytes_here_and_there_is_read_or_refused(scratch, seed, changes):
    content = bytearray(seed)
    for place, byte in changes:
        content[place % len(content)] = byte
    harmless(scratch(bytes(content)))


@given(st.binary(max_size=60))
@example(b"\x80\x04.")
@example(b"(((((((lllllll.")
@example(b"\x8d\0\0\0\0\0\0\0\x80")
def test_any_bytes_are_read_or_refused(scratch, content):
    harmless(scratch(content))


opcodes = st.sampled_from(
    [bytes([byte]) for byte in b"()]}.0122NRabdelostu\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94"]
    + [b"K\5", b"h\0", b"h\1", b"q\0", b"q\1", b"X\1\0\0\0x", b"C\2ab", b"G" + bytes(8), b"\x8c\5numpy", b"\x8c\5dtype"]
    + [b"cnumpy\ndtype\n", b"cnumpy\nndarray\n", b"cbuiltins\nset\n", b"c_codecs\nencode\n", b"X\2\0\0\0f4"]
    + [b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy._core.numeric\n_frombuffer\n", b"cos\nsystem\n"]
)


@given(st.lists(opcodes, max_size=40))
def test_any_program_is_read_or_refused(scratch, parts):
    harmless(scratch(b"\x80\x04" + b"".join(parts) + b"."))


def test_loading_leaves_no_trace_of_the_error_that_was(tmp_path):
    with pytest.raises(seekset.FormatError) as error:
        load_pickle(b"cos\nsystem\n.", tmp_path / "a.pkl", max_bytes=100)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__
