"""Batches of a plan as arrays: what datasets and encoders are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seekset.plan import PlannedBatch
    from seekset.sequences import SequenceIndex
    from seekset.tokens import TokenTable

__all__ = ["gather_batch"]


def gather_batch(
    index: SequenceIndex, batch: PlannedBatch, tokens: TokenTable, *, layout: str, specials: bool = True
) -> dict[str, Any]:
    """A batch as a dict of arrays: packed, one sequence after another, or padded, one row each.

    >>> from seekset import Plan, SequenceIndex, TokenTable
    >>> index = SequenceIndex.create(["proteins.fa"])
    >>> plan = Plan.create(index, max_tokens=40)
    >>> batch = gather_batch(index, plan[1], TokenTable.named("esm"), layout="packed")
    >>> batch["sequence_ids"], batch["cu_seqlens"], batch["max_seqlen"], batch["num_sequences"]
    (['seq_2', 'seq_3'], array([ 0, 18, 25], dtype=int32), 18, 2)
    """
    found: dict[str, Any] = {"rows": batch.rows, "starts": batch.starts}
    if layout == "padded":
        ids, mask, names = index.padded_batch(batch, tokens, specials=specials)
        found |= {"input_ids": ids, "attention_mask": mask}
        longest = ids.shape[1]
    else:
        ids, ends, positions, names, longest = index.packed_batch(batch, tokens, specials=specials)
        found |= {"input_ids": ids, "cu_seqlens": ends, "position_ids": positions}
    return found | {"max_seqlen": longest, "num_sequences": len(names), "sequence_ids": names}
