"""A list that is read in parts shows each conversation once, whatever messages arrive meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.base import Session
from channels.web.lists import cut_page

BEGAN = datetime(2026, 11, 27, tzinfo=UTC)


@st.composite
def sessions(draw: st.DrawFn) -> list[Session]:
    """Return a list, newest first; some entries have equal times."""
    count = draw(st.integers(0, 25))
    return [
        Session(
            f"c{number}",
            "",
            BEGAN - timedelta(seconds=draw(st.integers(0, 9))),
            draw(st.sampled_from(["web", "terminal"])),
            draw(st.sampled_from(["", "", "pinned", "archived"])),
            near=draw(st.sampled_from([(), (1, 0, 0), (2, 1, 1)])),
        )
        for number in range(count)
    ]


def _moved(one: Session) -> Session:
    """Return the same list after a message in it."""
    return replace(one, at=BEGAN + timedelta(hours=1))


@given(sessions(), st.integers(1, 7), st.booleans(), st.sets(st.integers(0, 24)))
def test_all_are_listed_once_and_what_moves_up_hides_no_other(
    there: list[Session], limit: int, is_search: bool, moving: set[int]
) -> None:
    shown: list[Session] = []
    after, left = "", there
    while True:
        part, after = cut_page(left, limit, after, is_search=is_search)
        assert len(part) <= limit
        shown += part
        if not after:
            break
        if not is_search:  # in which `near` decides
            left = [_moved(one) if int(one.chat[1:]) in moving else one for one in left]
    names = [one.chat for one in shown]
    assert len(names) == len({*names})
    assert {one.chat for one in there} - {*names} <= {f"c{number}" for number in moving}
    assert is_search is False or len(names) == len(there)


@given(sessions())
def test_what_is_pinned_comes_first_and_what_is_archived_last(there: list[Session]) -> None:
    shown, after = cut_page(there, 100, "")
    places = [("pinned", "", "archived").index(one.standing) for one in shown]
    assert (places, after) == (sorted(places), "")
    assert cut_page(there, 0, "") == (there, "")
    found, _ = cut_page(there, 100, "", is_search=True)
    assert [one.near for one in found] == sorted((one.near for one in found), reverse=True)
