import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools import ToolError
from agent.tools.workspace import files_below, list_folder, open_file, resolve, save_file
from memory.record import folders

SECRET = b"the secret outside"


def furnish(folder: Path) -> Path:
    """A workspace with links that lead out of it and within it; a secret is next to it."""
    root = folder / "root"
    (root / "files" / "drafts").mkdir(parents=True)
    (root / "memory").mkdir()
    (folder / "outside").mkdir()
    (folder / "secret.txt").write_bytes(SECRET)
    (folder / "outside" / "secret.txt").write_bytes(SECRET)
    (root / "files" / "notes.txt").write_bytes(b"notes")
    (root / "memory" / "today.md").write_bytes(b"today")
    (root / "out").symlink_to(folder / "outside")
    (root / "up").symlink_to("..")
    (root / "files" / "secret.txt").symlink_to(folder / "secret.txt")
    (root / "files" / "drafts" / "deep").symlink_to(folder)
    (root / "files" / "loop").symlink_to("loop")
    (root / "files" / "again.txt").symlink_to("notes.txt")
    os.mkfifo(root / "files" / "pipe")
    return root


@pytest.fixture(autouse=True, scope="module", params=[True, False], ids=["held", "looked at"])
def is_held(request: pytest.FixtureRequest) -> Iterator[None]:
    """Folders are opened by descriptors, or as on Windows, which has none."""
    before, folders.HAS_DESCRIPTORS = folders.HAS_DESCRIPTORS, request.param
    yield
    folders.HAS_DESCRIPTORS = before


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return furnish(tmp_path)


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = furnish(tmp_path_factory.mktemp("shared"))
    yield root
    assert (root.parent / "secret.txt").read_bytes() == SECRET
    assert sorted(path.name for path in root.parent.iterdir()) == ["outside", "root", "secret.txt"]
    assert [path.name for path in (root.parent / "outside").iterdir()] == ["secret.txt"]


def content(root: Path, path: str) -> bytes:
    with open_file(root, resolve(root, path, must_write=False)) as file:
        return file.read()


STEPS = st.one_of(
    st.sampled_from(
        [
            *("..", ".", "", "~", "/", "//", "\\", "..\\", "\0", "out", "up", "root", "outside"),
            *("files", "drafts", "deep", "secret.txt", "notes.txt", "loop", "again.txt", "pipe"),
        ]
    ),
    st.text(max_size=4),
)
PATHS = st.one_of(st.lists(STEPS, max_size=6).map("/".join), st.text())


@given(path=PATHS)
def test_no_path_whatever_reads_anything_outside(shared_root: Path, path: str) -> None:
    try:
        target = resolve(shared_root, path, must_write=False)
        with open_file(shared_root, target) as file:
            assert SECRET not in file.read()
    except (ToolError, OSError):
        return
    assert target.resolve().is_relative_to(shared_root.resolve())


@given(path=PATHS)
def test_no_path_whatever_writes_anything_outside_files(shared_root: Path, path: str) -> None:
    try:
        target = resolve(shared_root, path, must_write=True)
        save_file(shared_root, target, b"overwritten")
    except (ToolError, OSError):
        return
    assert target.resolve().is_relative_to(shared_root.resolve() / "files")
    assert (shared_root / "memory" / "today.md").read_bytes() == b"today"
    target.unlink()
    (shared_root / "files" / "notes.txt").write_bytes(b"notes")


WAYS_OUT = {
    "../secret.txt": "'../secret.txt' leads out of the workspace",
    "files/../memory": "leads out of the workspace",
    "/etc/hosts": "leads out of the workspace",
    "~/.ssh/id_rsa": "leads out of the workspace",
    "files\\notes.txt": "has a backslash: write / between folders",
    "notes\0.txt": "holds characters that no file name should have",
    "notes\n.txt": "holds characters that no file name should have",
    "\ud800": "holds characters that no file name should have",
    "a/" * 33: "is too deep",
    "a" * 256: "contains a name that is too long",
    "a" * 1_000_000: "is too long",
    "out": "is a symbolic link, and links are not followed",
    "up/secret.txt": "is a symbolic link, and links are not followed",
    "files/secret.txt": "is a symbolic link, and links are not followed",
    "files/drafts/deep/outside/secret.txt": "is a symbolic link",
    "files/loop": "is a symbolic link",
    "again.txt": "is a symbolic link",
}


