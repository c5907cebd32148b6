// The tables of what is provisioned beside apps: segment tags, names of worker IDs, and spaces of sequences.

import { $, el, setText } from './dom.js';
import { text } from './text.js';
import { about, count, digits, duration, instant, rate } from './format.js';
import { Table, column, fillGauge, gauge, mostRows } from './table.js';

/** The server counts up to a year how long a tag lasts, in seconds. */
const year = 365 * 86400;

const ago = (time, now) => (about(time, now) ? text.ago(about(time, now)) : text.unknown);

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
    return `${this.#path}?limit=${mostRows}&search=${encodeURIComponent(this.#table.searched)}`;
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

/** The segment tags of the database, and what this replica holds of each. */
export function tags(admin, wake) {
  let now = 0;
  const list = new Listed('cache', wake, $('tags'), {
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
      column('loaded', ({ lastLoad }) => ago(lastLoad, now), true),
    ],
  });
  const loadedOf = (all) => all.filter(({ initOk }) => initOk).length;
  const show = ({ tags: all, total = all.length }, at) => {
    now = at;
    list.show(all, total, (many) => text.tags.sum(many, many > all.length ? '' : count(loadedOf(all))));
  };
  return { list, show };
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
