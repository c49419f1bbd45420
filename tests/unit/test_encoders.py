"""Encoders by name, what they say of themselves, and what becomes of what they give."""

import functools
import json
import pickle
import sys

import numpy as np
import pytest
import torch

from seekset.errors import MismatchError, SeeksetError
from seekset.inference.encoders import (
    EncoderFacts,
    KmerEncoder,
    as_array,
    describe,
    is_out_of_memory,
    load_encoder,
    residues,
    unfinite_rows,
)
from seekset.tokens import TokenTable

MODELS = """
calls = []

class Encoder:
    tokens = "dna"

    def __init__(self, device, width=4, dtype=None, **options):
        self.made = {"device": device, "width": width, "dtype": dtype, **options}

    def __call__(self, batch):
        return None

class Strict:
    def __init__(self, *, device, width=4, scale=1.0):
        self.made = (device, width, scale)

    def __call__(self, batch):
        return None

class WithoutDevice:
    def __call__(self, batch):
        return None

class Broken:
    def __init__(self, device):
        raise OSError("weights.bin: no such file\\nand more lines")

def factory(device, width):
    return Strict(device=device, width=width)

def plain(batch):
    return batch["cu_seqlens"]

plain.tokens, plain.arrays = None, "numpy"

def nothing(device):
    return None

number = 3
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A folder with a module of encoders, as the current one; returns the module's name."""
    name = f"models_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODELS)
    (tmp_path / f"{name}_broken.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return name


# --- by name --------------------------------------------------------------------------------------------------------


def test_a_class_of_the_current_folder_is_made_with_the_device_and_what_it_was_given(models):
    encoder = load_encoder(f"{models}:Encoder", device="cuda:1", dtype="bf16", arguments={"width": "8", "a": "x"})
    assert encoder.made == {"device": "cuda:1", "width": 8, "dtype": "bf16", "a": "x"}
    assert describe(encoder).tokens == TokenTable.named("dna")


def test_options_that_were_not_given_are_not_passed_on(models):
    assert load_encoder(f"{models}:Strict", device="cpu").made == ("cpu", 4, 1.0)


def test_a_factory_is_called_and_a_plain_function_is_the_encoder(models):
    assert load_encoder(f"{models}:factory", device="cpu", arguments={"width": "2"}).made == ("cpu", 2, 1.0)
    plain = load_encoder(f"{models}:plain", device="cpu")
    assert plain.__name__ == "plain"
    assert (describe(plain).tokens, describe(plain).arrays) == (None, "numpy")


@pytest.mark.parametrize(
    "name, options, message",
    [
        ("_broken:Encoder", {}, "can't be imported: ModuleNotFoundError: No module named 'no_such_package'"),
        (":Missing", {}, "has no 'Missing'"),
        (":number", {}, "is int, and no class or function"),
        (":nothing", {}, "gives NoneType, which can't be called with a batch"),
        (":WithoutDevice", {}, "must take a 'device', and this one does not"),
        (":Broken", {}, "the encoder can't be made: OSError: weights.bin: no such file"),
        (":factory", {}, "missing 1 required positional argument: 'width'"),
        (":Strict", {"layer": 2}, "has no option 'layer'; it has width, scale"),
        (":Strict", {"per_token": True}, "found one that takes device, width, scale; make it a class with __init__("),
        (":plain", {"per_token": True}, "gives a row for each residue, found a function that is given batches alone;"),
        (":plain", {"arguments": {"k": "3"}}, "has no option 'k'; it has none"),
        (":Encoder", {"layer": 1, "arguments": {"layer": "2"}}, "'layer' is given by an option of its own"),
        (":Encoder", {"arguments": {"device": "cpu"}}, "'device' is given by an option of its own"),
    ],
)
def test_what_is_no_encoder_is_one_error_that_names_it(models, name, options, message):
    with pytest.raises(SeeksetError) as caught:
        load_encoder(models + name, device="cpu", **options)
    text = str(caught.value)
    assert text.startswith(models + name)
    assert text.endswith(message) or message in text
    assert "\n" not in text


# --- facts ----------------------------------------------------------------------------------------------------------


def test_an_encoder_that_says_nothing_gets_packed_batches_of_esm():
    facts = describe(lambda batch: batch)
    assert facts == EncoderFacts() == pickle.loads(pickle.dumps(facts))
    assert json.loads(json.dumps(facts.identity)) == facts.identity


@pytest.mark.parametrize(
    "said, message",
    [
        ({"tokens": "rna"}, "there is no token table 'rna'; there are bytes, dna, esm, nucleotide"),
        ({"tokens": 3}, "tokens must be a table's name or a TokenTable, not int"),
        ({"layout": "ragged"}, "layout must be 'packed' or 'padded', but is 'ragged'"),
        ({"arrays": "jax"}, "arrays must be 'torch' or 'numpy', but is 'jax'"),
        ({"max_length": 0}, "max_length must be at least 1, or None for no limit, but is 0"),
        ({"dim": "wide"}, "dim must be a whole number or None, not str"),
        ({"tokens": TokenTable({"A": 0}), "layout": "padded"}, "has no pad id"),
    ],
)
def test_what_an_encoder_may_not_ask_for_is_told(said, message):
    with pytest.raises(MismatchError) as caught:
        describe(type("Odd", (), said)())
    assert str(caught.value).startswith("the encoder Odd asks for ")
    assert message in str(caught.value)


def test_tables_of_one_name_with_other_ids_have_another_identity():
    tables = [TokenTable({"A": 0}), TokenTable({"A": 1}), TokenTable({"A": 0}, prefix=[5])]
    assert len({EncoderFacts(tokens=table).identity["tokens"] for table in tables}) == 3


# --- what comes out -------------------------------------------------------------------------------------------------

# Two sequences of three residues and of none, with ESM's specials around them.
PACKED = {"cu_seqlens": np.array([0, 5, 7], dtype=np.int32)}
PADDED = {"attention_mask": np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])}


