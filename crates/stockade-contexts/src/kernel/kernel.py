"""Keeps the state of an interpreter between calls; see the crate stockade-contexts.

Calls come on the standard input of this process. Messages go to its standard output, each piece in
one atomic write that begins with the token; everything else there is output of the code.
"""

import __future__

import ast
import base64
import builtins
import io
import json
import linecache
import os
import signal
import sys
import threading
import traceback
import types

HELLO = b"\x1estockade context 1\n"

# A write of at most PIPE_BUF bytes is atomic, pipe(7).
PIPE_BUF = 4096

# serde_json refuses deeper values; the host refuses longer texts.
MAX_DEPTH = 64
MAX_NAME_BYTES, MAX_VALUE_BYTES, MAX_TRACEBACK_BYTES = 1000, 32 << 10, 64 << 10
MAX_TEXT_BYTES = 4 << 20

# The WebAssembly wall: no other program can reach this interpreter's memory or its streams, and
# there are no signals from outside, no forks and no duplicates of descriptors.
IS_ALONE = sys.platform == "wasi"

main_file = sys._getframe().f_code.co_filename
_COROUTINE = 0x80
_PARTS = {}


def refuse(why):
    """Ends this process; the host reports why."""
    os.write(2, why.encode() + b"\n")
    os._exit(70)


def seal():
    """Keeps other programs from tracing this process, reading its memory or using its pipes."""
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
    except (ImportError, OSError) as error:
        refuse("a context needs the module ctypes of Python: %s" % error)
    set_dumpable = 4
    if libc.prctl(set_dumpable, 0, 0, 0, 0) != 0:
        refuse("the context cannot be protected from other programs: prctl was refused")
    return libc


def private(descriptor):
    """A duplicate that code inside does not meet by accident, and that programs do not inherit."""
    import fcntl

    for lowest in (200, 50, 20, 10):
        try:
            return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:
            # The limit for open descriptors is lower.
            continue
    refuse("the context has too few descriptors")


def read_frame(descriptor):
    """A length, big endian, and that many bytes; None at the end."""
    head = read_bytes(descriptor, 4)
    return None if head is None else read_bytes(descriptor, int.from_bytes(head, "big"))


