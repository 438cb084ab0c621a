"""Colours: text is legible on every ground, in light and in dark."""

import itertools

import pytest

from dashboards.palette import GROUND

TEXT = ("ink", "soft", "accent", "good", "warn", "bad", "more")
GROUNDS = ("page", "card", "ground", "hover", "chosen")
LEAST = 4.5
"""Contrast of small text: WCAG 2.2, 1.4.3."""


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast_ratio(one: str, other: str) -> float:
    """Contrast of two colours, from 1 to 21."""
    dark, light = sorted(map(_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def test_black_on_white_has_the_largest_contrast() -> None:
    assert contrast_ratio("#000000", "#ffffff") == pytest.approx(21)
    assert contrast_ratio("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_on_every_ground(scheme: str) -> None:
    short = {
        (text, ground): round(
            contrast_ratio(getattr(GROUND[text], scheme), getattr(GROUND[ground], scheme)), 2
        )
        for text, ground in itertools.product(TEXT, GROUNDS)
    }
    assert {pair: found for pair, found in short.items() if found < LEAST} == {}
