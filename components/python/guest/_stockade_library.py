"""Python's library in memory.

The files of the library exist only while the component is built. What is imported here is ready at
once; every other module is kept as compressed code and loaded at its first import.
"""

import importlib.abc
import importlib.machinery
import marshal
import os
import sys
import zlib

# Imported by most programs, so that they cost nothing at run time.
READY = """
    abc argparse asyncio base64 bisect calendar cmath collections collections.abc colorsys contextlib copy
    csv dataclasses datetime decimal difflib enum errno fnmatch fractions functools gc glob hashlib
    heapq hmac html html.parser inspect io itertools json keyword linecache locale logging math
    numbers operator os os.path pathlib pickle pprint queue random re reprlib secrets shutil signal
    socket stat statistics string struct tempfile textwrap threading time tokenize traceback types
    typing unicodedata unittest urllib.error urllib.parse uuid warnings weakref zlib zoneinfo
""".split()

# Tests, windows and installers, which need what does not exist inside.
LEFT_OUT = {
    "__phello__", "__pycache__", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "site-packages",
    "test", "tkinter", "turtle.py", "turtledemo", "venv",
}

# Where packages with native code run.
OTHERS = "use the native wall or docker for them"

_kept = {}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules in memory, after those of the directories of sys.path."""

    def find_spec(self, name, path=None, target=None):
        found = _kept.get(name)
        if found is None:
            return None
        is_package, _ = found
        spec = importlib.machinery.ModuleSpec(name, self, is_package=is_package)
        spec.origin = _origin(name, is_package)
        spec.has_location = True
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(self.get_code(module.__spec__.name), module.__dict__)

    def get_code(self, name):
        _, code = _kept[name]
        return marshal.loads(zlib.decompress(code))

    def is_package(self, name):
        return _kept[name][0]


def _origin(name, is_package):
    path = "/python/lib/" + name.replace(".", "/")
    return path + "/__init__.py" if is_package else path + ".py"


def _fail(error):
    raise error


def keep(directory):
    """Keeps all modules below a directory."""
    for place, directories, files in os.walk(directory, onerror=_fail):
        directories[:] = sorted(set(directories) - LEFT_OUT)
        for file in sorted(files):
            if not file.endswith(".py") or file in LEFT_OUT:
                continue
            below = os.path.relpath(os.path.join(place, file), directory)[:-3].split("/")
            is_package = below[-1] == "__init__"
            name = ".".join(below[:-1] if is_package else below)
            with open(os.path.join(place, file), "rb") as source:
                text = source.read()
            code = compile(text, _origin(name, is_package), "exec", dont_inherit=True)
            _kept[name] = is_package, zlib.compress(marshal.dumps(code), 9)


def forget_the_build():
    """Removes every trace of the directories of the build."""
    for name in READY:
        importlib.import_module(name)
    sys.meta_path.append(_Finder())
    sys.path[:] = []
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]


def explain(error):
    """Adds a note to an error that an import caused which cannot succeed behind this wall."""
    seen, cause = set(), error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, ImportError) and cause.name:
            why = _why_missing(cause)
            if why:
                error.add_note(why)
                return
        cause = cause.__cause__ or cause.__context__


def _why_missing(error):
    """Why an import cannot succeed here; None if it may be a mistake of the program."""
    name = error.name
    # `from package import name` reports both parts.
    for wanted in (name + "." + (error.name_from or ""), name):
        file = _native_file(wanted)
        if file is not None:
            return "{} is native code ({}), which cannot run behind this wall: {}".format(
                wanted, file, OTHERS
            )
    top = name.partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or top in sys.modules:
        return None
    if top in sys.stdlib_module_names:
        return "the interpreter behind this wall has no {}: it needs an operating system".format(
            name
        )
    return (
        "no directory of sys.path has {}. Packages in pure Python run from a mounted directory; "
        "packages with native code, such as numpy, cannot run behind this wall: {}"
    ).format(name, OTHERS)


def _native_file(name):
    """The file of native code that a module would be loaded from elsewhere."""
    *above, last = name.split(".")
    for place in sys.path:
        directory = os.path.join(place, *above)
        try:
            files = os.listdir(directory or ".")
        except OSError:
            continue
        for file in files:
            if last and file.startswith(last + ".") and file.endswith((".so", ".pyd")):
                return os.path.join(directory, file)
    return None
