// The tables of what is provisioned beside apps: segment tags, names of worker IDs, and spaces of sequences.

import { $, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { about, count, duration, instant, rate } from './format.js';
import { Table, column } from './table.js';

/** The server counts up to a year how long a tag lasts, in seconds. */
const year = 365 * 86400;

const ago = (time, now) => (about(time, now) ? text.ago(about(time, now)) : text.unknown);

/** How many rows a page has, on a screen and on a phone. */
const page = () => (matchMedia('(max-width: 48rem)').matches ? 20 : 50);

/** A table of what a path lists, page by page, in the order and with what is searched: asked for again and again. */
class Listed extends Table {
  now = 0; // the server's time of the latest answer
  #path;
  #many;
  #sum;
  #from = 0;
  #asks;
  #pager = el('p', { class: 'pager buttons', hidden: true });
  #place = el('span');

  /**
   * The path's answer has the items in its field many. part(items) is what the sum beside the title says of them when they
   * are all there are. asks() is called when another page is wanted. The options are those of the table.
   */
  constructor(panel, path, many, part, asks, options) {
    super(panel, { keyOf: options.keyOf, asks: () => this.#turn(0), ...options });
    this.#path = path;
    this.#many = many;
    this.#asks = asks;
    this.#sum = (items, total) => options.texts.sum(count(total), total > items.length ? '' : part(items));
    const button = (label, words, pages) => {
      const made = el('button', { type: 'button', class: 'quiet', 'aria-label': label }, words);
      made.addEventListener('click', () => this.#turn(this.#from + pages * page()));
      return made;
    };
    this.#pager.append(button(text.pages.back, '‹', -1), this.#place, button(text.pages.on, '›', 1));
    panel.append(this.#pager);
  }

  #turn(from) {
    this.#from = Math.max(0, from);
    this.#asks();
  }

  get path() {
    return `${this.#path}?${new URLSearchParams({ limit: page(), offset: this.#from, sort: this.sort, search: this.searched })}`;
  }

  answer(answer, now) {
    this.now = now;
    const items = answer[this.#many];
    if (items.length === 0 && this.#from > 0) {
      this.#turn(0); // the last ones were deleted, or cannot be read
      return;
    }
    if (items.length === 0 && answer.message) { // that says nothing of what there is
      this.fail(answer);
      return;
    }
    const many = answer.total ?? items.length;
    this.show(items, { many, sum: this.searched || answer.message ? null : this.#sum(items, many) });
    setAttribute(this.#pager, 'hidden', many === items.length);
    setText(this.#place, text.pages.place(count(this.#from + 1), count(this.#from + items.length), count(many)));
    this.#pager.firstChild.disabled = this.#from === 0;
    this.#pager.lastChild.disabled = this.#from + items.length >= many;
    if (answer.message) this.fail(answer, ''); // some are missing
  }
}

let chosen = '';

/** The tag that the address chose last: #tag=NAME. '' for none. */
export const chosenTag = () => (chosen = new URLSearchParams(location.hash.slice(1)).get('tag') ?? chosen);

/** The segment tags of the database, and what this replica holds of each. */
export function tags(admin, asks) {
  const loaded = (all) => count(all.filter(({ initOk }) => initOk).length);
  const list = new Listed($('tags'), 'cache', 'tags', loaded, asks, {
    id: 'tag', kind: 'tag', admin, title: text.page.tags, add: text.page.newTag, search: text.page.searchTags, texts: text.tags,
    keyOf: ({ key }) => key,
    columns: [
      {
        name: 'tag', by: 'key', make: (key) => [el('a', { href: `#tag=${encodeURIComponent(key)}` }, key)],
        fill: (cell, { key }) => setAttribute(cell.firstChild, 'aria-current', key === chosenTag() ? 'true' : null),
      },
      column('shardBits', ({ shardBits }) => (shardBits ? count(shardBits) : ''), { number: true, by: 'shardBits' }),
      column('step', ({ step }) => count(step), { number: true, by: 'step' }),
      column('held', ({ held }) => count(held), { number: true, by: 'held' }),
      column('rate', (tag) => rate(tag.rate), { number: true, by: 'rate' }),
      column('lasts', (tag) => (!(tag.held > 0) ? text.unknown : tag.runwaySeconds < year ? duration(tag.runwaySeconds) : text.moreThan(duration(year))), { number: true, by: 'runwaySeconds' }),
      column('loaded', ({ lastLoad }) => ago(lastLoad, list.now), { number: true, by: 'lastLoad' }),
    ],
  });
  return list;
}

/** The names of worker IDs. */
export function names(admin, asks) {
  const leased = (all) => count(all.reduce((sum, item) => sum + item.leased, 0));
  return new Listed($('names'), 'api/names', 'names', leased, asks, {
    id: 'name', kind: 'name', admin, title: text.page.names, add: text.page.newName, search: text.page.searchNames, texts: text.names,
    keyOf: ({ name }) => name,
    columns: [
      column('name', ({ name }) => name, { by: 'name' }),
      column('epoch', ({ epoch }) => instant(new Date(Number(epoch)).toISOString())),
      column('widths', ({ workerBits, seqBits, shardBits = 0 }) => text.names.widths(63 - workerBits - seqBits, workerBits, seqBits - shardBits, shardBits)),
      column('hold', ({ hold }) => duration(parseFloat(hold)), { number: true }),
      column('leased', (item) => text.of(count(item.leased), count(item.workers)), { number: true, by: 'leased' }),
    ],
  });
}

/** The spaces of sequences. */
export function sequences(admin, asks) {
  return new Listed($('sequences'), 'api/sequences', 'spaces', () => '', asks, {
    id: 'space', kind: 'space', admin, title: text.page.sequences, add: text.page.newSpace, search: text.page.searchSpaces, texts: text.sequences,
    keyOf: ({ space }) => space,
    columns: [
      column('space', ({ space }) => space, { by: 'space' }),
      column('step', ({ step }) => count(step), { number: true, by: 'step' }),
      column('used', ({ used, sections }) => text.of(count(used), count(sections)), { number: true, by: 'used' }),
      column('highest', ({ highest }) => count(highest), { number: true, by: 'highest' }),
    ],
  });
}
