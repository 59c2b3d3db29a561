"""Files that are written whole or not at all."""

import stat

import pytest

from gridveil.foundation.archive import write_files, write_new
from gridveil.foundation.errors import GridveilError


@pytest.fixture
def failing(monkeypatch):
    """Let the third file that is written fail, or the first."""

    def planted(error, at=3):
        written = []

        def write(path, data, mode=0o666):
            del mode
            written.append(path)
            path.write_bytes(data[: len(data) // 2])
            if len(written) == at:
                raise error

        monkeypatch.setattr("gridveil.foundation.archive.write_synced", write)

    return planted


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_no_folder_is_left_half_written(failing, tmp_path, error):
    failing(error)
    with pytest.raises((GridveilError, KeyboardInterrupt)):
        write_files(tmp_path / "deep" / "report", dict.fromkeys("abcd", b"figures"))
    assert list((tmp_path / "deep").iterdir()) == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_no_private_file_is_left_half_written(failing, tmp_path, error):
    failing(error, at=1)
    with pytest.raises((GridveilError, KeyboardInterrupt)):
        write_new(tmp_path / "page.html", b"figures", what="The page", mode=0o600)
    assert list(tmp_path.iterdir()) == []


def test_a_private_file_is_its_owners_and_replaces_nothing(tmp_path):
    write_new(tmp_path / "page.html", b"figures", what="The page", mode=0o600)
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o600
    with pytest.raises(GridveilError, match="The page could not be written"):
        write_new(tmp_path / "page.html", b"others", what="The page", mode=0o600)
    assert (tmp_path / "page.html").read_bytes() == b"figures"
