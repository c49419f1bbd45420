"""The states of a worker, as the guide has them."""

import re
from pathlib import Path

from seekset.inference.supervisor import TRANSITIONS, State

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "inference.md"


def test_the_guide_has_every_state_and_where_it_leads():
    told = {}
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch(r"\| `([A-Z_]+)` \| (.+) \| (.*)\|", line):
            told[found[1]] = (found[2], set(re.findall(r"`([A-Z_]+)`", found[3])))
    assert told == {state.name: (state.value, {after.name for after in TRANSITIONS[state]}) for state in State}
