"""One text for one method: what `Counters` says of its methods, `help()` shows for those of other stores as well."""

import inspect
import re

from goblin._core import Counters


def borrow_docstrings(store: type) -> None:
    """Give every public method without a docstring that of `Counters`, whose contract it keeps."""
    for name, method in vars(store).items():
        theirs = getattr(getattr(Counters, name, None), "__doc__", None)
        if name.startswith("_") or method.__doc__ or not theirs:
            continue
        # The signature that Cython puts in front is the other method's.
        text = re.sub(r"\A\w+\(.*\)( -> .*)?\n--\n+", "", inspect.cleandoc(theirs))
        method.__doc__ = text if not inspect.iscoroutinefunction(method) else "Awaited. " + text.partition("\n>>>")[0]
