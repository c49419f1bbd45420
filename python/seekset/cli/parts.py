"""The optional parts: packages that some of seekset needs, and which extra brings them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PARTS", "Part"]


class Part(NamedTuple):
    """A package that may be there, under one of some names, and what needs it."""

    module: str
    packages: tuple[str, ...]
    extra: str
    purpose: str

    @property
    def version(self) -> str | None:
        """Which version is installed; ``None`` if it is not. Nothing is imported.

        >>> Part("numpy", ("no-such-package", "numpy"), "none", "arrays").version is None
        False
        """
        from importlib.metadata import PackageNotFoundError, version

        for package in self.packages:
            try:
                return version(package)
            except PackageNotFoundError:
                continue
        return None


_DALI = tuple(f"nvidia-dali-cuda{number}" for number in (130, 120, 110))

PARTS = (
    Part("torch", ("torch",), "torch", "datasets, models"),
    Part("torchdata", ("torchdata",), "torch", "StatefulDataLoader"),
    Part("pyarrow", ("pyarrow",), "parquet", "Parquet shards, tables of contigs"),
    Part("h5py", ("h5py",), "inference", "embeddings.h5"),
    Part("safetensors", ("safetensors",), "inference", "models of Hugging Face"),
    Part("transformers", ("transformers",), "inference", "models of Hugging Face"),
    Part("ray", ("ray",), "ray", "embed --backend ray"),
    Part("lightning", ("lightning",), "eden", "ShardedEdenDataModule"),
    Part("nvidia.dali", _DALI, "dali", "pipelines of DALI"),
    Part("matplotlib", ("matplotlib",), "plot", "--plot"),
)
