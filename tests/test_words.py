"""Words that we have replaced do not come back (records keep theirs), and errors chain no clauses with semicolons."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# baseline, chance level, started, from scratch, depends on, scheduler, bit-identical, session
REPLACED = ("rivals?", "guessers?", "begun", "anew", "hangs? on", "crew", "the very bits", "sittings?")
STORED = {  # by file: words that it may hold, because records hold them
    "srnn/lab/records/record.py": {"guesser"},
    "tests/test_records.py": {"guesser"},
    "tests/test_report.py": {"guesser"},
}


def tracked_files() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        name for name in done.stdout.split("\0") if name and not name.startswith("results/") and name != "tests/test_words.py"
    ]


def replaced_words(text: str) -> list[str]:
    """Returns the replaced words in a text, in lower case, also in names such as test_a_crew."""
    return [match[0].lower() for match in re.finditer(rf"\b(?:{'|'.join(REPLACED)})\b", text.replace("_", " "), re.I)]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone: git cannot list the files")
def test_replaced_words_are_in_no_tracked_file() -> None:
    found = {}
    for name in tracked_files():
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        if words := set(replaced_words(text)) - STORED.get(name, set()):
            found[name] = words
    assert not found


@pytest.mark.parametrize("text", ["Two rivals", "the guesser's line", "was begun", "The very bits", "a_Crew", "hangs on x"])
def test_a_replaced_word_is_found(text: str) -> None:
    assert replaced_words(text)


def test_other_words_are_not() -> None:
    assert not replaced_words("an arrival, beginners, a new run, screw, visiting")


def error_texts(source: str) -> list[str]:
    """Returns the texts in a Python source that are raised, or passed to an error."""
    found = []
    for node in ast.walk(ast.parse(source)):
        name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Raise) or name.endswith(("Error", "Interrupted", "SystemExit")):
            found += [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return found


def test_error_messages_have_no_semicolons() -> None:
    texts = [text for path in (ROOT / "srnn").rglob("*.py") for text in error_texts(path.read_text(encoding="utf-8"))]
    assert len(texts) > 400
    assert not [text for text in texts if ";" in text]


def test_error_messages_of_the_compiled_libraries_have_no_semicolons() -> None:
    sources = [path for end in ("cpp", "h", "inl") for path in (ROOT / "srnn").rglob(f"*.{end}")]
    texts = [text for path in sources for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', path.read_text(encoding="utf-8"))]
    assert len(texts) > 100
    assert not [text for text in texts if "; " in text]


def test_a_semicolon_in_an_error_is_found() -> None:
    assert error_texts('raise SettingError(f"a is {x}; leave it out")')[-1] == "; leave it out"
