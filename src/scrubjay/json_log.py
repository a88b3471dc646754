"""What servers and workers log: lines of JSON on standard error, without anybody's words; or plain lines for a person."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime


def frames_of(error: BaseException) -> list[str]:
    """Say where an error was raised, without its words: they may hold what somebody said."""
    return [
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
    ]


class JsonLines(logging.Formatter):
    """Log records as lines of JSON; exceptions as their class and frames."""

    def __init__(self, *, log_content: bool = False) -> None:
        super().__init__()
        self._log_content = log_content

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **record.__dict__.get("fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line |= {"error": type(error).__name__, "frames": frames_of(error)}
            if self._log_content:
                line["message"] = str(error)
        return json.dumps(line)


class PlainLines(logging.Formatter):
    """Log records as a person reads them: one line each, with what was asked and how it failed."""

    def format(self, record: logging.LogRecord) -> str:
        fields = record.__dict__.get("fields", {})
        told = [
            fields[name] for name in ("method", "route", "status", "error", "message") if fields.get(name)
        ]
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            told.append(f"{type(error).__name__}: {error}")
        return " ".join([f"{record.levelname.lower()}:", *map(str, told or [record.getMessage()])])


def log_to_stderr(*, log_content: bool = False, for_person: bool = False) -> None:
    """Send what servers log to standard error: a line of JSON each, or what failed as a person reads it."""
    handler = logging.StreamHandler()
    handler.setFormatter(PlainLines() if for_person else JsonLines(log_content=log_content))
    for name in ("scrubjay", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING if for_person else logging.INFO)
