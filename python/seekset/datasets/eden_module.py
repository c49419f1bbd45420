"""Sharded Eden's windows as a Lightning data module."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

from seekset.datasets.eden import ShardedEdenDataset
from seekset.errors import MismatchError, SeeksetWarning
from seekset.extras import missing
from seekset.limits import whole_number
from seekset.loading import ResumableBatchSampler, collate
from seekset.workers import cuda_safe_worker_init
from seekset.world import World, detect

try:
    from lightning import LightningDataModule
except ModuleNotFoundError as error:
    raise missing("ShardedEdenDataModule", "lightning", "eden") from error

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from seekset.files import AnyPath
    from seekset.world import Even

__all__ = ["ShardedEdenDataModule"]


class ShardedEdenDataModule(LightningDataModule):
    """Loaders of training, validation and test windows. Training windows are shuffled, and resume within an epoch.

    Each loader gives batches of ``micro_batch_size`` windows. In training, all ranks have as many of them; validation
    and test windows come once each, unless ``even`` says otherwise. The rank is that of
    Megatron's data-parallel group where there is one, so that ranks which hold parts of one model read the same
    windows.

    Args:
        sequence_db_dir: The folder of sample databases.
        train_window_db_path: The window database of the training split.
        val_window_db_path: That of the validation split.
        test_window_db_path: That of the test split.
        seq_length: Tokens of a window.
        micro_batch_size: Windows of a batch.
        global_batch_size: Windows between two steps of the optimizer, over all ranks. For how many batches gradients
            must be accumulated is :attr:`accumulate_grad_batches`.
        num_workers: Worker processes of each loader.
        rc_aug: Whether half of the training windows are given as their reverse complement.
        use_control_tags: Whether headers have the contig's control tag.
        tokenizer: A token table or its name, or a tokenizer object; ``"dna"`` unless given.
        stride: Letters between windows.
        window_min_length_threshold: The threshold that the databases were made with, if there was one.
        seed: What order and reverse complements are drawn from.
        log_windows: Whether reads are logged.
        log_dir: Where to.
        pin_memory: Whether batches are put into pinned memory; if not given, where there is CUDA.
        persistent_workers: Whether workers stay from epoch to epoch.
        multiprocessing_context: How workers are started.
        even: What to do where validation and test windows don't divide by ranks: ``"none"`` leaves it; ``"pad"``
            repeats some and ``"drop"`` leaves some out, so that all ranks have as many, as collective calls need it.
        options: What else :class:`ShardedEdenDataset` takes, such as ``create_attention_mask`` or ``legacy_header``.
    """

    def __init__(
        self,
        sequence_db_dir: AnyPath,
        train_window_db_path: AnyPath,
        val_window_db_path: AnyPath | None = None,
        test_window_db_path: AnyPath | None = None,
        *,
        seq_length: int = 8192,
        micro_batch_size: int = 1,
        global_batch_size: int = 4,
        num_workers: int = 2,
        rc_aug: bool = False,
        use_control_tags: bool = False,
        tokenizer: Any = None,
        stride: int | None = 7992,
        window_min_length_threshold: int | None = None,
        seed: int = 42,
        log_windows: bool = False,
        log_dir: AnyPath | None = None,
        pin_memory: bool | None = None,
        persistent_workers: bool = True,
        multiprocessing_context: str = "spawn",
        even: Even = "none",
        **options: Any,
    ) -> None:
        super().__init__()
        self.micro_batch_size: int = whole_number(micro_batch_size, "micro_batch_size")
        self.global_batch_size: int = whole_number(global_batch_size, "global_batch_size")
        self.num_workers: int = whole_number(num_workers, "num_workers", least=0)
        self.seed: int = seed
        self._rc_aug = rc_aug
        self._even, self._base = even, (0, 0)
        self._pin_memory, self._persistent, self._context = pin_memory, persistent_workers, multiprocessing_context
        self._paths = {"train": train_window_db_path, "val": val_window_db_path, "test": test_window_db_path}
        self._options: dict[str, Any] = {
            "tokenizer": "dna" if tokenizer is None else tokenizer,
            "sequence_db_dir": sequence_db_dir,
            "seq_length": seq_length,
            "stride": stride,
            "use_control_tags": use_control_tags,
            "window_min_length_threshold": window_min_length_threshold,
            "log_windows": log_windows,
            "log_dir": log_dir,
            **options,
        }
        if unknown := set(options) - set(inspect.signature(ShardedEdenDataset).parameters):
            raise TypeError(f"neither this module nor ShardedEdenDataset takes {', '.join(sorted(unknown))}")
        self._datasets: dict[str, ShardedEdenDataset] = {}
        self._samplers: dict[str, ResumableBatchSampler] = {}
        self._loaded: dict[str, Any] | None = None

    # --- what is asked of a data module -------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Open the databases of a stage, and compare batch sizes with the number of ranks."""
        self._check_batches()
        for split in {"fit": ("train", "val"), "validate": ("val",), "test": ("test",)}.get(stage, ()):
            if self._paths[split] is not None and split not in self._datasets:
                self._datasets[split] = self._dataset(split)

    def train_dataloader(self) -> DataLoader[Any]:
        """Shuffled windows, with another order in every epoch."""
        return self._loader("train")

    def val_dataloader(self) -> DataLoader[Any] | list[Any]:
        """Windows in their order."""
        return self._loader("val") if self._paths["val"] is not None else []

    def test_dataloader(self) -> DataLoader[Any] | list[Any]:
        """Windows in their order."""
        return self._loader("test") if self._paths["test"] is not None else []

    def state_dict(self) -> dict[str, Any]:
        """Epoch and position of training: what Lightning puts into checkpoints, within an epoch, too."""
        sampler = self._samplers.get("train")
        if sampler is None:
            return {} if self._loaded is None else self._loaded
        return {"train": sampler.state_dict(position=self._trained()), "data": self._datasets["train"].state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a checkpoint was written."""
        self._loaded = state_dict if "train" in state_dict else None
        if "train" in self._samplers:
            self._take_up()

    def _take_up(self) -> None:
        """Take up a state that was loaded: seed and epoch in the dataset, the position in its sampler."""
        if self._loaded is None:
            return
        state, self._loaded = self._loaded, None
        data: Any = state.get("data")  # what is no state at all is refused by the dataset
        sampler = self._samplers["train"]
        # Everything is looked at before anything is changed: a state that is refused was never loaded.
        if isinstance(data, dict) and data.get("seed") != self.seed:
            raise MismatchError(f"state mismatch: seed was {data.get('seed')} and is {self.seed} here")
        sampler.check_state_dict(state["train"])
        self._datasets["train"].load_state_dict(data)
        sampler.load_state_dict(state["train"])
        # A trainer that resumed has counted what came before; a fresh one has not.
        self._base = (state["train"]["epoch"], state["train"]["position"] - self._processed())

    def teardown(self, stage: str) -> None:
        """Let go of files."""
        del stage
        for dataset in self._datasets.values():
            dataset.close()

    # --- how ----------------------------------------------------------------------------------------------------------

    @property
    def accumulate_grad_batches(self) -> int:
        """Batches of a rank between two steps of the optimizer."""
        return self.global_batch_size // (self.micro_batch_size * self._world().size)

    def _world(self) -> World:
        here = detect()
        return World(here.rank, here.size)

    def _check_batches(self) -> None:
        ranks = self._world().size
        if self.global_batch_size % (self.micro_batch_size * ranks):
            raise MismatchError(
                f"batch size mismatch: a global batch of {self.global_batch_size} can't be made of micro batches of "
                f"{self.micro_batch_size} on {ranks} ranks"
            )
        wanted = self.accumulate_grad_batches
        trainer = self.trainer
        if trainer is not None and trainer.world_size > 1 and trainer._accelerator_connector.use_distributed_sampler:  # noqa: SLF001 (it is public nowhere)
            raise MismatchError(
                "sampler mismatch: windows are shared out over ranks already, in an order that can be resumed; give "
                "Trainer(use_distributed_sampler=False)"
            )
        if trainer is not None and trainer.accumulate_grad_batches != wanted:
            warnings.warn(
                f"a global batch of {self.global_batch_size} needs Trainer(accumulate_grad_batches={wanted}), but the "
                f"trainer has {trainer.accumulate_grad_batches}",
                SeeksetWarning,
                stacklevel=2,
            )

    def _dataset(self, split: str) -> ShardedEdenDataset:
        train, path = split == "train", self._paths[split]
        if path is None:
            raise ValueError(f"there are no {split} windows: give {split}_window_db_path")
        return ShardedEdenDataset(
            window_db_path=path,
            split=split,
            rc_aug=self._rc_aug and train,
            shuffle=train,
            seed=self.seed,
            **self._options,
        )

    def _loader(self, split: str) -> DataLoader[Any]:
        import torch
        from torch.utils.data import DataLoader

        if split not in self._datasets:
            self._datasets[split] = self._dataset(split)
        dataset = self._datasets[split]
        train = split == "train"
        world = self._world()
        sampler = ResumableBatchSampler(
            dataset, self.micro_batch_size, drop_last=train, even="drop" if train else self._even, world=world
        )
        self._samplers[split] = sampler
        if train:
            self._take_up()
        workers: dict[str, Any] = {}
        if self.num_workers:
            workers = {"persistent_workers": self._persistent, "multiprocessing_context": self._context}
            workers["worker_init_fn"] = cuda_safe_worker_init
        return DataLoader(
            dataset,
            batch_sampler=sampler,
            collate_fn=collate,
            num_workers=self.num_workers,
            pin_memory=torch.cuda.is_available() if self._pin_memory is None else self._pin_memory,
            **workers,
        )

    def _trained(self) -> int | None:
        """How many batches of the epoch were trained on; loaders have asked for more."""
        if self.trainer is None:
            return None
        epoch, before = self._base
        return self._processed() + (before if epoch == self._samplers["train"].epoch else 0)

    def _processed(self) -> int:
        if self.trainer is None:
            return 0
        progress: Any = self.trainer.fit_loop.epoch_loop.batch_progress.current
        return int(progress.processed)
