"""Errors as the widget says them: one sentence each."""

from __future__ import annotations

from lowerscope.errors import LowerscopeError


def sentence_of(error: BaseException) -> str:
    """An error as one sentence for the widget: ours as they are; others with their class and where they arose."""
    if isinstance(error, KeyboardInterrupt):
        return "The kernel was interrupted before it had answered: ask again."
    return str(error) if isinstance(error, LowerscopeError) else described(error)


def described(error: BaseException) -> str:
    """An unexpected error in one line: its class, its message, and where it arose."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_globals.get('__name__', '?')}, line {trace.tb_lineno})"
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return f"{type(error).__name__}: {said}{where}"
