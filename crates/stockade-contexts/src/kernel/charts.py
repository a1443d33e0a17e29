"""The values in a figure of matplotlib: type, title, axes and elements of each chart."""

from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Wedge

SCALES = ("linear", "log", "symlog", "logit", "function", "functionlog", "asinh")


def of_figure(figure):
    """One chart, or a superchart of several; None without any."""
    charts = [of_axes(axes) for axes in figure.axes if axes.get_visible() and axes.has_data()]
    if not charts:
        return None
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if figure._suptitle else None
    return {"type": "superchart", "title": title, "elements": charts}


def of_axes(axes):
    bars = [it for it in axes.containers if isinstance(it, BarContainer)]
    wedges = [it for it in axes.patches if isinstance(it, Wedge)]
    scattered = [it for it in axes.collections if isinstance(it, PathCollection)]
    boxes = boxes_of(axes)
    title = axes.get_title() or None
    if wedges:
        elements = [slice_of(wedge) for wedge in wedges]
        return {"type": "pie", "title": title, "elements": elements}
    chart = {"type": "unknown", "title": title, "elements": []}
    chart.update(label("x", axes.get_xlabel()))
    chart.update(label("y", axes.get_ylabel()))
    if bars:
        elements = [bar for group in bars for bar in bars_of(axes, group)]
        return dict(chart, type="bar", elements=elements)
    if boxes:
        return dict(chart, type="box_and_whisker", elements=boxes)
    if scattered:
        kind, series = "scatter", [scatter_of(axes, it) for it in scattered]
    elif axes.lines:
        kind, series = "line", [line_of(axes, it) for it in axes.lines]
    else:
        return chart
    return dict(chart, type=kind, elements=series, **ticks("x", axes.xaxis), **ticks("y", axes.yaxis))


def label(name, text):
    """A label with its unit, which is in round or square brackets at its end."""
    unit = None
    for opening, closing in ("()", "[]"):
        if text.endswith(closing) and opening in text:
            unit = text[text.rindex(opening) + 1 : -1]
    return {name + "_label": text or None, name + "_unit": unit}


def ticks(name, axis):
    return {
        name + "_ticks": [value(axis, it) for it in axis.get_ticklocs()],
        name + "_tick_labels": [it.get_text() for it in axis.get_ticklabels()],
        name + "_scale": scale(axis),
    }


def is_dated(axis):
    return type(axis.get_converter() if hasattr(axis, "get_converter") else axis.converter).__name__ in (
        "DateConverter",
        "ConciseDateConverter",
        "_SwitchableDateConverter",
        "DatetimeConverter",
        "PeriodConverter",
    )


def categories(axis):
    """The names of the places of an axis of categories."""
    mapping = getattr(axis.units, "_mapping", None)
    return {place: name for name, place in mapping.items()} if mapping else {}


def scale(axis):
    if is_dated(axis):
        return "datetime"
    if categories(axis):
        return "categorical"
    found = axis.get_scale()
    return found if found in SCALES else "unknown"


def value(axis, number):
    """A value as the code wrote it: a time, a category or a number."""
    if isinstance(number, str) or hasattr(number, "isoformat"):
        return number
    if is_dated(axis):
        from matplotlib.dates import num2date

        return num2date(number).isoformat()
    return categories(axis).get(number, number)


def line_of(axes, line):
    points = zip(line.get_xdata(orig=False), line.get_ydata(orig=False))
    return {"label": line.get_label(), "points": points_of(axes, points)}


def scatter_of(axes, collection):
    return {"label": collection.get_label(), "points": points_of(axes, collection.get_offsets())}


def points_of(axes, points):
    return [(value(axes.xaxis, x), value(axes.yaxis, y)) for x, y in points]


def bars_of(axes, group):
    is_horizontal = getattr(group, "orientation", "vertical") == "horizontal"
    axis = axes.yaxis if is_horizontal else axes.xaxis
    named = dict(zip(axis.get_ticklocs(), [it.get_text() for it in axis.get_ticklabels()]))
    for bar in group.patches:
        at = bar.get_y() + bar.get_height() / 2 if is_horizontal else bar.get_x() + bar.get_width() / 2
        found = categories(axis).get(at) or named.get(at) or value(axis, at)
        size = bar.get_width() if is_horizontal else bar.get_height()
        yield {"label": str(found), "group": group.get_label(), "value": size}


def slice_of(wedge):
    angle = abs(wedge.theta2 - wedge.theta1)
    return {"label": wedge.get_label(), "angle": angle, "radius": wedge.r}


def boxes_of(axes):
    """The boxes of a box plot: the lines of each follow its box, see Axes.bxp."""
    patches = [it for it in axes.patches if isinstance(it, PathPatch)]
    rest, boxes = list(axes.lines), []
    names = [it.get_text() for it in axes.get_xticklabels()]
    frames = patches or [it for it in rest if is_box(it)]
    per_box = (len(rest) // len(frames)) if frames else 0
    if per_box < 5 or len(rest) % len(frames):
        return []
    for at, frame in enumerate(frames):
        lines = rest[at * per_box : (at + 1) * per_box]
        lines = [it for it in lines if it is not frame]
        edges = frame.get_path().vertices[:, 1] if patches else frame.get_ydata()
        caps, median, outliers = lines[2:4], lines[4], lines[5:]
        ends = sorted(float(cap.get_ydata()[0]) for cap in caps)
        boxes.append(
            {
                "label": names[at] if at < len(names) else str(at + 1),
                "min": ends[0],
                "first_quartile": float(min(edges[:4])),
                "median": float(median.get_ydata()[0]),
                "third_quartile": float(max(edges[:4])),
                "max": ends[-1],
                "outliers": [float(y) for it in outliers for y in it.get_ydata()],
            }
        )
    return boxes


def is_box(line):
    """Whether a line is a closed rectangle."""
    x, y = list(line.get_xdata()), list(line.get_ydata())
    return (
        isinstance(line, Line2D)
        and len(x) == 5
        and (x[0], y[0]) == (x[4], y[4])
        and len(set(x)) == len(set(y)) == 2
    )
