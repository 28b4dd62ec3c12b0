"""What corrects the meter: each model's ratio of reported to counted tokens, the windows that
providers have named, and the last request that a provider counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from memory.context.change import Boundaries
from memory.context.limits import Limits
from memory.context.meter import calibrated, is_absurd
from memory.context.view import Scale, View
from memory.record import ledger
from memory.record.store import Store

_SMALL = 200  # raw tokens below which a report says little about a model's ratio
_DRIFT = 0.02  # a ratio is stored again when it moved by more than this share
_BELIEVED = 3.0  # how far the meter may be off by what an overflow says


@dataclass(slots=True)
class KnownModels:
    """What was learned of models in all conversations, by the model's name: reported tokens for
    each that the meter counted, and the window that an overflow named."""

    ratios: dict[str, float] = field(default_factory=dict)
    windows: dict[str, int] = field(default_factory=dict)

    def ratio(self, model: str) -> float:
        return self.ratios.get(model, 1.0)


@dataclass(frozen=True, slots=True)
class Anchor:
    """The last request that the provider counted: its tokens by the provider, and raw."""

    reported: int
    raw: int
    model: str
    boundaries: Boundaries


class Calibration:
    """Corrects one conversation's meter."""

    def __init__(self, store: Store, models: KnownModels) -> None:
        self._store, self.models = store, models
        self.anchor: Anchor | None = None

    def window(self, limits: Limits) -> int:
        """The window of the model: as set, or smaller where the provider has named a smaller."""
        return min(limits.window, self.models.windows.get(limits.model, limits.window))

    def scale(self, view: View, model: str) -> Scale:
        """How raw counts of this view become the provider's tokens."""
        ratio, anchor = self.models.ratio(model), self.anchor
        if anchor is None or anchor.model != model:
            return Scale(ratio)
        is_measured = anchor.boundaries == view.boundaries and anchor.raw <= view.raw_tokens
        return Scale(ratio, anchor.reported - ratio * anchor.raw, is_measured)

    async def learn(self, view: View, reported: int, model: str) -> None:
        """Correct the meter by what the provider counted for the request made from `view`."""
        raw = view.raw_tokens
        has_pictures = any(message.images for message in view.messages)  # whose size is a guess
        if is_absurd(reported, raw) and not has_pictures:
            return
        self.anchor = Anchor(reported, raw, model, view.boundaries)
        old = self.models.ratio(model)
        new = calibrated(old, reported, raw) if raw >= _SMALL and not has_pictures else old
        if abs(new - old) > _DRIFT * old:
            self.models.ratios[model] = new
            await self._store.write(lambda db: ledger.save_ratio(db, model, new), is_synced=False)

    def believe_refusal(self, view: View, limits: Limits, window: int) -> None:
        """The request made from `view` was longer than the meter said: scale it up to what the
        window says (0: none was named), unless that is so far off that the provider means
        something else."""
        if 0 < window < limits.window:
            self.models.windows[limits.model] = window
        factor = (window or limits.window) * 1.05 / max(1, view.tokens)
        if 1 < factor <= _BELIEVED:
            self.models.ratios[limits.model] = self.models.ratio(limits.model) * factor
            self.anchor = None
