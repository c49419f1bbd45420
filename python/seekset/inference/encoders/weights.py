"""What tells one model of Hugging Face from another, without reading all of its weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["digest_of", "is_hugging_face"]

# What vectors depend on: settings, vocabularies, weights, and code that may come with them.
_SUFFIXES = {".bin", ".json", ".model", ".py", ".pt", ".safetensors", ".txt"}

# Smaller files are read whole; of larger ones (a safetensors file begins with what it holds) the start, the end and
# blocks between them.
_WHOLE = 1 << 20
_BLOCK = 1 << 12
_BLOCKS = 256


def is_hugging_face(model: str) -> bool:
    """Whether what a user calls a model is one of Hugging Face, by its folder or its name.

    >>> [is_hugging_face(model) for model in ("kmer", "mine:Encoder", "models/esm2", "facebook/esm2_t6_8M_UR50D")]
    [False, False, True, True]
    """
    return model != "kmer" and ":" not in model


def digest_of(folder: Path) -> str:
    """A digest of names, sizes and sampled contents of a model's files.

    >>> Path("model").mkdir()
    >>> _ = Path("model/config.json").write_text("{}")
    >>> before = digest_of(Path("model"))
    >>> _ = Path("model/config.json").write_text('{"hidden_size": 320}')
    >>> digest_of(Path("model")) == before
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file()):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(_WHOLE))
            if size > _WHOLE:
                for block in range(1, _BLOCKS + 1):
                    file.seek(max(_WHOLE, _WHOLE + (size - _WHOLE) * block // _BLOCKS - _BLOCK))
                    digest.update(file.read(_BLOCK))
    return digest.hexdigest()
