import pytest

from schemas.corpus import USUAL_LICENCES, LicencesSpec
from schemas.spdx import UNRECOGNISED

GPL = "GPL-2.0-only"
EXCEPTION = f"{GPL} WITH Classpath-exception-2.0"


@pytest.mark.parametrize("licence", ["MIT", GPL, UNRECOGNISED, None, "LicenseRef-ours"])
def test_the_usual_policy_takes_all(licence):
    assert not USUAL_LICENCES.refuses(licence)
    assert USUAL_LICENCES.not_usual() == {}


@pytest.mark.parametrize(
    ("licences", "licence", "is_refused"),
    [
        ({"purpose": "release"}, None, True),
        ({"purpose": "release"}, UNRECOGNISED, True),
        ({"purpose": "release"}, GPL, False),
        ({"purpose": "release"}, f"MIT OR {UNRECOGNISED}", False),
        ({"purpose": "release"}, f"MIT AND {UNRECOGNISED}", True),
        ({"allow": ("MIT",)}, None, False),
        ({"allow": ("MIT",)}, "Zlib", True),
        ({"allow": ("MIT", "Zlib")}, "MIT AND Zlib", False),
        ({"allow": ("MIT",)}, "MIT AND Zlib", True),
        ({"allow": ("MIT",)}, "MIT OR Zlib", False),
        ({"allow": ("MIT",)}, f"(MIT OR {GPL}) AND (Zlib OR MIT)", False),
        ({"allow": ("LicenseRef-*",)}, "LicenseRef-ours", False),
        ({"refuse": (GPL,)}, EXCEPTION, True),
        ({"refuse": (GPL,), "allow": (EXCEPTION,)}, EXCEPTION, False),
        ({"refuse": (EXCEPTION,)}, GPL, False),
        ({"refuse": ("*GPL-*",)}, "LGPL-2.1-or-later", True),
        ({"refuse": ("GPL-*",)}, "LGPL-2.1-or-later", False),
        ({"refuse": ("MIT",), "allow": ("MIT",)}, "MIT", True),
        ({"allow": ("Apache-2.0",)}, "Apache-2.0 WITH LLVM-exception", False),
    ],
)
def test_a_policy_judges_expressions_by_their_choices(licences, licence, is_refused):
    assert LicencesSpec(**licences).refuses(licence) is is_refused
