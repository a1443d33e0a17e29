"""Runs one program per instance. The interpreter below is the state in which every program starts."""

import builtins
import gc
import linecache
import os
import random
import sys
import traceback
import types

import _stockade_host
import _stockade_library
import _stockade_loop
import wit_world
from wit_world.exports import runner

# Where the broker's files are, if the sandbox has tools.
TOOLS = "/run/stockade/python"


class Runner(wit_world.exports.Runner):
    def execute(self, program):
        try:
            outcome = _execute(program)
        finally:
            _flush()
        return outcome


def _execute(program):
    # The snapshot has one state for every instance.
    random.seed()
    os.environ.update((variable.name, variable.value) for variable in program.environment)
    if program.working_directory:
        os.chdir(program.working_directory)
    sys.argv[:] = [program.name, *program.arguments]
    _offer("HTTPDenied", "HTTPError", "http_get", "http_request")
    try:
        if program.tools:
            sys.path.insert(0, TOOLS)
            import sitecustomize
        sys.path.insert(0, "")
        module = _main(program)
        _remember(program)
        exec(compile(program.code, program.name, "exec", dont_inherit=True), module.__dict__)
        _run_exit_functions()
    except SystemExit as end:
        _run_exit_functions()
        return runner.Outcome_Exited(_exit_code(end))
    except BaseException as error:
        _report(error)
        _run_exit_functions()
        kind, message = type(error).__qualname__, _text_of(error)
        return runner.Outcome_Raised(runner.Uncaught(kind, message))
    return runner.Outcome_Finished()


def _offer(*names):
    for name in names:
        setattr(builtins, name, getattr(_stockade_host, name))


def _main(program):
    module = types.ModuleType("__main__")
    module.__file__ = program.name
    module.__builtins__ = builtins
    module.__annotations__ = {}
    sys.modules["__main__"] = module
    return module


def _remember(program):
    """Gives tracebacks and inspect the lines of the code."""
    text = program.code.decode("utf-8", "replace")
    lines = text.splitlines(keepends=True)
    linecache.cache[program.name] = len(program.code), None, lines, program.name


def _report(error):
    # The first entries are the functions of this file.
    place = error.__traceback__
    while place is not None and place.tb_frame.f_globals is globals():
        place = place.tb_next
    try:
        _flush()
        _stockade_library.explain(error)
        if sys.excepthook is not sys.__excepthook__:
            return sys.excepthook(type(error), error.with_traceback(place), place)
        traceback.print_exception(type(error), error.with_traceback(place), place)
    except BaseException:
        # An exception that cannot be shown still ends the program.
        pass


def _text_of(error):
    try:
        return str(error)[:10_000]
    except BaseException:
        return ""


def _exit_code(end):
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    print(end.code, file=sys.stderr)
    return 1


def _run_exit_functions():
    import atexit

    atexit._run_exitfuncs()


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            # The program closed or replaced it, or its reader is gone.
            pass


def _streams():
    """Streams that are written at each line end, so that output is seen while a program runs.

    Those of the build have no buffer, and lose what one write does not take.
    """
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = open(
        1, "w", buffering=1 << 16, encoding="utf-8", closefd=False
    )
    sys.stderr = sys.__stderr__ = open(
        2, "w", buffering=1 << 13, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)


def _identity():
    """Names a user where there is none, for programs that ask."""
    for name in ("getuid", "geteuid", "getgid", "getegid"):
        if not hasattr(os, name):
            setattr(os, name, lambda: 1000)


_streams()
_identity()
_stockade_loop.install()
_stockade_library.keep(os.path.dirname(linecache.__file__))
_stockade_library.forget_the_build()
# Later collections leave the snapshot alone: touching an object copies its page.
gc.collect()
gc.freeze()
