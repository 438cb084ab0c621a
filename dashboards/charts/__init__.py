"""The one library of pictures of pictures: SVG, whose text can be read, searched and tested.

    marks.py    elements, and marks that are a line of a list: bars, lanes, bands, strips and masks
    plots.py    series over two scales, with axes, names and marks

A page says what is plotted: values, names, and classes of its style sheet, which have the colours.
"""
