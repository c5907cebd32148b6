// The tables of what is provisioned beside apps: segment tags, names of worker IDs, and spaces of sequences.

import { $, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { about, count, digits, duration, instant, rate } from './format.js';
import { Table, column, fillGauge, gauge, mostRows } from './table.js';

/** The server counts up to a year how long a tag lasts, in seconds. */
const year = 365 * 86400;

const ago = (time, now) => (about(time, now) ? text.ago(about(time, now)) : text.unknown);
const searching = (words) => (words ? `search=${encodeURIComponent(words)}` : '');

/** How many IDs are left in a buffer. They are beyond what a JS number holds, their difference is not. */
function leftOf(tag, buffer) {
  return Number(BigInt(tag[`max${buffer}Str`]) - BigInt(tag[`value${buffer}Str`]));
}

/** The bar is what is left of a buffer; the next ID is below it. */
function bufferColumn(buffer) {
  return {
    name: `buffer${buffer}`, make: () => [gauge()],
    fill: (cell, tag) => {
      const size = tag[`step${buffer}`]; // 0 where it holds nothing, which divides nothing
      const inUse = tag.initOk && size > 0 && tag.pos === buffer;
      const ready = inUse || (tag.initOk && size > 0 && tag.nextReady);
      const rest = ready ? leftOf(tag, buffer) : 0;
      fillGauge(cell.firstChild, ready ? rest / size : 0, text.tags.label(buffer, tag.key), ready ? text.tags.left(count(rest)) : text.tags.notLoaded,
        ready ? text.tags.next(inUse, digits(tag[`value${buffer}Str`])) : '', inUse);
    },
  };
}

/** The segment tags: those that this replica uses, and those of the database. */
export class Tags {
  #segment = null;
  #now = 0;
  #all = []; // the tags of the database
  #total = 0; // how many it has, when the server shows a part of them; else 0
  #table;

  /** admin opens the dialogs, wake() is called when other tags are to be asked for. */
  constructor(admin, wake) {
    this.#table = new Table($('tags'), {
      id: 'tag', kind: 'tag', admin, title: text.page.tags, add: text.page.newTag, search: text.page.searchTags, texts: text.tags, keyOf: ({ key }) => key,
      columns: [
        { name: 'tag', make: () => [el('span'), el('span', { class: 'jumped' })], fill: (cell, tag) => {
          setText(cell.firstChild, tag.key);
          setText(cell.lastChild, tag.jumped > 0 ? text.tags.jumped(count(tag.jumped)) : '');
        } },
        bufferColumn(0), bufferColumn(1),
        column('step', ({ step }) => count(step), true),
        column('held', ({ held }) => count(held), true),
        column('rate', (tag) => rate(tag.rate), true),
        column('lasts', (tag) => (!(tag.held > 0) ? text.unknown : tag.runwaySeconds < year ? duration(tag.runwaySeconds) : text.moreThan(duration(year))), true),
        column('loaded', ({ lastLoad }) => ago(lastLoad, this.#now), true),
      ],
    });
    this.#table.onSearch(() => this.#draw(), 'input');
    this.#table.onSearch(wake);
  }

  show(segment, now) {
    this.#segment = segment ?? null;
    this.#now = now;
    setAttribute($('tags'), 'hidden', !segment);
    this.#draw();
  }

  /** Shows the tags of the database too: those that this replica has not loaded. total says that they are a part. */
  showAll(tags, total) {
    if (!this.query) this.#total = total ?? 0;
    this.#all = tags;
    this.#draw();
  }

  /** What the server is asked to search, where it has more tags than it shows at once. */
  get query() {
    return this.#total > 0 && this.#table.searched ? `?${searching(this.#table.searched)}` : '';
  }

  #draw() {
    if (!this.#segment) return; // its panel is hidden
    const loaded = this.#segment.tags;
    const known = new Set(loaded.map(({ key }) => key));
    const all = [...loaded, ...this.#all.filter(({ key }) => !known.has(key))];
    const words = this.#table.searched.toLowerCase();
    const found = all.filter((tag) => tag.key.toLowerCase().includes(words)).sort((a, b) => (a.key < b.key ? -1 : 1));
    const inUse = this.#segment.total ?? loaded.filter(({ initOk }) => initOk).length;
    this.#table.show(found, { many: words ? found.length : Math.max(found.length, this.#total), sum: text.tags.sum(Math.max(all.length, this.#total), inUse, count(this.#segment.issued)) });
  }
}

/** A table of what a path lists, with what is searched: asked for again and again. */
class Listed {
  #table;
  #path;

  /** wake() is called when another thing is searched. */
  constructor(path, wake, panel, options) {
    this.#path = path;
    this.#table = new Table(panel, options);
    this.#table.onSearch(wake);
  }

  get path() {
    return `${this.#path}?limit=${mostRows}&${searching(this.#table.searched)}`;
  }

  /** Shows items; sum(many) stands beside the title, unless something is searched. */
  show(items, many, sum) {
    this.#table.show(items, { many, sum: this.#table.searched ? null : sum(many) });
  }

  /** Says that they cannot be read, above those that were. */
  fail(err) {
    this.#table.fail(err);
  }
}

/** The names of worker IDs. */
export function names(admin, wake) {
  const list = new Listed('api/names', wake, $('names'), {
    id: 'name', kind: 'name', admin, title: text.page.names, add: text.page.newName, search: text.page.searchNames, texts: text.names, keyOf: ({ name }) => name,
    columns: [
      column('name', ({ name }) => name),
      column('epoch', ({ epoch }) => instant(new Date(Number(epoch)).toISOString())),
      column('widths', ({ workerBits, seqBits }) => text.names.widths(63 - workerBits - seqBits, workerBits, seqBits)),
      column('hold', ({ hold }) => duration(parseFloat(hold))),
      { name: 'leased', make: () => [gauge()], fill: (cell, item) => fillGauge(cell.firstChild, item.leased / item.workers, text.names.leasedOf(item.name), text.names.leased(count(item.leased), count(item.workers))) },
    ],
  });
  const leasedOf = (all) => all.reduce((sum, item) => sum + item.leased, 0);
  return { list, show: ({ names: all, total = all.length }) => list.show(all, total, (many) => text.names.sum(many, many > all.length ? '' : count(leasedOf(all)))) };
}

/** The spaces of sequences. */
export function sequences(admin, wake) {
  const list = new Listed('api/sequences', wake, $('sequences'), {
    id: 'space', kind: 'space', admin, title: text.page.sequences, add: text.page.newSpace, search: text.page.searchSpaces, texts: text.sequences, keyOf: ({ space }) => space,
    columns: [
      column('space', ({ space }) => space),
      column('step', ({ step }) => count(step), true),
      { name: 'used', make: () => [gauge()], fill: (cell, item) => fillGauge(cell.firstChild, item.used / item.sections, text.sequences.usedOf(item.space), text.sequences.used(count(item.used), count(item.sections))) },
      column('highest', ({ highest }) => count(highest), true),
    ],
  });
  return { list, show: ({ spaces, total = spaces.length }) => list.show(spaces, total, (many) => text.sequences.sum(count(many))) };
}
