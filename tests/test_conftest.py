"""What $SRNN_REQUIRE asks for is there, or the tests do not begin."""

import conftest
import pytest

from srnn.kernels import native


@pytest.mark.parametrize("wish", ["nativ", "ray,nativ", "ray, native"])
def test_a_misspelt_requirement_lists_the_known_ones(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRNN_REQUIRE", wish)
    names = "native, triton, ray, mnist, compilers, browser"
    with pytest.raises(pytest.UsageError, match=f"nothing is called so. Choose one of {names}"):
        conftest.pytest_sessionstart()


def test_a_missing_requirement_ends_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "load_error", lambda: "no compiler")
    monkeypatch.setenv("SRNN_REQUIRE", "browser")
    conftest.pytest_sessionstart()
    monkeypatch.setenv("SRNN_REQUIRE", "browser,native")
    with pytest.raises(pytest.exit.Exception, match="SRNN_REQUIRE=native, and it is not available: no compiler"):
        conftest.pytest_sessionstart()
    monkeypatch.setattr(conftest, "COMPILERS", ("no-such-compiler",))
    monkeypatch.setenv("SRNN_REQUIRE", "compilers")
    with pytest.raises(
        pytest.exit.Exception, match="SRNN_REQUIRE=compilers, and it is not available: no-such-compiler not found"
    ):
        conftest.pytest_sessionstart()
