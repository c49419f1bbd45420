"""The peers' own indexes and data sets, and which versions of them are installed."""

from __future__ import annotations

import shutil
import tomllib
from importlib.metadata import version
from pathlib import Path

from data import BENCHES, Size

_PACKAGES = (
    *("seekset", "pysam", "pyfaidx", "pyfastx", "bionemo-noodles", "needletail", "pylance", "pyarrow", "numpy"),
    *("tensorflow-cpu", "tfrecord", "nvidia-dali-cuda130", "s3dlio", "torch", "biopython"),
    *("webdataset", "mosaicml-streaming", "datasets"),
)


def make_indexes(size: Size) -> None:
    """Make what the peers need to read the files of ``size``, where it is not there yet."""
    import pyfastx
    import pysam

    for path in (size.proteins_path, size.genome_path):
        if not fai_path(path).exists():
            pysam.faidx(str(path))
        if not path.with_name(path.name + ".fxi").exists():
            pyfastx.Fasta(str(path))
    if not lance_path(size.proteins_path).exists():
        _make_lance(size.proteins_path)


def fai_path(path: Path) -> Path:
    """Where samtools, pyfaidx and noodles keep the index of a FASTA file."""
    return path.with_name(path.name + ".fai")


def lance_path(path: Path) -> Path:
    """Where the sequences of a FASTA file lie as a Lance data set."""
    return path.with_suffix(".lance")


def _make_lance(path: Path) -> None:
    """Write all sequences of a FASTA file as the one column of a Lance data set, in file order, as Lance likes best."""
    import lance
    import numpy as np
    import pyarrow as pa

    import seekset

    with seekset.Fasta(path) as fasta:
        values, offsets = fasta.gather(np.arange(len(fasta)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    sequences = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    unfinished = path.with_suffix(".unfinished.lance")
    shutil.rmtree(unfinished, ignore_errors=True)
    lance.write_dataset(pa.table({"sequence": sequences}), str(unfinished))
    unfinished.rename(lance_path(path))


def versions() -> dict[str, str]:
    """The version of everything that takes part."""
    from pysam import version as pysam_version

    found = {package: version(package) for package in _PACKAGES}
    found["pysam"] += f" (samtools {pysam_version.__samtools_version__}, htslib {pysam_version.__htslib_version__})"
    lock = tomllib.loads((BENCHES / "rust" / "Cargo.lock").read_text())
    found["helicase"] = next(package["version"] for package in lock["package"] if package["name"] == "helicase")
    return found
