"""How stored words are kept inside their quotation, the same for the context, the encoder, the planner and the answer."""

from __future__ import annotations

import re

LINE_BREAK = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
CONTINUED = "\n  "  # every later line is indented: a line that begins at the margin is ours
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