def test_a_way_out_is_refused_with_the_path_as_it_was_written(root: Path) -> None:
    for path, sentence in WAYS_OUT.items():
        with pytest.raises(ToolError, match=sentence) as refusal:
            resolve(root, path, must_write=False)
        assert str(refusal.value).startswith(repr(path[:150])[:-1])
        assert len(str(refusal.value)) < 1000


def test_reading_looks_into_files_for_what_is_not_at_the_root(root: Path) -> None:
    assert content(root, "notes.txt") == b"notes"
    assert content(root, "./files//notes.txt") == b"notes"
    assert content(root, "memory/today.md") == b"today"
    (root / "notes.txt").write_bytes(b"at the root")
    assert content(root, "notes.txt") == b"at the root"


def test_a_bare_name_is_written_to_files(root: Path) -> None:
    assert resolve(root, "new.txt", must_write=True) == root / "files" / "new.txt"
    assert resolve(root, "files/a/new.txt", must_write=True) == root / "files" / "a" / "new.txt"


def test_only_files_in_files_may_be_written(root: Path) -> None:
    for path in ("memory/today.md", "drafts/new.txt", "files", ".", ""):
        with pytest.raises(ToolError, match="can't be written: only files in 'files/' can"):
            resolve(root, path, must_write=True)


def test_a_workspace_may_itself_be_reached_by_a_link(root: Path) -> None:
    door = root.parent / "door"
    door.symlink_to(root)
    assert content(door, "notes.txt") == b"notes"
    assert resolve(door, ".", must_write=False) == door


def test_a_link_made_after_the_check_opens_nothing(root: Path) -> None:
    draft = root / "files" / "drafts" / "secret.txt"
    target = resolve(root, "files/drafts/secret.txt", must_write=True)
    (root / "files" / "drafts" / "deep").unlink()
    (root / "files" / "drafts").rmdir()
    (root / "files" / "drafts").symlink_to(root.parent / "outside")
    assert draft.read_bytes() == SECRET
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"), open_file(root, target):
        pass
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        save_file(root, target, b"overwritten")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        list_folder(root, target.parent)
    assert draft.read_bytes() == SECRET


def test_a_file_that_became_a_link_after_the_check_is_not_opened(root: Path) -> None:
    target = resolve(root, "notes.txt", must_write=False)
    target.unlink()
    target.symlink_to(root.parent / "secret.txt")
    with pytest.raises(OSError, match="symbolic links"), open_file(root, target):
        pass


def test_saving_replaces_a_link_and_not_what_it_leads_to(root: Path) -> None:
    save_file(root, root / "files" / "secret.txt", b"mine")
    assert content(root, "files/secret.txt") == b"mine"
    assert (root.parent / "secret.txt").read_bytes() == SECRET


def test_a_pipe_is_not_waited_for(root: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"), open_file(root, root / "files/pipe"):
        pass


def test_saving_is_all_or_nothing(root: Path) -> None:
    assert not save_file(root, root / "files" / "a" / "b.txt", b"one")
    assert save_file(root, root / "files" / "a" / "b.txt", b"two")
    assert content(root, "a/b.txt") == b"two"
    with pytest.raises(IsADirectoryError):
        save_file(root, root / "files" / "a", b"three")
    assert not list(root.rglob("*.draft"))


def test_walking_meets_regular_files_only_and_in_order(root: Path) -> None:
    found = [path.relative_to(root).as_posix() for path in files_below(root, root)]
    assert found == ["files/notes.txt", "memory/today.md"]


def test_walking_stops_at_a_depth_and_does_not_fail(root: Path) -> None:
    deep = root
    for _ in range(40):
        deep = deep / "d"
        deep.mkdir()
    (deep / "unseen.txt").touch()
    assert len(list(files_below(root, root))) == 2
