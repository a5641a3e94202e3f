"""One text for one method: what `Counters` says of its methods, `help()` shows for those of other stores as well."""

import inspect

from goblin._core import Counters


def borrow_docstrings(store: type) -> None:
    """Give every public method without a docstring that of `Counters`, whose contract it keeps."""
    for name, method in vars(store).items():
        theirs = getattr(getattr(Counters, name, None), "__doc__", None)
        if name.startswith("_") or method.__doc__ or not theirs:
            continue
        text = inspect.cleandoc(theirs)
        # Its examples call it without awaiting.
        method.__doc__ = f"Awaited. {text.partition('>>>')[0]}" if store.__name__.startswith("Async") else text
