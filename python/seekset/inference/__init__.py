"""Encoders run over every sequence, on all devices of a machine or of a cluster.

Nothing here imports torch before it has to: workers do, each in its own process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seekset.lazy import lazy_names

if TYPE_CHECKING:
    from seekset.inference.aggregate import aggregate_run, aggregate_shards
    from seekset.inference.coordinator import GPUProcessCoordinator
    from seekset.inference.encoders import Encoder
    from seekset.inference.request import Request
    from seekset.inference.run import RunIncompleteError, Summary, embed, run_multi_gpu_inference

_HOMES = {
    "Encoder": "seekset.inference.encoders",
    "GPUProcessCoordinator": "seekset.inference.coordinator",
    "Request": "seekset.inference.request",
    "RunIncompleteError": "seekset.inference.run",
    "Summary": "seekset.inference.run",
    "aggregate_run": "seekset.inference.aggregate",
    "aggregate_shards": "seekset.inference.aggregate",
    "embed": "seekset.inference.run",
    "run_multi_gpu_inference": "seekset.inference.run",
}

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _HOMES)
