"""The code in the documentation runs, its links lead somewhere, and the README is short with an early example."""

import re
from pathlib import Path
from typing import Any

import pytest

import srnn
from srnn.lab.cli import info

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
ROOT = README.parent
WRITTEN = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]  # and docs/, but for what is generated
WRITTEN += [path for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "verdicts.md"]
PAGES = (README, *(ROOT / "docs" / name for name in ("layer.md", "migrate.md", "export.md")))


def blocks(path: Path) -> list[tuple[int, str]]:
    """The Python code of a page, each block with the line it starts in."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)
    return [(text.count("\n", 0, block.start(1)) + 1, block[1]) for block in found]


BLOCKS = blocks(README)
EVERY = [pytest.param(path, *block, id=f"{path.name} line {block[0]}") for path in PAGES for block in blocks(path)]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*torch.jit:DeprecationWarning")  # torch's exporter on itself
@pytest.mark.parametrize(("path", "line", "code"), EVERY)
def test_block_runs_by_itself(path: Path, line: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a block may write files
    names: dict[str, Any] = {}
    # Blank lines in front make a traceback name the page's own line.
    exec(compile("\n" * (line - 1) + code, path, "exec"), names)
    assert names.keys() & set(srnn.__all__), "an example that uses nothing of the package"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_python_block_was_found(path: Path) -> None:
    assert len(blocks(path)) == path.read_text(encoding="utf-8").count("```python") >= 1
    assert sum(param.values[0] == path for param in EVERY) == len(blocks(path))


@pytest.mark.parametrize(
    "path", [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_links_to_files_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    missing = [link for link in links if not (path.parent / link).exists()]
    assert not missing


def test_readme_is_short() -> None:
    assert len(TEXT.splitlines()) < 135


def prose(text: str) -> list[str]:
    """Returns the lines of a Markdown text without code, tables, pictures and generated blocks."""
    text = re.sub(r"^<!-- (\w+):begin -->$.*?^<!-- \1:end -->$|^```.*?^```$", "", text, flags=re.M | re.S)
    return [line for line in text.splitlines() if not line.startswith(("|", "    ", "!["))]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_prose_wraps_at_100_columns(path: Path) -> None:
    lines = prose(path.read_text(encoding="utf-8"))
    assert len(lines) > 5
    assert not [line for line in lines if len(line) > 100]


def test_first_example_ends_before_line_40() -> None:
    line, code = BLOCKS[0]
    assert line + code.count("\n") < 40


def test_the_networks_page_has_the_counts_of_every_network() -> None:
    lines = (README.parent / "docs" / "networks.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
    written = {row[0]: (row[3], row[4]) for row in cells if len(row) == 6}
    found = info.examine(None, "adding", 128)["counts"]
    default = {row["network"]: row for row in found if row["variant"] in ("", "f_r 8") or row["variant"].endswith("blocks")}
    assert written == {name: (f"{row['parameters']:,}", f"{row['free']:,}") for name, row in default.items()}
    bare = {
        row["network"]: f"one bare layer has {row['parameters']:,}" for row in found if row["variant"].startswith("one bare")
    }
    assert {row[0] for row in cells if row[0] in bare and bare[row[0]] in row[-1]} == bare.keys()


def test_tree_names_files_that_exist() -> None:
    tree = re.search(r"^```\nsrnn/.*?\n(.*?)^```$", (README.parent / "CONTRIBUTING.md").read_text(), re.M | re.S)
    assert tree is not None
    for indent, folder in (("  ", "srnn"), ("    ", "srnn/lab")):
        named = re.findall(rf"^{indent}(\w+(?:/|\.py))", tree[1], re.M)
        there = {f"{path.name}/" if path.is_dir() else path.name for path in (README.parent / folder).iterdir()}
        assert set(named) == {name for name in there if name.endswith(("/", ".py")) and not name.startswith("__")}


def test_tree_is_in_the_order_of_imports() -> None:
    """CONTRIBUTING says that a package of the laboratory imports only from those above it."""
    named = re.findall(r"^    (\w+)(?:/|\.py) ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M)
    layers = re.findall(r'^    "(srnn\.lab\..*)",$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    ranks = {name: rank for rank, layer in enumerate(layers) for name in re.findall(r"srnn\.lab\.(\w+)", layer)}
    assert set(named) == set(ranks)
    assert named == sorted(named, key=lambda name: -ranks[name])
