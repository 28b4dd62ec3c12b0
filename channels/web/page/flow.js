// Sizes as blocks in rows, like words in a text: a block that does not fit continues in the next row.
const WISHED = 44; // pixels of a block, if there is space
const LEAST = 4; // minimum pixels of a block
const MOST_ROWS = 6;
const FULL = .75; // of the area: the minimum that blocks take if they need it

/** The places of blocks of these sizes on ground for `whole`, in rows of so many pixels. Positions are
    counted in rows: 1.5 is the middle of the second. Where little is used, what is free is drawn shorter than
    it is, or nobody could see a block or hit it: `gap` is the place of the mark that says so. */
export function flowed(sizes, whole, width) {
  const used = sizes.reduce((sum, size) => sum + size, 0);
  const rows = Math.min(MOST_ROWS, Math.max(1, Math.ceil(((sizes.length + 1) * WISHED) / width)));
  const wished = Math.min(FULL, (sizes.length * WISHED) / (rows * width));
  const free = Math.max(0, whole - used);
  const drawn = wished ? Math.min(free, (Math.max(used, 1) * (1 - wished)) / wished) : free; // of the free part
  const least = (LEAST * Math.max(used + drawn, 1)) / (rows * width);
  const weights = sizes.map((size) => Math.max(size, least));
  const filled = weights.reduce((sum, weight) => sum + weight, 0);
  const scale = rows / (filled + drawn);
  const ends = [];
  for (const weight of weights) ends.push((ends.at(-1) ?? 0) + weight * scale);
  const starts = [0, ...ends];

  /** The position at which this much is filled. */
  function positionOf(size) {
    if (size >= used) return Math.min(rows, (ends.at(-1) ?? 0) + (free && ((size - used) / free) * drawn * scale));
    let left = size;
    const at = sizes.findIndex((one) => (left -= one) < 0);
    return ends[at] + (left / sizes[at]) * (ends[at] - starts[at]);
  }

  /** The place of a line at a position. */
  function placeOf(position) {
    const row = Math.max(0, Math.ceil(position - 1e-9) - 1);
    return { row, start: position - row };
  }

  return {
    rows, starts, ends, width,
    gap: drawn < free ? placeOf(((ends.at(-1) ?? 0) + rows) / 2) : null,
    /** Return the place of a line behind this much. */
    lineAt: (size) => placeOf(positionOf(size)),
    /** The block at a point, given as shares of width and height; null behind the last one. */
    blockAt(x, y, isNearest) {
      const row = Math.min(rows - 1, Math.max(0, Math.floor(y * rows)));
      const position = row + Math.min(1 - 1e-9, Math.max(0, x));
      const at = ends.findIndex((end) => position < end);
      return at >= 0 ? at : isNearest ? ends.length - 1 : null;
    },
  };
}

/** The pieces of a block, one per row, the largest first. */
export function placed({ starts, ends, width, rows }, at) {
  const pieces = [];
  for (let row = Math.floor(starts[at]); row < Math.min(rows, ends[at]); row += 1) {
    const start = Math.max(starts[at], row) - row;
    const size = Math.min(ends[at], row + 1) - row - start;
    pieces.push({ row, start, size });
  }
  pieces.sort((one, other) => other.size - one.size);
  return pieces.filter(({ size }, place) => !place || size * width >= LEAST); // a sliver would look like another block
}