def test_residues_are_counted_without_specials_and_padding():
    for batch, facts in [
        (PACKED, EncoderFacts()),
        ({"cu_seqlens": torch.tensor([0, 5, 7], dtype=torch.int32)}, EncoderFacts()),
        (PADDED, EncoderFacts(layout="padded")),
        ({"cu_seqlens": np.array([0, 3, 3], dtype=np.int32)}, EncoderFacts(specials=False)),
        ({"sequences": ["MKV", ""]}, EncoderFacts(tokens=None)),
    ]:
        assert residues(batch, facts).tolist() == [3, 0]


@pytest.mark.parametrize(
    "output, dtype",
    [
        (np.ones((2, 3)), np.float32),
        (np.ones((2, 3), dtype=np.float16), np.float16),
        (torch.ones(2, 3, dtype=torch.bfloat16), np.float32),
        (torch.ones(2, 3, dtype=torch.float64), np.float32),
        (torch.ones(2, 3, dtype=torch.float16), np.float16),
        (torch.ones(2, 3, requires_grad=True), np.float32),
        (torch.ones(3, 2).T, np.float32),
        ([[1, 1, 1], [1, 1, 1]], np.float32),
    ],
)
def test_arrays_and_tensors_of_any_type_become_float32_or_float16(output, dtype):
    found = as_array(output, PACKED, EncoderFacts())
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    assert found.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_vectors_do_not_change_with_the_buffer_that_an_encoder_uses_again():
    buffer = torch.ones(2, 3)
    found = as_array(buffer, PACKED, EncoderFacts())
    buffer.zero_()
    assert found.min() == 1


PER_TOKEN = "with --per-token, expected a row for each of 3 residues of 2 sequences, special tokens left out, found"
OTHERWISE = "give vectors of residues, or leave --per-token out"


@pytest.mark.parametrize(
    "output, per_token, message",
    [
        (np.ones((1, 4)), False, "the encoder gave 1 rows for 2 sequences"),
        (np.ones((3, 4)), False, "the encoder gave 3 rows for 2 sequences; for a row per residue, ask for --per-token"),
        (np.ones((2, 4)), True, f"{PER_TOKEN} 2 rows, one for each sequence; {OTHERWISE}"),
        (np.ones((7, 4)), True, f"{PER_TOKEN} 7 rows; {OTHERWISE}"),
        (np.ones(2), False, "the encoder gave an array of shape (2,), but rows of numbers are needed"),
        (np.ones((2, 5, 4)), False, "the encoder gave an array of shape (2, 5, 4), but rows of numbers are needed"),
        (None, False, "the encoder gave NoneType, which is no array or tensor of numbers"),
        ({"x": 1}, False, "the encoder gave dict, which is no array or tensor of numbers"),
        ([[1], [2, 3]], False, "the encoder gave list, which is no array or tensor of numbers"),
        (np.array([["a"]]), False, "the encoder gave ndarray of <U1, which is no array or tensor of numbers"),
        (np.ones((2, 5)), False, "the encoder gave vectors of 5 numbers, but says that they have 4"),
    ],
)
def test_other_than_a_row_for_each_is_an_error(output, per_token, message):
    with pytest.raises(MismatchError) as caught:
        as_array(output, PACKED, EncoderFacts(dim=4), per_token=per_token)
    assert str(caught.value) == message


def test_sequences_with_numbers_that_are_not_finite_are_found():
    too_large = as_array(np.array([[1.0, 1e300], [1, 1]]), PACKED, EncoderFacts())
    assert unfinite_rows(too_large).tolist() == [0]
    by_token = np.zeros((6, 2), dtype=np.float16)
    by_token[[1, 2, 5], [0, 1, 1]] = np.nan, np.inf, -np.inf
    assert unfinite_rows(by_token, np.array([3, 0, 1, 2, 0])).tolist() == [0, 3]
    assert unfinite_rows(np.empty((0, 0))).tolist() == []


def test_too_little_memory_is_known_by_what_is_raised():
    wrapped = SeeksetError("the encoder failed")
    wrapped.__cause__ = torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
    for error in (MemoryError(), wrapped, RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")):
        assert is_out_of_memory(error)
    for error in (None, RuntimeError("shape mismatch"), KeyError("out of memory")):
        assert not is_out_of_memory(error)


def test_nothing_of_torch_is_imported_for_k_mers(run):
    out = run("""
        import sys
        import numpy as np
        from seekset.inference.encoders import as_array, describe, is_out_of_memory, load_encoder

        encoder = load_encoder("kmer")
        batch = {"input_ids": np.array([0, 1, 2]), "cu_seqlens": np.array([0, 3], dtype=np.int32)}
        print(as_array(encoder(batch), batch, describe(encoder)).sum(), is_out_of_memory(ValueError()))
        print("torch" in sys.modules, "transformers" in sys.modules)
    """)
    assert out == "1.0 False\nFalse False\n"


def test_a_partial_is_a_factory_as_well():
    from seekset.inference.encoders.custom import made

    assert made(functools.partial(KmerEncoder, k=1), "mine", device="cpu").dim == 20
