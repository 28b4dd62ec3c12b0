"""The facts that correct the meter: each model's ratio of reported to counted tokens, the windows
that providers have named, and the last request that a provider counted.

A report is accepted if it is plausible (`reconcile`). An error's text is a hint: it is accepted
within limits, and ignored if it would stop a conversation that could continue.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field
from msgspec.structs import replace

from memory.context.layout import Layout
from memory.context.meter import Meter, PrefixTokens
from memory.context.reconcile import (
    CountedRequest,
    KnownSizes,
    RejectedReport,
    Report,
    SizeDecision,
    clamp,
    count_odd,
    is_measure,
    is_partial,
    reconcile,
)
from memory.context.settings import Limits
from memory.context.view import Scale, View
from memory.messages import PICTURE_TOKENS
from memory.record import bot_state
from memory.record.store import Store

_DRIFT = 0.02  # a ratio is stored again when it changed by more than this share
_FAR_OFF = 3.0  # an overflow that implies a larger error of the meter has another cause
_BELIEVED = 1.8  # the maximum correction of the meter by overflows
_MARGIN = 1.05  # the factor by which a refused request is assumed to exceed the window
_LATELY = 16  # the accepted requests of a model that are kept; the largest shows its window


class LearnedWindow(Struct, frozen=True):
    """The window of a model that an overflow named, in tokens, while its settings had `instead_of`
    (a changed setting takes precedence)."""

    tokens: int
    instead_of: int


class RefusedSize(Struct, frozen=True):
    """The smallest request that a model has refused without naming its window, and the largest
    smaller one that it has accepted since (0: none), in tokens."""

    refused: int
    accepted: int = 0

    @property
    def target(self) -> int:
        """Return the size to which a request that would be refused is shortened."""
        return self.accepted or self.refused // 2


class KnownModels(Struct):
    """The facts learned about models in all conversations, by model name: the ratio of reported to
    counted tokens (`ratios`), the window that an overflow named (`windows`), the sizes of recently
    `accepted` requests, the models that have `measured` a request that was not sent, the ratios
    that a refusal has `proved`, the models that report only a part of their tokens (`partial`), and
    the sizes that were `refused` for an unnamed window."""

    ratios: dict[str, float] = field(default_factory=dict)
    windows: dict[str, LearnedWindow] = field(default_factory=dict)
    accepted: dict[str, deque[int]] = field(default_factory=dict)
    measured: set[str] = field(default_factory=set)
    proved: dict[str, float] = field(default_factory=dict)
    partial: set[str] = field(default_factory=set)
    refused: dict[str, RefusedSize] = field(default_factory=dict)

    def ratio(self, model: str) -> float:
        return self.ratios.get(model, 1.0)

    def tokens(self, meter: Meter, text: str, model: str) -> int:
        """Return the tokens of a text for a model, by its known ratio."""
        return round(meter.count(text) * self.ratio(model))

    def forget_windows(self) -> None:
        """Forget all windows, since a person has set the window or the model."""
        self.windows.clear()
        self.refused.clear()


class Anchor(Struct, frozen=True):
    """The last request, or the last one whose report was accepted: its tokens by the provider, and
    raw; the provider's tokens per further raw token (`slope`; 0: the model's ratio), beyond the
    `extra` that its endpoint adds. `prefix` is the meter's own object for the prefix. `is_believed`
    is False for an estimate, if no report could be accepted; `is_newest` is False if a later report
    was doubted."""

    reported: int
    raw: int
    model: str
    layout: Layout
    prefix: PrefixTokens
    slope: float = 0.0
    extra: int = 0
    is_believed: bool = True
    is_newest: bool = True


class CutPrompt(Struct, frozen=True):
    """A request of which the provider has read so little that its server must truncate prompts
    silently (Ollama does): `sent` tokens by the meter, `read` by its report."""

    sent: int
    read: int


class CutPrompts(Struct):
    """The truncated prompts of a conversation, by model name: `newest` if its last request was
    truncated, `notified` if the person was notified."""

    newest: dict[str, CutPrompt] = field(default_factory=dict)
    notified: set[str] = field(default_factory=set)


class Calibration:
    """Corrects one conversation's meter. `_refused` is the factor by which overflows correct the
    meter for a model, until it reports a count; it applies to this conversation only."""

    def __init__(self, store: Store, models: KnownModels) -> None:
        self._store, self.models = store, models
        self.anchor: Anchor | None = None
        self.cuts = CutPrompts()
        self._refused: dict[str, float] = {}
        self.doubted: set[str] = set()  # models with refusals that were wrongly taken for overflows
        self._doubts: dict[str, RejectedReport] = {}

    def find_learned_window(self, limits: Limits) -> LearnedWindow | None:
        """Return the window that the provider has named if the settings have another; `limits` as
        they are set."""
        known = self.models.windows.get(limits.model)
        return known if known and known.instead_of == limits.window else None

    def window(self, limits: Limits) -> int:
        """Return the window of the model: as set, or smaller if the provider has named a smaller
        one."""
        if not self.models.windows:  # the most frequent case
            return limits.window
        known = self.find_learned_window(limits)
        return known.tokens if known else limits.window

    def ratio(self, model: str) -> float:
        """Return the number of reported tokens per counted token."""
        return self.models.ratios.get(model, 1.0) * self._refused.get(model, 1.0)

    def scale(self, view: View, model: str) -> Scale:
        """Return the scale from raw counts of this view to the provider's tokens."""
        ratio, anchor = self.ratio(model), self.anchor
        if anchor is None or anchor.model != model or not anchor.is_believed:
            return Scale(ratio)
        ratio = min(anchor.slope or ratio, anchor.reported / max(1, anchor.raw))
        is_same = anchor.layout is view.layout or anchor.layout == view.layout
        is_measured = is_same and anchor.raw <= view.raw_tokens and anchor.is_newest
        offset = anchor.reported - ratio * anchor.raw
        return Scale(ratio, offset, is_measured, anchor.raw, anchor.extra)

    def find_refused(self, view: View, model: str) -> RefusedSize | None:
        """Return the refused size of the model, if a request made from `view` would surely be
        refused."""
        known = self.models.refused.get(model)
        return known if known and self._size(view, model) >= known.refused else None

    def note_refused(self, view: View, model: str) -> None:
        """Record that a request made from `view` was refused for an unknown window."""
        size, known = self._size(view, model), self.models.refused.get(model)
        if known is None or size < known.refused:
            self.models.refused[model] = RefusedSize(size)

    def _size(self, view: View, model: str) -> int:
        """Return the size of a request without this conversation's correction by overflows."""
        return round(view.tokens / self._refused.get(model, 1.0))

    def _note_accepted(self, model: str, accepted: int) -> None:
        known = self.models.refused[model]
        if accepted >= known.refused:  # the refusal had another reason, or the model has changed
            del self.models.refused[model]
        elif accepted > known.accepted:
            self.models.refused[model] = replace(known, accepted=accepted)

    async def learn(self, view: View, reported: int, model: str, cached: int = 0) -> bool:
        """Correct the meter by the provider's report on the request made from `view`, with `cached`
        tokens included or in addition. Return False if the report is so small that the provider has
        not read all of it."""
        self.doubted.discard(model)
        report, counted = Report(reported, cached), _count(view)
        belief = reconcile(report, counted, self._known(view, model))
        if belief.size:
            await self._accept(view, belief, model)
            return True
        if belief.doubt is not None:
            self._doubts[model] = belief.doubt
        self._keep_place(view, model)
        if belief.why == "cut":
            self.cuts.newest[model] = CutPrompt(view.tokens, reported)
            return False
        if is_partial(report, counted):
            self.models.partial.add(model)
        if model in self.models.ratios and belief.why != "odd":
            await self._set_ratio(clamp(self.models.ratio(model), counted), model)
        return True

    def _keep_place(self, view: View, model: str) -> None:
        """Keep the last request, whose size is unknown."""
        anchor, prefix = self.anchor, view.prefix
        if anchor is not None and anchor.model == model and anchor.is_believed:
            self.anchor = replace(anchor, prefix=prefix, is_newest=False)
            return
        raw, place = view.raw_tokens, view.layout
        self.anchor = Anchor(
            round(self.ratio(model) * raw),
            raw,
            model,
            place,
            prefix,
            is_believed=False,
            is_newest=False,
        )

    async def _accept(self, view: View, belief: SizeDecision, model: str) -> None:
        self.cuts.newest.pop(model, None)
        self.models.accepted.setdefault(model, deque(maxlen=_LATELY)).append(belief.size)
        if model in self.models.refused:
            self._note_accepted(model, belief.size)
        self._refused.pop(model, None)
        self._doubts.pop(model, None)
        self.anchor = Anchor(
            belief.size,
            view.raw_tokens,
            model,
            view.layout,
            view.prefix,
            belief.slope,
            belief.extra,
        )
        if belief.ratio:
            await self._set_ratio(belief.ratio, model)

    def _known(self, view: View, model: str) -> KnownSizes:
        models, anchor, ratio = self.models, self.anchor, self.models.ratio(model)
        known = KnownSizes(
            ratio,
            doubt=self._doubts.get(model),
            proved=models.proved.get(model, 0.0),
            is_partial=model in models.partial,
        )
        if anchor is None or anchor.model != model or not anchor.is_believed:
            return known
        return replace(
            known,
            size=anchor.reported,
            raw=anchor.raw,
            slope=anchor.slope or ratio,
            extra=anchor.extra,
            is_same=anchor.layout == view.layout,
        )

    async def measure(self, view: View, counted: int, model: str) -> None:
        """Correct the meter by a model's count of a request that was not sent (0: no count; it is
        not asked again)."""
        self.models.measured.add(model)
        if is_measure(counted, view.raw_tokens):
            await self._set_ratio(counted / view.raw_tokens, model)

    async def _set_ratio(self, new: float, model: str) -> None:
        old = self.models.ratio(model)
        if abs(new - old) > _DRIFT * old:
            self.models.ratios[model] = new
            await self._store.write(
                lambda db: bot_state.save_ratio(db, model, new), is_synced=False
            )

    def accept_refusal(self, view: View, limits: Limits, window: int) -> None:
        """Record that the request made from `view` was longer than the model's window, which the
        error named (0: not named); `limits` as they are set. The meter is scaled up accordingly,
        within limits: an error that is far off has another cause."""
        model = limits.model
        if window and not self._is_credible(view, model, window):
            return
        if 0 < window < self.window(limits):
            self.models.windows[model] = LearnedWindow(window, limits.window)
        if self._is_confirmed(view, limits):
            return
        factor = (window or self.window(limits)) * _MARGIN / max(1, view.tokens)
        if 1 < factor <= _FAR_OFF:
            self._refused[model] = min(_BELIEVED, self._refused.get(model, 1.0) * factor)
            self.anchor = None

    def _is_confirmed(self, view: View, limits: Limits) -> bool:
        """Return whether reports that were too high to be accepted explain the refusal of the
        request made from `view`, although the meter says that it fits. Then the reports were
        right."""
        model = limits.model
        doubt = self._doubts.get(model)
        if doubt is None or doubt.why != "too much" or not doubt.raw:
            return False
        ratio, window = doubt.size / doubt.raw, self.window(limits)
        if not view.tokens <= window < ratio * view.raw_tokens <= _FAR_OFF * view.tokens:
            return False
        self.models.ratios[model] = self.models.proved[model] = ratio
        self.anchor = None
        self._doubts.pop(model)
        return True

    def _is_credible(self, view: View, model: str, window: int) -> bool:
        """Return whether a window named by an error is plausible: it holds twice the fixed part of
        each request, without which no conversation would be possible, and the requests accepted
        lately, unless it is named again."""
        prefix = self.models.ratio(model) * (view.prefix.system + view.prefix.tools)
        lately = self.models.accepted.pop(model, ()) if window >= 2 * prefix else (2 * prefix,)
        return window >= max(lately, default=0)


def _count(view: View) -> CountedRequest:
    """Return a request as the meter counts it."""
    prefix = view.prefix
    before = prefix.system + prefix.tools
    besides = "".join((view.front, *(summary.text for summary in view.summaries.values())))
    sizes = [(len(besides), count_odd(besides), 0), *[turn.characters for turn in view.turns]]
    characters, odd, images = map(sum, zip(*sizes, strict=True))
    return CountedRequest(
        view.raw_tokens,
        before,
        prefix.tools,
        prefix.odd + odd,
        min(PICTURE_TOKENS * images, view.raw_tokens - before),
        images,
        characters,
    )
