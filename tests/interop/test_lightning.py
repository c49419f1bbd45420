"""Sharded Eden's data module in a real Trainer: shuffled, stopped in the middle of an epoch, resumed."""

import json
import sys
import warnings

import pytest
import torch

from eden_reference import windows_of, write_samples, write_windows
from seekset import MismatchError, SeeksetWarning
from seekset.datasets import ShardedEdenDataModule
from window_reference import letters

WINDOW, STRIDE, MICRO = 16, 9, 2

with warnings.catch_warnings():
    # What its dependencies warn of at import is not ours to mend.
    warnings.simplefilter("ignore")
    import lightning

pytestmark = pytest.mark.filterwarnings("ignore:::lightning", "ignore:::torch", "ignore:Starting from v")


class Model(lightning.LightningModule):
    """A tiny model that remembers which windows it saw, and what it learned."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(128, 4)
        self.head = torch.nn.Linear(4, 128)
        self.seen, self.validated, self.tested = [], [], []

    def _loss(self, batch):
        logits = self.head(self.embedding(batch["tokens"]))
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), reduction="none")
        return (losses * batch["loss_mask"].flatten()).sum() / batch["loss_mask"].sum().clamp(min=1)

    def training_step(self, batch, _):
        self.seen += [tuple(row) for row in batch["tokens"].tolist()]
        return self._loss(batch)

    def validation_step(self, batch, _):
        self.validated += [tuple(row) for row in batch["tokens"].tolist()]

    def test_step(self, batch):
        self.tested += [tuple(row) for row in batch["tokens"].tolist()]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def data(tmp_path):
    samples = {"A": {"x__y-A__1": letters(260)}, "B": {"x__y-B__1": "GG", "x__y-B__2": "ACCCA"}}
    write_samples(tmp_path / "dbs", samples)
    paths = [write_windows(tmp_path / f"{split}.sqlite", samples, WINDOW, STRIDE) for split in ("train", "val", "test")]

    def data(**options):
        sizes = {"seq_length": WINDOW, "stride": STRIDE, "micro_batch_size": MICRO, "global_batch_size": MICRO}
        return ShardedEdenDataModule(tmp_path / "dbs", *paths, **{**sizes, "num_workers": 0, **options})

    data.windows = len(windows_of(samples, WINDOW, STRIDE))
    return data


def trainer(folder, **options):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    return lightning.Trainer(default_root_dir=folder, devices=1, num_sanity_val_steps=0, **{**quiet, **options})


def trained(folder, data, epochs=2, path=None, **options):
    model = Model()
    options = {"enable_checkpointing": False, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitting = trainer(folder, max_epochs=epochs, **options)
        fitting.fit(model, datamodule=data, ckpt_path=path, weights_only=False if path else None)
    return model, fitting


def test_training_sees_every_window_once_an_epoch_in_another_order(data, tmp_path):
    model, _ = trained(tmp_path, data(), epochs=2)
    per_epoch = data.windows // MICRO * MICRO
    first, second = model.seen[:per_epoch], model.seen[per_epoch:]
    assert len(set(first)) == len(first) == len(second) == per_epoch
    assert first != second
    assert len(set(first) & set(second)) >= per_epoch - 2 * MICRO


def test_validation_and_test_windows_come_in_order_and_all_of_them(data, tmp_path):
    module = data()
    model, fitting = trained(tmp_path, module, epochs=1)
    told = [tuple(row) for row in (found["tokens"].tolist() for found in module._datasets["val"])]
    assert model.validated == told
    assert len(told) == data.windows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitting.test(model, datamodule=module)
    assert model.tested == told


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [1, 5, 14, 20])
def test_a_run_that_was_stopped_goes_on_with_the_very_next_window(data, tmp_path, stop, workers):
    options = {"num_workers": workers, "multiprocessing_context": "fork", "rc_aug": True}
    whole, _ = trained(tmp_path, data(**options), epochs=2)
    callback = lightning.pytorch.callbacks.ModelCheckpoint(
        dirpath=tmp_path, filename="{step}", every_n_train_steps=stop, save_top_k=-1
    )
    saving = {"enable_checkpointing": True, "callbacks": [callback]}
    first, _ = trained(tmp_path, data(**options), epochs=2, max_steps=stop, **saving)
    assert first.seen == whole.seen[: stop * MICRO]
    rest, _ = trained(tmp_path, data(**options), epochs=2, path=tmp_path / f"step={stop}.ckpt")
    assert rest.seen == whole.seen[stop * MICRO :], f"after {stop} steps"
    for name, value in whole.state_dict().items():
        assert torch.equal(value, rest.state_dict()[name]), name


def test_a_state_of_another_seed_is_refused(data, tmp_path):
    module = data()
    trained(tmp_path, module, epochs=1, max_steps=3)
    for options in ({"seed": 7}, {"rc_aug": True}):
        other = data(**options)
        other.load_state_dict(module.state_dict())
        other.setup("fit")
        with pytest.raises(MismatchError, match="state mismatch"):
            other.train_dataloader()
        # As if it had never been loaded: the seed is the module's own.
        assert [batch["tokens"].tolist() for batch in other.train_dataloader()] == [
            batch["tokens"].tolist() for batch in data(**options).train_dataloader()
        ]


def test_a_state_that_was_loaded_by_hand_counts(data, tmp_path):
    whole, _ = trained(tmp_path, data(), epochs=1)
    first = data()
    trained(tmp_path, first, epochs=1, max_steps=5)
    second = data()
    second.load_state_dict(first.state_dict())
    middle, _ = trained(tmp_path, second, epochs=1, max_steps=3)
    assert middle.seen == whole.seen[5 * MICRO : 8 * MICRO]
    assert second.state_dict()["train"]["position"] == 8


def test_batch_sizes_must_fit_the_ranks(data, tmp_path, monkeypatch):
    with pytest.raises(MismatchError, match="a global batch of 5 can't be made of micro batches of 2 on 1 ranks"):
        data(global_batch_size=5).setup("fit")
    module = data(global_batch_size=8)
    assert module.accumulate_grad_batches == 4
    module.trainer = trainer(tmp_path, max_epochs=1)
    with pytest.warns(SeeksetWarning, match=r"needs Trainer\(accumulate_grad_batches=4\), but the trainer has 1"):
        module.setup("fit")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert data(global_batch_size=8).accumulate_grad_batches == 2
    with pytest.raises(MismatchError, match="on 2 ranks"):
        data(global_batch_size=2).setup("fit")


def test_ranks_share_out_training_windows_evenly(data, monkeypatch):
    seen = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        module = data(global_batch_size=4)
        module.setup("fit")
        seen.append([tuple(row) for batch in module.train_dataloader() for row in batch["tokens"].tolist()])
    assert len(seen[0]) == len(seen[1])
    assert not set(seen[0]) & set(seen[1])
    assert len(seen[0]) + len(seen[1]) >= data.windows - 2 * MICRO - 1


def test_a_sampler_around_the_sampler_is_refused(data):
    from seekset.loading import ResumableBatchSampler

    module = data()
    module.setup("fit")
    sampler = module.train_dataloader().batch_sampler
    with pytest.raises(TypeError, match=r"Trainer\(use_distributed_sampler=False\)"):
        ResumableBatchSampler(sampler, batch_size=2, drop_last=True)


class Seen(lightning.pytorch.callbacks.Callback):
    """Writes down what each rank saw."""

    def __init__(self, folder):
        self.folder = folder

    def on_train_end(self, trainer, pl_module):
        (self.folder / f"seen{trainer.global_rank}.json").write_text(json.dumps(pl_module.seen))


def test_ranks_of_a_real_trainer_see_other_windows(data, tmp_path, run):
    """Two processes under DDP, in a program of its own, because a test runner's can't be started twice."""
    run(
        f"""
        import json, sys, warnings
        sys.path[:0] = {[str(folder) for folder in sys.path if "tests" in folder]!r}
        warnings.simplefilter("ignore")
        import lightning
        from pathlib import Path
        from seekset import MismatchError
        from seekset.datasets import ShardedEdenDataModule
        from test_lightning import Model, Seen

        def module():
            return ShardedEdenDataModule(
                "dbs", "train.sqlite", seq_length=16, stride=9, micro_batch_size=2, global_batch_size=4, num_workers=0
            )

        def trainer(devices, strategy, **options):
            return lightning.Trainer(
                accelerator="cpu", devices=devices, strategy=strategy, max_epochs=1, logger=False, barebones=False,
                enable_checkpointing=False, enable_progress_bar=False, callbacks=[Seen(Path("."))], **options
            )

        if __name__ == "__main__":
            trainer(2, "ddp_spawn", use_distributed_sampler=False).fit(Model(), datamodule=module())
            try:
                trainer(1, "ddp").fit(Model(), datamodule=module())  # one rank is enough, and needs no other process
            except Exception as error:
                assert "use_distributed_sampler=False" in str(error), error
            else:
                raise AssertionError("a sampler around the sampler was not refused")
        """
    )
    first, second = (json.loads((tmp_path / f"seen{rank}.json").read_text()) for rank in range(2))
    assert len(first) == len(second) == data.windows // 2 // MICRO * MICRO
    assert not set(map(tuple, first)) & set(map(tuple, second))


def test_options_that_are_none_are_refused_at_once(data):
    with pytest.raises(TypeError, match="rc_augment"):
        data(rc_augment=True)


def test_splits_that_were_not_given_have_no_loader(tmp_path, data):
    module = data()
    module._paths["val"] = None
    module.setup("fit")
    assert module.val_dataloader() == []
