"""The shape of the code (CONTRIBUTING): sizes, nesting, and who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "scrubjay"
MODULES = sorted(PACKAGE.rglob("*.py"))
STAGES = {
    path.stem: path
    for path in MODULES
    if path.stem
    in {
        "segment",
        "encode",
        "organize",
        "plan",
        "relevance",
        "chain",
        "fuse",
        "rerank",
        "selection",
        "context",
    }
}
BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try)


def depth_of(node: ast.AST, depth: int = 0) -> int:
    return max(
        (depth_of(child, depth + isinstance(child, BLOCKS)) for child in ast.iter_child_nodes(node)),
        default=depth,
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_sizes(path: Path) -> None:
    """A module has at most 400 lines, a function at most 50, and blocks lie at most 3 deep."""
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 400
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 50, node.name
            # an `elif` is a nested `if` to the parser, so chains of them are kept short too
            assert depth_of(node) <= 3, node.name


@pytest.mark.parametrize("name", sorted(STAGES))
def test_stages_do_not_import_each_other(name: str) -> None:
    """No stage imports another: memory.py and the modules it composes the paths with put them together."""
    tree = ast.parse(STAGES[name].read_text("utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & {f"scrubjay.{other}" for other in STAGES if other != name}


def test_no_blanket_except() -> None:
    """No exception is swallowed: nothing catches all of them but to raise again."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ExceptHandler) and (
                node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"}
            ):
                assert any(isinstance(inner, ast.Raise) for inner in ast.walk(node)), f"{path}:{node.lineno}"


def test_no_conflict_marks() -> None:
    """No file holds what a merge leaves where two changes met."""
    root = PACKAGE.parents[1]
    pages = [
        path
        for pattern in (
            "*.md",
            "docs/*.md",
            "datasets/*",
            "src/**/*",
            "tests/*.py",
            "tools/*.py",
            "benchmarks/*.py",
        )
        for path in root.glob(pattern)
        if path.is_file()
    ]
    assert pages
    for path in pages:
        lines = path.read_bytes().splitlines()
        assert not [line for line in lines if line.startswith((b"<<<<<<< ", b">>>>>>> "))], path
