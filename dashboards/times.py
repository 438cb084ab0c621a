"""How pages say a length of time."""


def duration(seconds: float) -> str:
    """A time in its two largest units.

    >>> duration(4.2), duration(52), duration(200), duration(18_720), duration(273_600)
    ('4.2 s', '52 s', '3 min 20 s', '5 h 12 min', '3 d 4 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    units: list[str] = []
    rest = round(seconds)
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        amount, rest = divmod(rest, size)
        if amount or units:
            units.append(f"{amount} {name}" if amount else "")
    return " ".join(filter(None, units[:2]))
