"""Encoders: from batches of sequences to vectors."""

from seekset.inference.encoders.kmer import KmerEncoder
from seekset.inference.encoders.loading import load_encoder
from seekset.inference.encoders.memory import is_out_of_memory
from seekset.inference.encoders.outputs import as_array, residues, unfinite_rows
from seekset.inference.encoders.protocol import Encoder, EncoderFacts, describe

__all__ = [
    "Encoder",
    "EncoderFacts",
    "KmerEncoder",
    "as_array",
    "describe",
    "is_out_of_memory",
    "load_encoder",
    "residues",
    "unfinite_rows",
]
