"""Charts as SVG, whose text can be selected, searched and tested.

    marks.py    SVG elements, and marks inside tables: bars, lanes, bands, strips and masks
    plots.py    series over two scales, with axes, names and marks
    forest.py   forest plots of effects with their intervals

Callers pass values, names and CSS classes; the classes give the colours.
"""
