"""What corrects the meter: each model's ratio of reported to counted tokens, the windows that
providers have named, and the last request that a provider counted.

A report is a fact. An error's words are a hint: what they say is believed within reason, and where
it would stop a conversation that could go on, it is not.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from memory.context.change import Boundaries
from memory.context.limits import Limits
from memory.context.meter import PrefixTokens, calibrate, is_absurd
from memory.context.view import Scale, View
from memory.record import ledger
from memory.record.store import Store

_SMALL = 200  # raw tokens below which a report says little about a model's ratio
_DRIFT = 0.02  # a ratio is stored again when it moved by more than this share
_FAR_OFF = 3.0  # an overflow that says that the meter is off by more means something else
_BELIEVED = 1.8  # how far the meter is taken to be off by overflows, however often they say it
_MARGIN = 1.05  # a request that was refused was longer than the window by this, for all we know
_LATELY = 16  # accepted requests of a model, the largest of which says what its window holds

_TELLING = 1_000  # tokens below which a difference says nothing about cut prompts
_SMALLEST = 500  # tokens of a window; there is no smaller one
_CHARACTERS = 4  # of a token, roughly
_DENSEST = 8  # characters of text that no vocabulary makes one token of, on the whole


class LearnedWindow(Struct, frozen=True):
    """The window of a model that an overflow named, in tokens, while its settings said `instead_of`
    (a changed setting is obeyed)."""

    tokens: int
    instead_of: int


class KnownModels(Struct):
    """What was learned of models in all conversations, by the model's name: reported tokens for
    each that the meter counted, the window that an overflow named, the sizes of requests that were
    accepted lately, and which have counted something that they were not sent."""

    ratios: dict[str, float] = field(default_factory=dict)
    windows: dict[str, LearnedWindow] = field(default_factory=dict)
    accepted: dict[str, deque[int]] = field(default_factory=dict)
    measured: set[str] = field(default_factory=set)

    def ratio(self, model: str) -> float:
        return self.ratios.get(model, 1.0)

    def forget_windows(self) -> None:
        """A person has said which window or which model it is."""
        self.windows.clear()


class Anchor(Struct, frozen=True):
    """The last request that the provider counted: its tokens by the provider, and raw; `prefix` is
    the very object that the meter has for what stood before the conversation."""

    reported: int
    raw: int
    model: str
    boundaries: Boundaries
    prefix: PrefixTokens


class CutPrompt(Struct, frozen=True):
    """A request of which the provider has read so little that its server must cut prompts in
    silence (Ollama does): `sent` tokens by the meter, `read` by its report."""

    sent: int
    read: int


class CutPrompts(Struct):
    """What was noticed of that in a conversation, by the model's name: `newest` where its last
    request was cut, `told` where the person has heard of it."""

    newest: dict[str, CutPrompt] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)


class Calibration:
    """Corrects one conversation's meter. `_refused` is by how much overflows in it say that the
    meter is off, for a model, until that reports what it counted: no other conversation feels it.
    """

    def __init__(self, store: Store, models: KnownModels) -> None:
        self._store, self.models = store, models
        self.anchor: Anchor | None = None
        self.cuts = CutPrompts()
        self._refused: dict[str, float] = {}
        self.doubted: set[str] = set()  # models whose refusals were taken for overflows in vain

    def find_learned_window(self, limits: Limits) -> LearnedWindow | None:
        """The window that the provider has named where the settings say another; `limits` as they
        are set."""
        known = self.models.windows.get(limits.model)
        return known if known and known.instead_of == limits.window else None

    def window(self, limits: Limits) -> int:
        """The window of the model: as set, or smaller where the provider has named a smaller."""
        if not self.models.windows:  # nearly always
            return limits.window
        known = self.find_learned_window(limits)
        return known.tokens if known else limits.window

    def ratio(self, model: str) -> float:
        """Reported tokens for each that the meter counts."""
        return self.models.ratio(model) * self._refused.get(model, 1.0)

    def scale(self, view: View, model: str) -> Scale:
        """How raw counts of this view become the provider's tokens."""
        ratio, anchor = self.ratio(model), self.anchor
        if anchor is None or anchor.model != model:
            return Scale(ratio)
        is_same = anchor.boundaries is view.boundaries or anchor.boundaries == view.boundaries
        is_measured = is_same and anchor.raw <= view.raw_tokens
        return Scale(ratio, anchor.reported - ratio * anchor.raw, is_measured)

    async def learn(self, view: View, reported: int, model: str) -> bool:
        """Correct the meter by what the provider counted for the request made from `view`. False:
        that is so little that the provider has not read all of it."""
        raw = view.raw_tokens
        has_pictures = any(message.images for message in view.messages)  # whose size is a guess
        if not has_pictures:
            if is_absurd(reported, raw):
                return True
            if self._is_cut(view, reported, model):
                self.cuts.newest[model] = CutPrompt(view.tokens, reported)
                return False
        self.cuts.newest.pop(model, None)
        self.models.accepted.setdefault(model, deque(maxlen=_LATELY)).append(reported)
        self._refused.pop(model, None)
        self.doubted.discard(model)
        self.anchor = Anchor(reported, raw, model, view.boundaries, view.prefix)
        if raw >= _SMALL and not has_pictures:
            await self._set_ratio(calibrate(self.models.ratio(model), reported, raw), model)
        return True

    async def measure(self, view: View, counted: int, model: str) -> None:
        """Correct the meter by what a model counts of a request that was not sent (0: it did not
        say, and is not asked again)."""
        self.models.measured.add(model)
        await self._set_ratio(calibrate(self.models.ratio(model), counted, view.raw_tokens), model)

    async def _set_ratio(self, new: float, model: str) -> None:
        old = self.models.ratio(model)
        if abs(new - old) > _DRIFT * old:
            self.models.ratios[model] = new
            await self._store.write(lambda db: ledger.save_ratio(db, model, new), is_synced=False)

    def _is_cut(self, view: View, reported: int, model: str) -> bool:
        """Whether a report is so far below what was sent that the provider must have cut the prompt
        in silence (Ollama does): by the meter and by characters, since vocabularies differ; or it
        does not grow with the request any more. What is left of a cut prompt fills a window: a
        report of next to nothing, or of far less than the one before, counts something else (there
        are servers that leave out what they had cached)."""
        ratio, anchor = self.models.ratio(model), self.anchor
        before = anchor.reported if anchor and anchor.model == model else 0
        if reported < _SMALLEST or reported * 2 < before:
            return False
        if anchor and (anchor.model, anchor.boundaries) == (model, view.boundaries):
            grown = ratio * (view.raw_tokens - anchor.raw)
            if grown > _TELLING and (reported - anchor.reported) * 4 < grown:
                return True
        sent = ratio * view.raw_tokens
        if sent < _TELLING or reported * 2 > sent:
            return False
        prefix = (view.prefix.system + view.prefix.tools) * _CHARACTERS
        return prefix + sum(len(one.sent_text) for one in view.messages) > reported * _DENSEST

    def believe_refusal(self, view: View, limits: Limits, window: int) -> None:
        """The request made from `view` was longer than the model's window, and the error named that
        (0: it did not): `limits` as they are set. The meter is scaled up to what that means, within
        reason: an error that is far off means something else."""
        model = limits.model
        if window and not self._is_credible(view, model, window):
            return
        if 0 < window < self.window(limits):
            self.models.windows[model] = LearnedWindow(window, limits.window)
        factor = (window or self.window(limits)) * _MARGIN / max(1, view.tokens)
        if 1 < factor <= _FAR_OFF:
            self._refused[model] = min(_BELIEVED, self._refused.get(model, 1.0) * factor)
            self.anchor = None

    def _is_credible(self, view: View, model: str, window: int) -> bool:
        """Whether a window that an error named may be true: it holds twice what is sent with every
        request, or nothing could be said at all; and what the model has accepted lately, unless it
        is named again."""
        prefix = self.models.ratio(model) * (view.prefix.system + view.prefix.tools)
        lately = self.models.accepted.pop(model, ()) if window >= 2 * prefix else (2 * prefix,)
        return window >= max(lately, default=0)
