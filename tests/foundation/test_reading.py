import os

import pytest

from gridveil.foundation.reading import read_regular


def test_a_regular_file_is_read_whole_up_to_its_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", most=5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(tmp_path / "file", most=4)


def test_pipes_devices_and_folders_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(tmp_path / name)
    with pytest.raises(OSError, match="NUL"):
        read_regular(tmp_path / "a\0b")
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
