"""Events that people want to know of at once, and the words for them: on a terminal, in a log, in a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["News", "news_of"]


class News(NamedTuple):
    """What an event says to people: as a mark on a time line, if it has one there, and in words."""

    mark: str | None
    text: str


_NEWS = {
    "worker_died": News("death", "worker {rank} {how}"),
    "worker_hung": News("hung", "worker {rank} is hung: {reason}"),
    "worker_given_up": News("given up", "worker {rank} is given up: {reason}"),
    "worker_raised": News("error", "worker {rank}: {reason}"),
    # These may be many: a report has a table of them.
    "sequence_failed": News(None, "{sequence_id} is set aside: {reason}"),
    "chunk_damaged": News("damage", "{path} is damaged and is computed again: {reason}"),
    "chunks_foreign": News(None, "chunk files of another run, which are left alone: {count}; the first is {path}"),
    "devices_changed": News("devices", "goes on with --devices {devices}, where the run before had {before}"),
    "run_stopping": News("stop", "stopping: {reason}"),
}


def news_of(event: Mapping[str, Any]) -> News | None:
    """What an event says to people; ``None`` if it is none of theirs. What it should say and does not is a ``?``.

    >>> news_of({"event": "worker_died", "rank": 1, "how": "was ended by SIGKILL"})
    News(mark='death', text='worker 1 was ended by SIGKILL')
    >>> news_of({"event": "run_stopping"}).text, news_of({"event": "chunk_begun", "rank": 1})
    ('stopping: ?', None)
    """
    news = _NEWS.get(event["event"])
    return None if news is None else news._replace(text=news.text.format_map(_Missing(event)))


class _Missing(dict[str, Any]):
    """What an event says; of what it does not say, a question mark."""

    def __missing__(self, key: str) -> str:
        return "?"
