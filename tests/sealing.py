"""Files that carry a digest of themselves, changed by hand and sealed again."""

import json
from pathlib import Path
from typing import Any

from curriculum.published_files import footer_of, sha256_of
from schemas.json_text import DIGEST, digest
from schemas.manifest import MANIFEST_NAME, read_manifest


def sealed(content: dict[str, Any]) -> str:
    """The text of a file that says this, with a digest of it."""
    rest = {name: value for name, value in content.items() if name != DIGEST}
    return json.dumps(rest | {DIGEST: digest(rest)}, indent=1)


def edit(file: Path, **changes: Any) -> None:
    """Change fields of a file, and seal it again."""
    file.write_text(sealed(json.loads(file.read_text()) | changes))


def artefact_around(file: Path) -> Path:
    """Return the directory of the artefact that a file lies in."""
    return next(above for above in file.parents if (above / MANIFEST_NAME).is_file())


def republish(folder: Path) -> None:
    """Let an artefact's manifest record its files as they are now."""
    file = folder / MANIFEST_NAME
    manifest = read_manifest(file)
    files = [
        {
            **record.model_dump(),
            "sha256": sha256_of(folder / record.name),
            "num_bytes": (folder / record.name).stat().st_size,
            "footer": footer_of(folder / record.name) if record.footer else None,
        }
        for record in manifest.files
    ]
    pairs: list[Any] = sorted(
        [each["name"], each["sha256"]] for each in files if each["in_content"]
    )
    edit(file, files=files, content=digest(pairs))
