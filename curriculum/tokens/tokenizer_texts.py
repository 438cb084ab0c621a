"""Files of a tokenizer, each read exactly once, so that the loaded content is the checked content."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from curriculum.published_files import require_published
from curriculum.tokens.chat_template import ChatTemplate
from schemas import regular_files
from schemas.cures import tokenizer_file
from schemas.errors import TokenizerError

TOKENIZER_NAME = "tokenizer.json"


MAX_VALUES = 8_000_000
"""Maximum number of commas and colons in a tokenizer.json, each of which may become an object in memory.

A vocabulary of 262,144 pieces with merges has a third of this number.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerTexts:
    """Text of a tokenizer.json, and the chat template found in its folder."""

    name: str
    json: str = field(repr=False)
    chat_template: ChatTemplate | None = field(repr=False)

    @staticmethod
    def read(path: Path) -> "TokenizerTexts":
        """Read a tokenizer.json and the chat template in its folder; `path` is the file or the folder.

        The path itself may be a link. Files in its folder may be links into the folder, or into the blobs of
        the Hugging Face cache that the folder is a snapshot of.

        Raises:
            TokenizerError: for an unreadable file, a link that leads elsewhere, and too many values.
            StoreError: for a file of an artefact that differs from the published one.
        """
        is_folder = path.is_dir()
        file = path / TOKENIZER_NAME if is_folder else path
        folders = regular_files.linked_folders(file.parent)
        require_published(file)
        try:
            if is_folder:
                content = regular_files.read_inside(file, folders)
            else:
                content = regular_files.read(file, follow_links=True)
            text = content.decode()
        except (OSError, ValueError) as unreadable:
            raise TokenizerError(
                str(file),
                cause=f"it can't be read ({unreadable})",
                cure=tokenizer_file(str(path)),
            ) from None
        if (values := text.count(",") + text.count(":")) > MAX_VALUES:
            raise TokenizerError(
                str(file),
                f"{values:,} values or more",
                cause=f"a tokenizer.json may have at most {MAX_VALUES:,} values",
                cure=tokenizer_file(str(path)),
            )
        template = ChatTemplate.beside(file, folders)
        return TokenizerTexts(name=file.name, json=text, chat_template=template)

    @property
    def sha256(self) -> str:
        """Digest of the text of tokenizer.json."""
        return hashlib.sha256(self.json.encode()).hexdigest()
