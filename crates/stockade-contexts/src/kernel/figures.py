"""Figures of matplotlib as results: a backend for pyplot, and the MIME data of a figure."""

import io

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class FigureManager(FigureManagerBase):
    def show(self):
        context.display(self.canvas.figure)
        Gcf.destroy(self)


class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager


def new_figure_manager(num, *args, FigureClass=Figure, **kwargs):
    return new_figure_manager_given_figure(num, FigureClass(*args, **kwargs))


def new_figure_manager_given_figure(num, figure):
    return FigureManager(FigureCanvas(figure), num)


def show(*_args, **_kwargs):
    """Shows the open figures and closes them."""
    context.show_figures()


def of_figure(figure):
    """A figure as a picture and, if its kind is known, as the values in it."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", bbox_inches="tight")
    data = {"image/png": picture.getvalue()}
    try:
        chart = context.part("charts").of_figure(figure)
    except Exception:
        # A chart of a kind that this script does not know is a picture.
        chart = None
    if chart is not None:
        data["e2b/chart"] = chart
    return data
