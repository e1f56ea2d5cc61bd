"""The `%explore` magic: a widget on a file, or on a variable of the notebook, in one line."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

import lowerscope
from lowerscope.errors import LowerscopeError


@magics_class
class ExploreMagics(Magics):
    """`%explore MODEL --target T`."""

    @magic_arguments()
    @argument("model", nargs="?", help="path of a .pt2 file, or a variable that holds a program or a session")
    @argument("--target", default=None, help="the backend to lower for (default: vulkan)")
    @argument("--panels", default=None, help="comma-separated panels to show, such as graph,patterns")
    @line_magic
    def explore(self, line: str) -> Any:
        """Show the widget on an exported program; without one, a widget that opens one."""
        given = parse_argstring(self.explore, line)
        assert self.shell is not None
        model = given.model and self.shell.user_ns.get(given.model, given.model.strip("\"'"))
        panels = given.panels.split(",") if given.panels else None
        try:
            if isinstance(model, lowerscope.Session) and given.target is not None:
                model.set_target(given.target)
            explorer = lowerscope.explore(model, given.target or "vulkan", panels=panels)
            if not hasattr(self.shell, "kernel"):  # a terminal shows no widget that could say what is wrong
                _ = explorer.session
            return explorer
        except LowerscopeError as error:
            raise UsageError(str(error)) from None  # shown as one line


def load_ipython_extension(ipython: Any) -> None:
    """Register the magic with an IPython shell."""
    ipython.register_magics(ExploreMagics)
