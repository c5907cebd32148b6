// The 64 lists of an app as a grid of 8 by 8: shard 0 is top left, 7 top right, 63
// bottom right.

import { el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { count, percent, short } from './format.js';

const side = 8;

/**
 * Levels of the scale, a fifth of the step each. So the lowest ends where a list is
 * refilled: at 0.2.
 */
const levels = 5;

/**
 * The levels of an app's lists: unknown, unused, empty, or 1 (low) to 5. A list that never
 * had an index is no trouble: it is filled when it is asked for, or by the next sweep.
 */
export function levelsOf(app) {
  const unused = new Set(app.unused ?? []);
  return app.depths.map((depth, shard) => {
    if (depth < 0) return 'unknown';
    if (depth === 0) return unused.has(shard) ? 'unused' : 'empty';
    return String(Math.min(levels, Math.max(1, Math.ceil((depth * levels) / app.step))));
  });
}

/** What a list holds, in words. */
function words(depth, level) {
  if (level === 'unknown') return text.list.unknown;
  return level === 'unused' ? text.list.unused : text.queue.indices(count(depth));
}

/** How many lists of an app are unknown, unused, empty and low; the lowest depth of those in use, -1 without any. */
export function summary(app) {
  const found = levelsOf(app);
  const many = (which) => found.filter((level) => level === which).length;
  const known = app.depths.filter((_, shard) => found[shard] !== 'unknown' && found[shard] !== 'unused');
  return {
    unknown: many('unknown'),
    unused: many('unused'),
    empty: many('empty'),
    low: many('1'),
    lowest: known.length > 0 ? Math.min(...known) : -1,
    total: known.reduce((sum, depth) => sum + depth, 0),
  };
}

/** The grid, with one cell in the order of the Tab key and the others by arrows. */
export class Heatmap {
  #grid;
  #readout;
  #cells;
  #current = 0; // the shard in the order of the Tab key
  #shown = -1; // the shard of the readout; -1 for the summary
  #app = null;

  constructor(grid, readout) {
    this.#grid = grid;
    this.#readout = readout;
    this.#cells = Array.from({ length: side * side }, (_, shard) =>
      el('div', { role: 'gridcell', class: 'cell', tabindex: shard === 0 ? 0 : -1, 'data-shard': shard }));
    for (let row = 0; row < side; row++) {
      grid.append(el('div', { role: 'row' }, ...this.#cells.slice(row * side, (row + 1) * side)));
    }
    this.#listen();
  }

  #listen() {
    this.#grid.addEventListener('keydown', (event) => this.#key(event));
    for (const [shard, cell] of this.#cells.entries()) {
      cell.addEventListener('focus', () => this.#point(shard));
      cell.addEventListener('pointerenter', () => this.#read(shard));
    }
    this.#grid.addEventListener('pointerleave', () => this.#rest());
    this.#grid.addEventListener('focusout', () => this.#read(-1));
  }

  /** Shows the lists of an app. */
  show(app) {
    this.#app = app;
    for (const [shard, level] of levelsOf(app).entries()) {
      const depth = app.depths[shard];
      setAttribute(this.#cells[shard], 'data-level', level);
      setAttribute(this.#cells[shard], 'aria-label', text.list.cell(shard, words(depth, level)));
      setText(this.#cells[shard], { unknown: '?', unused: '·' }[level] ?? short(depth));
    }
    this.#write();
  }

  #key(event) {
    const to = target(event, this.#current);
    if (to === null) return;
    event.preventDefault();
    this.#cells[to].focus();
  }

  /** Makes a cell the one in the order of the Tab key. */
  #point(shard) {
    setAttribute(this.#cells[this.#current], 'tabindex', -1);
    setAttribute(this.#cells[shard], 'tabindex', 0);
    this.#current = shard;
    this.#read(shard);
  }

  /** Without a pointer the readout goes back to the cell that has the focus. */
  #rest() {
    this.#read(this.#grid.contains(document.activeElement) ? this.#current : -1);
  }

  #read(shard) {
    this.#shown = shard;
    this.#write();
  }

  #write() {
    if (!this.#app) return;
    setText(this.#readout, this.#shown < 0 ? whole(this.#app) : single(this.#app, this.#shown));
  }
}

/** The shard that a key leads to from another; null for a key that leads nowhere. */
function target(event, from) {
  const row = from - (from % side);
  const last = side * side - 1;
  switch (event.key) {
    case 'ArrowLeft': return Math.max(row, from - 1);
    case 'ArrowRight': return Math.min(row + side - 1, from + 1);
    case 'ArrowUp': return from < side ? from : from - side;
    case 'ArrowDown': return from > last - side ? from : from + side;
    case 'Home': return event.ctrlKey ? 0 : row;
    case 'End': return event.ctrlKey ? last : row + side - 1;
    default: return null;
  }
}

function single(app, shard) {
  const depth = app.depths[shard];
  const level = levelsOf(app)[shard];
  const share = level === 'unknown' || level === 'unused' ? [] : [text.list.share(percent(depth / app.step))];
  return text.list.cell(shard, text.together([words(depth, level), ...share]));
}

function whole(app) {
  const s = summary(app);
  if (s.unknown === app.depths.length) return text.list.unreadable;
  const parts = s.lowest < 0 ? [] : [text.queue.lowest(count(s.lowest)), text.queue.total(count(s.total))];
  if (s.unused > 0) parts.push(text.queue.unused(s.unused));
  if (s.unknown > 0) parts.push(text.queue.unknown(s.unknown));
  return text.together(parts);
}
