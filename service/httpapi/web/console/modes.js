// The modes beside the queue: segment tags, snowflake and UID.

import { $, KeyedList, describe, draw, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { about, count, digits, duration, instant, percent, rate } from './format.js';

/** Rows that are drawn at most; the search finds the others. */
const mostRows = 200;

/** Less time than this until the IDs end is worth a sign, in seconds. */
const year = 365 * 86400;

/** How many IDs are left in a buffer. They are beyond what a JS number holds, their difference is not. */
function leftOf(tag, buffer) {
  return Number(BigInt(tag[`max${buffer}Str`]) - BigInt(tag[`value${buffer}Str`]));
}

function cell(name, ...children) {
  return el('td', { 'data-name': name }, ...children);
}

function bufferCell(buffer) {
  return cell(text.tags.columns[`buffer${buffer}`], el('div', { class: 'buffer' },
    el('progress', { max: 1, value: 0 }), el('span', { class: 'left' }), el('span', { class: 'next' })));
}

function createRow(tag, admin) {
  const number = (name) => el('td', { 'data-name': name, class: 'number' });
  const { columns } = text.tags;
  const button = (words, label, open) => {
    const made = el('button', { type: 'button', class: 'quiet', 'aria-label': label(text.admin.tag(tag)) }, words);
    made.addEventListener('click', () => open(tag));
    return made;
  };
  return el('tr', {}, el('th', { scope: 'row' }, el('span'), el('span', { class: 'jumped' })), bufferCell(0), bufferCell(1),
    number(columns.step), number(columns.held), number(columns.rate), number(columns.lasts), number(columns.loaded),
    cell(columns.change, el('span', { class: 'buttons' }, button(text.admin.edit, text.admin.editOf, (t) => admin.edit(t)), button(text.admin.remove, text.admin.removeOf, (t) => admin.remove(t)))));
}

/** The section of the modes. */
export class Modes {
  #segment = null;
  #now = 0;
  #all = []; // the tags of the database
  #total = 0; // how many it has, when the server shows a part of them; else 0
  #rows;
  #ring = el('progress', { max: 1, value: 0, 'aria-label': text.uid.ring });
  #filled = el('span');
  #gauge = el('span', { class: 'gauge' }, this.#ring, this.#filled);

  /** admin opens the dialogs. */
  constructor(admin) {
    this.#rows = new KeyedList($('tag-rows'), (tag) => createRow(tag, admin), (row, tag) => this.#fill(row, tag));
    $('new-tag').addEventListener('click', () => admin.createTag());
    $('tag-search').addEventListener('input', () => this.#tags());
  }

  show(status, now) {
    this.#segment = status.segment ?? null;
    this.#now = now;
    this.#tags();
    draw($('snowflake').parentElement, () => describe($('snowflake'), status.snowflake ? this.#snowflake(status.snowflake) : []));
    draw($('uid').parentElement, () => describe($('uid'), status.uid ? this.#uid(status.uid, status.modes?.uid?.ready) : []));
    for (const [id, on] of [['snowflake', status.snowflake], ['uid', status.uid], ['tag-rows', status.segment], ['space-rows', status.modes?.sequence?.enabled]]) {
      setAttribute($(id).closest('.panel'), 'hidden', !on);
    }
  }

  /** Shows the tags of the database too: those that this replica has not loaded. total says that they are a part. */
  showAll(tags, total) {
    if (!this.query) this.#total = total ?? 0;
    this.#all = tags;
    this.#tags();
  }

  /** What the server is asked to search, where it has more tags than it shows at once. */
  get query() {
    const words = $('tag-search').value.trim();
    return this.#total > 0 && words ? `?search=${encodeURIComponent(words)}` : '';
  }

  #tags() {
    draw($('tag-rows').closest('.panel'), () => this.#drawTags());
  }

  #drawTags() {
    if (!this.#segment) return; // its panel is hidden
    const loaded = this.#segment.tags;
    const known = new Set(loaded.map(({ key }) => key));
    const all = [...loaded, ...this.#all.filter(({ key }) => !known.has(key))];
    const words = $('tag-search').value.trim().toLowerCase();
    const found = all.filter((tag) => tag.key.toLowerCase().includes(words)).sort((a, b) => (a.key < b.key ? -1 : 1));
    const many = words ? found.length : Math.max(found.length, this.#total);
    this.#rows.show(found.slice(0, mostRows), (tag) => tag.key);
    setText($('tag-sum'), text.tags.sum(Math.max(all.length, this.#total), this.#segment.total ?? loaded.filter(({ initOk }) => initOk).length, count(this.#segment.issued)));
    setText($('tag-none'), remark(all.length, many));
    setAttribute($('tag-none'), 'hidden', many > 0 && many <= mostRows);
    setAttribute($('tag-search'), 'hidden', all.length < 2);
    setAttribute($('tag-rows').parentElement, 'hidden', found.length === 0);
  }

  #fill(row, tag) {
    const [name, first, second, step, held, speed, lasts, loaded] = row.children;
    const [key, jumped] = name.children;
    setText(key, tag.key);
    setText(jumped, tag.jumped > 0 ? text.tags.jumped(count(tag.jumped)) : '');
    this.#buffer(first.firstChild, tag, 0);
    this.#buffer(second.firstChild, tag, 1);
    setText(step, count(tag.step));
    setText(held, count(tag.held));
    setText(speed, rate(tag.rate));
    setText(lasts, tag.held > 0 ? lasting(tag.runwaySeconds) : text.unknown);
    const ago = about(tag.lastLoad, this.#now);
    setText(loaded, ago ? text.ago(ago) : text.unknown);
  }

  /** The bar is what is left of a buffer; the next ID is below it. */
  #buffer(node, tag, buffer) {
    const [bar, left, next] = node.children;
    const size = tag[`step${buffer}`]; // 0 where it holds nothing, which divides nothing
    const inUse = tag.initOk && size > 0 && tag.pos === buffer;
    const ready = inUse || (tag.initOk && size > 0 && tag.nextReady);
    const rest = ready ? leftOf(tag, buffer) : 0;
    setAttribute(node, 'data-use', inUse);
    bar.value = ready ? rest / size : 0;
    setAttribute(bar, 'aria-label', text.tags.label(buffer, tag.key));
    setText(left, ready ? text.tags.left(count(rest)) : text.tags.notLoaded);
    setText(next, ready ? text.tags.next(inUse, digits(tag[`value${buffer}Str`])) : '');
  }

  #snowflake(s) {
    const states = { serving: null, offline: 'warning', waiting: 'warning' };
    const names = text.snowflake.rows;
    return [
      [names.state, text.snowflake.states[s.state] ?? s.state, states[s.state] ?? null],
      [names.worker, s.workerId < 0 ? text.snowflake.none : String(s.workerId)],
      [names.registry, s.mode],
      [names.address, s.address],
      [names.bound, instant(s.reservedUntil)],
      [names.trusted, duration(s.trustSeconds)],
      [names.clock, against(s.clockOffsetSeconds, text.snowflake.registrys)],
      lifetime(s),
      [names.issued, count(s.issued)],
      s.error ? [names.error, s.error, 'warning'] : null,
    ];
  }

  /** ready says whether the mode could serve: until its first caller it needs no worker ID. */
  #uid(u, ready) {
    const names = text.uid.rows;
    const unused = u.workerId < 0 && ready;
    return [
      [names.generator, u.mode],
      [names.worker, unused ? text.uid.unused : u.workerId < 0 ? text.snowflake.none : digits(String(u.workerId)), u.workerId < 0 && !unused ? 'warning' : null],
      u.ringSize > 0 ? [names.ring, this.#gaugeOf(u), u.ringFilled === 0 && !unused ? 'warning' : null] : null,
      [names.newest, instant(u.lastSecond)],
      [names.ahead, against(u.aheadSeconds, text.uid.clock)],
      [names.marked, instant(u.markedUntil)],
      lifetime(u),
      [names.issued, count(u.issued)],
    ];
  }

  #gaugeOf(u) {
    this.#ring.value = u.ringFilled / u.ringSize;
    setText(this.#filled, text.uid.filled(percent(u.ringFilled / u.ringSize), count(u.ringFilled), count(u.ringSize)));
    return this.#gauge;
  }
}

/** How long a tag lasts; the server counts up to a year. */
function lasting(seconds) {
  return seconds < year ? duration(seconds) : text.moreThan(duration(year));
}

function against(seconds, what) {
  return text.against(duration(Math.abs(seconds)), seconds < 0, what);
}

function lifetime(mode) {
  const left = mode.remainingLifetimeSeconds;
  return [text.lifetime, duration(left), left < year ? 'warning' : null];
}

function remark(all, found) {
  if (all === 0) return text.tags.none;
  if (found === 0) return text.tags.noneFound;
  return text.tags.more(count(found - mostRows));
}
