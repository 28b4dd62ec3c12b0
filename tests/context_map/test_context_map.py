"""The drawing of the context."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from plugins.builtin.context.state import STATES
from plugins.builtin.context.turns import Row
from plugins.context_map import picture
from plugins.context_map.picture import Picture, flow, render, svg

blocks = st.lists(
    st.tuples(st.integers(0, 100_000), st.sampled_from(STATES)),
    max_size=60,
).map(lambda pairs: [Row(n, tokens, (name,)) for n, (tokens, name) in enumerate(pairs, 1)])


@given(blocks, st.integers(1_000, 200_000))
def test_the_map_is_valid_and_shows_every_turn_with_its_state(
    turns: list[Row], budget: int
) -> None:
    sizes = {"system prompt": 100, "tools": 0, "summary": 0, "turns": 5_000, "running turn": 0}
    drawing = svg(Picture(5_100, budget, True, sizes, turns))
    root = ElementTree.fromstring(drawing)
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 1 + len(turns)
    for block, title in zip(turns, titles[1:], strict=True):
        assert title is not None
        assert title.startswith(f"t{block.number}: ")
        assert title.endswith(block.state[0])


@given(st.lists(st.floats(1, 230), max_size=80))
def test_blocks_flow_like_words_and_never_overlap(widths: list[float]) -> None:
    boxes = flow(widths, top=100, line=38)
    for one, other in pairwise(boxes):
        assert other.y > one.y or other.x >= one.x + one.width
    assert all(box.x + box.width <= picture.WIDTH for box in boxes)


def test_the_map_is_rendered_as_a_png_with_letters_of_its_own() -> None:
    named = svg(Picture(100, 1_000, False, {"turns": 100}, [Row(1, 100, ("in context",))]))
    bare = named.replace(">t1<", "><")
    assert render(named).startswith(b"\x89PNG")
    assert render(named) != render(bare)
