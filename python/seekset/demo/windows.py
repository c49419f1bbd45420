"""Windows over a genome as training batches, resumed in the middle."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from seekset.extras import require

if TYPE_CHECKING:
    from seekset.datasets import WindowDataset
    from seekset.demo.tour import Tour
    from seekset.loading import ResumableBatchSampler

__all__ = ["show"]

_WINDOW, _STRIDE, _BATCH, _BATCHES = 8192, 7992, 64, 20


def show(tour: Tour) -> None:
    """Read some batches of windows, save the position, and go on elsewhere."""
    require("the dataset of windows", "torch", "torch")
    from seekset.loading import ResumableBatchSampler

    rules = f"window={_WINDOW}, stride={_STRIDE}, rc_aug=True, seed=0"
    tour.code(f'ds = WindowDataset("{tour.genome}", {rules})', f"sampler = ResumableBatchSampler(ds, {_BATCH})")
    ds = tour.timed("the plan of all windows", lambda: _opened(tour))
    place = ds.place(0)
    strand = "-" if place.reverse else "+"
    tour.tell(f"{len(ds):,} windows, shuffled; the first is {place.contig}:{place.start + 1}-{place.end} ({strand})")
    sampler = ResumableBatchSampler(ds, batch_size=_BATCH)
    batches = _batches(ds, sampler)
    seen = tour.timed(f"{_BATCHES} batches of {_BATCH} windows", lambda: list(islice(batches, _BATCHES)))
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in seen[0].items())
    tour.tell(shapes)
    other = _opened(tour)
    resumed = ResumableBatchSampler(other, batch_size=_BATCH)
    resumed.load_state_dict(sampler.state_dict())
    same = bool((next(_batches(other, resumed))["tokens"] == next(batches)["tokens"]).all())
    tour.tell(f"saved and resumed after {_BATCHES} batches: the next one is {'the same' if same else 'ANOTHER'}")


def _opened(tour: Tour) -> WindowDataset:
    from seekset.datasets import WindowDataset

    return WindowDataset(tour.genome, window=_WINDOW, stride=_STRIDE, rc_aug=True, seed=0)


def _batches(ds: WindowDataset, sampler: ResumableBatchSampler) -> Any:
    from torch.utils.data import DataLoader

    from seekset.loading import collate

    return iter(DataLoader(ds, batch_sampler=sampler, collate_fn=collate))
