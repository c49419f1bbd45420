"""From what a user calls an encoder to the encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from seekset.inference.encoders.custom import imported, made
from seekset.inference.encoders.kmer import KmerEncoder

if TYPE_CHECKING:
    from seekset.inference.encoders.protocol import Encoder

__all__ = ["load_encoder"]


def load_encoder(
    spec: str,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    layer: int | None = None,
    per_token: bool = False,
    trust_remote_code: bool = False,
    unsafe_weights: bool = False,
    arguments: Mapping[str, str] | None = None,
) -> Encoder:
    """The encoder that a name stands for, made for a device.

    Options that were given and that the encoder does not have are a ``MismatchError``.

    Args:
        spec: ``"kmer"``; ``"module:name"`` for a class, factory or function; else the folder or name of a
            model of Hugging Face.
        device: Where it computes, as torch names devices.
        dtype: ``"fp32"``, ``"bf16"`` or ``"fp16"``.
        layer: Which layer's vectors to take; the model's output unless given.
        per_token: Whether to give a vector for each residue.
        trust_remote_code: Whether code that comes with a model may be run.
        unsafe_weights: Whether weights may be pickled, which is code, too.
        arguments: More options by name, as text: numbers and true or false are read as such.

    >>> encoder = load_encoder("kmer", arguments={"k": "3", "alphabet": "dna"})
    >>> encoder.dim
    64
    """
    options: dict[str, Any] = {"dtype": dtype, "layer": layer}
    options |= {"per_token": per_token, "trust_remote_code": trust_remote_code, "unsafe_weights": unsafe_weights}
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return made(_factory(spec), spec, device=device, options=given, arguments=arguments)  # type: ignore[no-any-return]


def _factory(spec: str) -> Callable[..., Any]:
    if spec == "kmer":
        return KmerEncoder
    if ":" in spec:
        return imported(spec)
    from seekset.inference.encoders.huggingface import HuggingFaceEncoder

    return partial(HuggingFaceEncoder, spec)
