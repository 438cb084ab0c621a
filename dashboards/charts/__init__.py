"""Charts as SVG, so that their text can be selected, searched and tested.

    marks.py    SVG elements, and marks inside tables: bars, lanes, bands, strips and masks
    plots.py    series over two scales, with axes, names and marks
    smoothing.py  exponential moving averages of series
    forest.py   forest plots of effects with their intervals

Callers pass values, names and CSS classes. The style sheet gives each class its colour.
"""
