"""How values are shown: the part of the context that makes MIME data of them."""

import sys

METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_pdf_", "application/pdf"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
)

# A table with more cells is shown without its data.
MAX_CELLS = 1000000


def bundle(value, shown=None):
    """The MIME data of a value. Adds a figure to `shown`."""
    data = {}
    if not isinstance(value, type):
        # Of the class: an object may pretend to have every attribute.
        of_class = type(value)
        if hasattr(of_class, "_repr_mimebundle_"):
            data.update(without_metadata(bundle_of(value._repr_mimebundle_)) or {})
        for method, mime in METHODS:
            if mime not in data and hasattr(of_class, method):
                found = without_metadata(attempt(getattr(value, method)))
                if found is not None:
                    data[mime] = found
        if is_of(value, "matplotlib.figure", "Figure"):
            if shown is not None:
                shown.append(value)
            data.update(context.part("figures").of_figure(value))
        if is_of(value, "pandas", "DataFrame"):
            data.update(of_table(value))
    if "text/plain" not in data:
        data["text/plain"] = text_of(value)
    return {str(mime): plain(found) for mime, found in data.items()}


def bundle_of(method):
    """What `_repr_mimebundle_` returns, called as IPython calls it if it takes the arguments."""
    import inspect

    try:
        inspect.signature(method).bind(include=None, exclude=None)
    except TypeError:
        return attempt(method)
    except ValueError:
        # A method of an extension may not tell its parameters.
        pass
    return attempt(method, include=None, exclude=None)


def attempt(method, **options):
    """What a method of the value returns; nothing if it fails."""
    try:
        return method(**options)
    except Exception:
        return None


def without_metadata(found):
    """Methods may return their data together with metadata."""
    return found[0] if isinstance(found, tuple) and len(found) == 2 else found


def text_of(value):
    try:
        text = repr(value)
    except Exception as error:
        text = "<%s whose repr failed: %s>" % (type(value).__name__, type(error).__name__)
    return shortened(text, MAX_TEXT_BYTES)


def is_of(value, module, name):
    """Whether a value is of a class of a module, without importing it."""
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(value, found)


def of_table(table):
    """The columns of a table by name, each a list."""
    if table.size > MAX_CELLS:
        return {}
    try:
        columns = [str(column) for column in table.columns]
        values = [table.iloc[:, at].tolist() for at in range(len(columns))]
        return {"e2b/data": {name: cells(column) for name, column in zip(columns, values)}}
    except Exception:
        return {}


def cells(column):
    """A missing value has no equal, not even itself."""
    return [None if is_missing(value) else value for value in column]


def is_missing(value):
    try:
        return bool(value != value) or type(value).__name__ in ("NAType", "NaTType")
    except Exception:
        return type(value).__name__ in ("NAType", "NaTType")