def read_bytes(descriptor, count):
    parts = []
    while count:
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def shortened(text, most):
    """A text of at most this many bytes of UTF-8."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most:
        return encoded.decode()
    # A traceback names the exception at its end.
    part = (most - 16) // 2
    head, tail = encoded[:part], encoded[-part:]
    return head.decode("utf-8", "ignore") + " [shortened] " + tail.decode("utf-8", "ignore")


def plain(value, depth=0):
    """A value that JSON can express."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if value - value == 0 else None
    if depth < MAX_DEPTH:
        if isinstance(value, dict):
            return {str(key): plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [plain(item, depth + 1) for item in value]
        item = getattr(value, "item", None)
        if callable(item) and getattr(value, "ndim", None) == 0:
            # A number of numpy.
            return plain(item(), MAX_DEPTH)
        listed = getattr(value, "tolist", None)
        if callable(listed):
            return plain(listed(), depth + 1)
        if hasattr(value, "isoformat"):
            return str(value.isoformat())
    return str(value)


class Channel:
    """Messages to the host, on one of the output streams."""

    def __init__(self, descriptor, token):
        self.descriptor, self.token = descriptor, token
        self.process = os.getpid()
        self.lock = threading.RLock()

    def send(self, message):
        content = json.dumps(message, ensure_ascii=False, allow_nan=False)
        content = content.encode("utf-8", "replace")
        size = PIPE_BUF - len(self.token) - 5
        count = max(1, -(-len(content) // size))
        with self.lock:
            # A fork has the descriptor and is not the context.
            if os.getpid() != self.process:
                return
            for at in range(count):
                part = content[at * size : (at + 1) * size]
                if count == 1:
                    kind = b"o"
                else:
                    kind = b"f" if at == 0 else b"l" if at == count - 1 else b"m"
                self.write(self.token + kind + b"%04x" % len(part) + part)

    def write(self, piece):
        while piece:
            try:
                # A pipe takes the whole piece; a stream of WASI may take a part.
                piece = piece[os.write(self.descriptor, piece) :]
            except BlockingIOError:
                # Code inside made the pipe nonblocking.
                import select

                select.select([], [self.descriptor], [])


class Finder:
    """Changes some modules when they are imported."""

    def __init__(self, changes):
        self.changes = changes

    def find_spec(self, name, path=None, target=None):
        change = self.changes.pop(name, None)
        if change is None:
            return None
        if name == "stockade_figures":
            import importlib.util

            return importlib.util.spec_from_loader(name, Figures(change))
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and hasattr(spec.loader, "exec_module"):
                execute = spec.loader.exec_module

                def changed(module):
                    execute(module)
                    change(module)

                spec.loader.exec_module = changed
                return spec
        # It is not installed now; it may be later.
        self.changes[name] = change
        return None


class Figures:
    """Loads the backend that shows figures of matplotlib as results."""

    def __init__(self, fill):
        self.fill = fill

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.fill(module)


class Context:
    def __init__(self, output, error, libc):
        self.output, self.error, self.libc = output, error, libc
        self.process = os.getpid()
        self.call, self.count, self.flags = 0, 0, 0
        self.is_running = False
        # A call has come, and perhaps an interrupt of it, before its code runs.
        self.is_called = self.is_interrupted = False
        self.loop = None
        self.parts = {}
        # Figures that were the value of an expression are not shown again at the end.
        self.shown = []
        self.main = types.ModuleType("__main__")
        self.main.__builtins__ = builtins
        sys.modules["__main__"] = self.main
        builtins.display = self.display
        sys.meta_path.insert(
            0,
            Finder(
                {
                    "matplotlib": self.choose_backend,
                    "stockade_figures": self.fill_backend,
                    "IPython.core.display_functions": self.replace_display,
                }
            ),
        )

    def part(self, name):
        """A part of this script, compiled when it is first needed."""
        found = self.parts.get(name)
        if found is None:
            found = types.ModuleType("stockade_" + name)
            found.context, found.plain, found.shortened = self, plain, shortened
            found.MAX_TEXT_BYTES = MAX_TEXT_BYTES
            exec(compile(_PARTS[name], main_file, "exec", dont_inherit=True), found.__dict__)
            self.parts[name] = found
        return found

    def choose_backend(self, matplotlib):
        if "MPLBACKEND" not in os.environ:
            matplotlib.rcParams["backend"] = "module://stockade_figures"

    def fill_backend(self, module):
        module.__dict__.update(self.part("figures").__dict__)
        module.__name__ = "stockade_figures"

    def replace_display(self, module):
        module.display = self.display

    def display(self, *values, raw=False, **_options):
        """Shows values in the form that suits each best."""
        for value in values:
            self.show(plain(dict(value)) if raw else self.part("display").bundle(value), False)

    def show(self, data, is_main):
        message = {"type": "result", "call": self.call, "main": is_main, "data": data}
        self.flush()
        self.output.send(message)

    def interrupt(self, _signal, _frame):
        if self.is_running:
            raise KeyboardInterrupt
        # Between two calls it has come too late.
        self.is_interrupted = self.is_called

    def flush(self):
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                stream.flush()
            except Exception:
                # The code has closed or replaced it.
                pass
        if self.libc is not None:
            self.libc.fflush(None)

    def run(self, call):
        """Executes one call and sends how it ended."""
        self.call = call["call"]
        self.count += 1
        del self.shown[:]
        before = {name: os.environ.get(name) for name in call["environment"]}
        os.environ.update(call["environment"])
        # The code of an earlier call may have replaced it.
        signal.signal(signal.SIGINT, self.interrupt)
        raised = None
        try:
            raised = self.attempt(call["code"])
        except KeyboardInterrupt as late:
            raised = late
        self.is_running = self.is_called = self.is_interrupted = False
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if os.getpid() != self.process:
            self.leave_fork(raised)
        if raised is not None:
            self.output.send(dict(self.describe(raised), type="error", call=self.call))
        self.flush()
        done = {"type": "done", "call": self.call, "count": self.count}
        self.error.send(done)
        self.output.send(done)

    def attempt(self, code):
        raised = None
        try:
            self.is_running = True
            if self.is_interrupted:
                raise KeyboardInterrupt
            self.execute(code)
        except BaseException as error:
            raised = error
        try:
            self.show_figures()
        except BaseException as error:
            raised = raised or error
        self.is_running = False
        return raised

    def execute(self, code):
        name = "<cell %d>" % self.count
        # Without a time of change, linecache does not look for a file.
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        flags = self.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        self.evaluate(compile(tree, name, "exec", flags, True))
        if last is None:
            return
        value = self.evaluate(compile(last, name, "eval", flags | self.flags, True))
        if value is None:
            return
        self.main.__dict__["_"] = value
        self.show(self.part("display").bundle(value, self.shown), True)

    def evaluate(self, compiled):
        for feature in __future__.all_feature_names:
            self.flags |= compiled.co_flags & getattr(__future__, feature).compiler_flag
        value = eval(compiled, self.main.__dict__)
        if not compiled.co_flags & _COROUTINE:
            return value
        if self.loop is None or self.loop.is_closed():
            import asyncio

            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(value)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                # An interrupt ended the loop and not the task.
                task.cancel()
                self.loop.run_until_complete(wait_for_end(task))
            raise

    def show_figures(self):
        """Shows the figures that pyplot has open, and closes them, as notebooks do."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is None or not helpers.Gcf.figs:
            return
        try:
            for manager in helpers.Gcf.get_all_fig_managers():
                figure = manager.canvas.figure
                if not any(figure is shown for shown in self.shown):
                    self.display(figure)
        finally:
            helpers.Gcf.destroy_all()

    def describe(self, raised):
        """The exception as the host receives it, without the frames of this script."""
        try:
            value = str(raised)
        except Exception:
            value = "<an exception whose text cannot be made>"
        try:
            if IS_ALONE:
                # Why an import cannot succeed behind that wall.
                sys.modules["_stockade_library"].explain(raised)
            found = traceback.TracebackException(type(raised), raised, raised.__traceback__)
            # An interrupt is raised in this script.
            found.stack[:] = [it for it in found.stack if it.filename != main_file]
            text = "".join(found.format())
        except Exception:
            text = "%s: %s" % (type(raised).__name__, value)
        return {
            "name": shortened(type(raised).__name__, MAX_NAME_BYTES),
            "value": shortened(value, MAX_VALUE_BYTES),
            "traceback": shortened(text, MAX_TRACEBACK_BYTES),
        }

    def leave_fork(self, raised):
        """Ends a fork of this process that has reached the end of a call."""
        if raised is not None and not isinstance(raised, SystemExit):
            os.write(2, self.describe(raised)["traceback"].encode())
        self.flush()
        os._exit(0 if raised is None else 1)


async def wait_for_end(task):
    try:
        await task
    except BaseException:
        pass


def descriptors():
    """Where calls come from, and where output and errors go."""
    if IS_ALONE:
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        return 0, 1, 2
    found = private(0), private(1), private(2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return found


def main():
    libc = None if IS_ALONE else seal()
    calls, output, error = descriptors()
    os.write(output, HELLO)
    token = read_frame(calls)
    if token is None:
        os._exit(0)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.argv = [""]
    # The directory of this script has nothing for the code; its own directory has.
    sys.path[:] = [""] + [
        path for path in sys.path if path not in ("", os.path.dirname(main_file))
    ]
    context = Context(Channel(output, token), Channel(error, token), libc)
    signal.signal(signal.SIGINT, context.interrupt)
    while True:
        try:
            frame = read_frame(calls)
            if frame is None:
                # The host has left.
                os._exit(0)
            context.is_called = True
            context.run(json.loads(frame))
            del frame
        except KeyboardInterrupt:
            continue
