"""What map-style datasets with an order of their own have in common: seed and epoch, which they save and take up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seekset.position import VERSION, check_state, count_in

if TYPE_CHECKING:
    from seekset.datasets.order import Order

__all__ = ["Ordered"]


class Ordered:
    """Seed and epoch of a map-style dataset; all processes share them."""

    _order: Order

    @property
    def epoch(self) -> int:
        """The epoch, from 0."""
        return self._order.epoch

    def set_epoch(self, epoch: int) -> None:
        """Go to an epoch, in all processes: workers that are already running, too."""
        self._order.set_epoch(epoch)

    @property
    def drawn(self) -> dict[str, Any]:
        """What decides, with the epoch, which item stands at which place, by name: the seed is the one of now."""
        return {**self._rules, "seed": self._order.seed}

    @property
    def _rules(self) -> dict[str, Any]:
        """How items are drawn from the seed."""
        return {"shuffle": self._order.shuffle}

    @property
    def _content(self) -> dict[str, Any]:
        """What is drawn from."""
        raise NotImplementedError

    @property
    def _setting(self) -> dict[str, Any]:
        """What must be the same where a state is loaded, by name."""
        return {**self._rules, **self._content}

    def state_dict(self) -> dict[str, Any]:
        """Seed and epoch. The position is in the sampler: here, loaders would skip it twice."""
        return {"version": VERSION, "seed": self._order.seed, "epoch": self._order.epoch, **self._setting}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up seed and epoch; a state of other data is a ``MismatchError``."""
        check_state(state, self._setting)
        self._order.seed, self._order.epoch = count_in(state, "seed"), count_in(state, "epoch")
