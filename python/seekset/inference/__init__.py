"""Encoders run over every sequence, on all devices of a machine or of a cluster.

Nothing here imports torch before it has to: workers do, each in its own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekset.inference.aggregate import aggregate_run, aggregate_shards
    from seekset.inference.coordinator import GPUProcessCoordinator
    from seekset.inference.encoders import Encoder
    from seekset.inference.request import Request
    from seekset.inference.run import RunIncompleteError, Summary, embed, run_multi_gpu_inference

__all__ = [
    "Encoder",
    "GPUProcessCoordinator",
    "Request",
    "RunIncompleteError",
    "Summary",
    "aggregate_run",
    "aggregate_shards",
    "embed",
    "run_multi_gpu_inference",
]

_HOMES = {
    "Encoder": "encoders",
    "GPUProcessCoordinator": "coordinator",
    "Request": "request",
    "RunIncompleteError": "run",
    "Summary": "run",
    "aggregate_run": "aggregate",
    "aggregate_shards": "aggregate",
    "embed": "run",
    "run_multi_gpu_inference": "run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'seekset.inference' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"seekset.inference.{_HOMES[name]}"), name)
