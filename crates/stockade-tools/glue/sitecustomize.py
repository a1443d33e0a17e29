"""Gives Python programs the tools of this sandbox without an import.

Python runs this file at every start, in any version, so it is short and uses syntax that every
version has. A module of the same name that this one shadows runs after it.
"""

import sys


def _offer_tools():
    import builtins
    import _stockade_listing

    for name, value in _stockade_listing._offered.items():
        if not hasattr(builtins, name):
            setattr(builtins, name, value)


def _run_hidden():
    own = sys.modules.pop(__name__)
    place = __file__.rpartition("/")[0]
    index = sys.path.index(place)
    del sys.path[index]
    try:
        import sitecustomize
    except ImportError as error:
        # Raised again, unless it is only that this module is missing.
        if getattr(error, "name", __name__) != __name__:
            raise
    finally:
        sys.path.insert(index, place)
        sys.modules.setdefault(__name__, own)


# Runs once, even if Python finds this file again in another way.
if "_stockade_sitecustomize" not in sys.modules:
    sys.modules["_stockade_sitecustomize"] = sys.modules[__name__]
    if sys.version_info >= (3, 8):
        _offer_tools()
    if __file__.rpartition("/")[0] in sys.path:
        _run_hidden()
