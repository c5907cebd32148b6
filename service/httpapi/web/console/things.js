// The tables of what is provisioned beside apps: segment tags, names of worker IDs, and spaces of sequences.

import { $ } from './dom.js';
import { text } from './text.js';
import { about, count, duration, instant, rate } from './format.js';
import { Table, column, mostRows } from './table.js';

/** The server counts up to a year how long a tag lasts, in seconds. */
const year = 365 * 86400;

const ago = (time, now) => (about(time, now) ? text.ago(about(time, now)) : text.unknown);

/** A table of what a path lists, with what is searched: asked for again and again. */
class Listed {
  now = 0; // the server's time of the latest answer
  #path;
  #many;
  #sum;
  #table;

  /**
   * The path's answer has the items in its field many. part(items) is what the sum beside the title says of them when they
   * are all there are. wake() is called when another thing is searched. The options are those of the table.
   */
  constructor(panel, path, many, part, wake, options) {
    this.#path = path;
    this.#many = many;
    this.#sum = (items, total) => options.texts.sum(total, total > items.length ? '' : part(items));
    this.#table = new Table(panel, { keyOf: options.columns[0].of, ...options });
    this.#table.onSearch(wake);
  }

  get path() {
    return `${this.#path}?limit=${mostRows}&search=${encodeURIComponent(this.#table.searched)}`;
  }

  show(answer, now) {
    this.now = now;
    const items = answer[this.#many];
    const many = answer.total ?? items.length;
    this.#table.show(items, { many, sum: this.#table.searched ? null : this.#sum(items, many) });
    if (answer.message) this.fail(answer); // some may be missing
  }

  /** Says that they cannot be read, above those that were. */
  fail(err) {
    this.#table.fail(err);
  }
}

/** The segment tags of the database, and what this replica holds of each. */
export function tags(admin, wake) {
  const loaded = (all) => count(all.filter(({ initOk }) => initOk).length);
  const list = new Listed($('tags'), 'cache', 'tags', loaded, wake, {
    id: 'tag', kind: 'tag', admin, title: text.page.tags, add: text.page.newTag, search: text.page.searchTags, texts: text.tags,
    columns: [
      column('tag', ({ key }) => key),
      column('shardBits', ({ shardBits }) => (shardBits ? count(shardBits) : ''), true),
      column('step', ({ step }) => count(step), true),
      column('held', ({ held }) => count(held), true),
      column('rate', (tag) => rate(tag.rate), true),
      column('lasts', (tag) => (!(tag.held > 0) ? text.unknown : tag.runwaySeconds < year ? duration(tag.runwaySeconds) : text.moreThan(duration(year))), true),
      column('loaded', ({ lastLoad }) => ago(lastLoad, list.now), true),
    ],
  });
  return list;
}

/** The names of worker IDs. */
export function names(admin, wake) {
  const leased = (all) => count(all.reduce((sum, item) => sum + item.leased, 0));
  return new Listed($('names'), 'api/names', 'names', leased, wake, {
    id: 'name', kind: 'name', admin, title: text.page.names, add: text.page.newName, search: text.page.searchNames, texts: text.names,
    columns: [
      column('name', ({ name }) => name),
      column('epoch', ({ epoch }) => instant(new Date(Number(epoch)).toISOString())),
      column('widths', ({ workerBits, seqBits, shardBits = 0 }) => text.names.widths(63 - workerBits - seqBits, workerBits, seqBits - shardBits, shardBits)),
      column('hold', ({ hold }) => duration(parseFloat(hold))),
      column('leased', (item) => text.of(count(item.leased), count(item.workers))),
    ],
  });
}

/** The spaces of sequences. */
export function sequences(admin, wake) {
  return new Listed($('sequences'), 'api/sequences', 'spaces', () => '', wake, {
    id: 'space', kind: 'space', admin, title: text.page.sequences, add: text.page.newSpace, search: text.page.searchSpaces, texts: text.sequences,
    columns: [
      column('space', ({ space }) => space),
      column('step', ({ step }) => count(step), true),
      column('used', ({ used, sections }) => text.of(count(used), count(sections))),
      column('highest', ({ highest }) => count(highest), true),
    ],
  });
}
