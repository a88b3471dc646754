"""Write the table of `datasets/README.md` from the conversations beside it. `--check` fails where it is out of date."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from check_conversations import CATEGORIES, Report, check_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from check_conversations import Conversation

CARD = Path(__file__).parents[1] / "datasets" / "README.md"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- /table -->)", re.DOTALL)
COUNTED = ("sessions", "turns", "images", "questions", *CATEGORIES)


def build_table(conversations: dict[str, Conversation]) -> str:
    """Give the Markdown table of what each conversation holds, and their sum."""
    heads = ["conversation", "kind", "language", *COUNTED]
    rows = [heads, ["---"] * 3 + ["---:"] * len(COUNTED)]
    for name, conversation in conversations.items():
        label = f"{name} (held out)" if conversation.held_out else name
        languages = ", ".join(conversation.languages)
        rows.append([label, conversation.kind, languages, *map(str, count(conversation))])
    total = [sum(column) for column in zip(*map(count, conversations.values()), strict=True)]
    rows.append([f"all {len(conversations)}", "", "", *map(str, total)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def count(conversation: Conversation) -> Sequence[int]:
    """Count what one conversation holds, in the order of COUNTED."""
    turns = list(conversation.turns())
    by_category = Counter(question.category for question in conversation.questions)
    return (
        len(conversation.sessions),
        len(turns),
        sum(turn.has_caption for turn in turns),
        len(conversation.questions),
        *(by_category[category] for category in CATEGORIES),
    )


def main() -> int:
    """Write the table into the card, or check it."""
    conversations: dict[str, Conversation] = {}
    for path in sorted(CARD.parent.glob("*.json")):
        conversation = check_file(path, Report(file=path.name))
        if conversation is not None:
            conversations[path.stem] = conversation
    text = CARD.read_text("utf-8")
    current = TABLE.sub(lambda _: build_table(conversations), text)
    if "--check" not in sys.argv:
        CARD.write_text(current, encoding="utf-8")
    elif current != text:
        print("datasets/README.md is out of date: run `make docs`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
