"""What `make demo` shows: import the shipped conversation, ask it four questions, see each one's chain of evidence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLE = Path("src/scrubjay/sample/conversation.json")
MEMORY = Path("memories/sample.jay")
QUESTIONS = (
    ("How did the missing dachshund really get into the cellar?", "--max-tokens", "260", "--explain"),
    ("What did Dr Pahor and Dr Vidmar each do in the end, and to whom?", "--max-tokens", "300"),
    ("How long did you tell me to leave the herbarium in the freezer?", "--max-tokens", "300"),
    ("外婆摔断的到底是哪只手腕？", "--max-tokens", "200"),
)


def run(*arguments: str) -> None:
    words = " ".join(
        f'"{argument}"' if " " in argument or not argument.isascii() else argument for argument in arguments
    )
    print(f"\n$ scrubjay {words}", flush=True)
    subprocess.run([str(Path(sys.executable).with_name("scrubjay")), *arguments], check=True, cwd=ROOT)


def main() -> None:
    """Run the commands a new user would, and print each before its output."""
    os.environ["SCRUBJAY_MEMORY"] = str(MEMORY)
    (ROOT / MEMORY).parent.mkdir(exist_ok=True)
    run("import", str(SAMPLE))
    for question, *options in QUESTIONS:
        run("ask", question, *options)
    run("status")
    print(f"\nThe memory is {MEMORY}. Ask it yourself:\n  {SHELL_LINE}")


SHELL_LINE = f'.venv/bin/scrubjay ask "What is Miso allergic to?" --memory {MEMORY} --explain'

if __name__ == "__main__":
    main()
