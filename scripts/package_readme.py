"""The README as a package index shows it: no link or picture that leads nowhere there."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https://)([^)]+)\)\n*")
LINK = re.compile(r"\[([^\]]+)\]\((?!https://)([^)]+)\)")


def package_readme(text: str, source: str | None, version: str) -> str:
    r"""Make relative links absolute at `source`; without one, keep their words and drop pictures.

    `source` is the address of the repository, `version` what it has a tag of.

    >>> package_readme("![a](b.png)\n[c](d.md), [e](https://f)", None, "1.0")
    'c, [e](https://f)'
    >>> package_readme("[c](d.md)", "https://git.example/g", "1.0")
    '[c](https://git.example/g/blob/v1.0/d.md)'
    """
    if source is None:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    text = PICTURE.sub(rf"![\1]({source}/raw/v{version}/\2)\n\n", text)
    return LINK.sub(rf"[\1]({source}/blob/v{version}/\2)", text)


class PackageReadme(MetadataHookInterface):
    """Give wheel and sdist that README; pyproject.toml names this hook."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` of the project's metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        made = package_readme(text, source, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": made}
