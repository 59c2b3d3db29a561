"""Count the places where a parameter is named by hand: constants, attributes and keywords.

Left out are where a name belongs: the registry, the swing family (its equations, its reduction, its
solver and slopes for many machines, its compact form), the readers and the paper. References to the
registry's own declarations (INERTIA and the like, or the swing family's SWING) are counted beside
them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from gridveil.grid.parameters import DECLARED

SOURCE = Path(__file__).parents[1] / "src" / "gridveil"
HOMES = (
    "grid/parameters.py",
    "dynamics/swing.py",
    "dynamics/models.py",
    "dynamics/compact.py",
    "dynamics/simulate_large.py",
    "dynamics/kron/",
    "inference/fit/direct.py",
    "readers/",
    "paper/",
)
DECLARATIONS = {"WEIGHT", "REDUCED_WEIGHT", "INERTIA", "DAMPING", "SWING", "REDUCED_SWING"}


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and spelling of each parameter that a module names itself."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value in DECLARED
        ):
            yield node.lineno, repr(node.value)
        elif isinstance(node, ast.Attribute) and node.attr in DECLARED:
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.keyword) and node.arg in DECLARED:
            yield node.value.lineno, f"{node.arg}="


def references(tree: ast.AST) -> int:
    """How often a module refers to a declaration of the registry."""
    return sum(isinstance(node, ast.Name) and node.id in DECLARATIONS for node in ast.walk(tree))


def modules() -> Iterator[tuple[str, ast.AST]]:
    """The modules that should name none, with their syntax trees."""
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith(HOMES):
            yield place, ast.parse(path.read_text(encoding="utf-8"))


def places() -> list[str]:
    """Each place where a parameter is named by hand."""
    return [
        f"{place}:{line}: {spelling}"
        for place, tree in modules()
        for line, spelling in sorted(named(tree))
    ]


def main() -> None:
    """Print the places and the totals."""
    found = places()
    referring = sum(references(tree) for _, tree in modules())
    lines = [
        *found,
        f"{len(found)} places name a parameter",
        f"{referring} refer to a declaration",
    ]
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
