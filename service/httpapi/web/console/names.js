// The names of worker IDs, and the holders of one of them.

import { $, KeyedList, away, draw, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { about, count, digits, duration, instant } from './format.js';

/** Names that are asked for at most; the search finds the others. */
const mostNames = 200;

/** Holders that the server shows at most. */
const mostHolders = 1000;

const time = (ms) => new Date(Number(ms)).toISOString();

function cells(columns, ...names) {
  return names.map((name) => el('td', { 'data-name': columns[name] }));
}

function createName(name, choose) {
  const { columns } = text.names;
  const button = el('button', { type: 'button', class: 'quiet', 'aria-controls': 'holders', 'aria-label': text.names.holdersOf(name) }, text.names.holders);
  button.addEventListener('click', () => choose(name));
  return el('tr', {}, el('th', { scope: 'row' }, name), ...cells(columns, 'epoch', 'widths', 'hold'),
    el('td', { 'data-name': columns.leased }, el('div', { class: 'buffer' }, el('progress', { max: 1, value: 0, 'aria-label': text.names.leasedOf(name) }), el('span', { class: 'left' }))),
    el('td', { 'data-name': columns.show }, button));
}

function fillName(row, item, chosen) {
  const [, epoch, widths, hold, leased, show] = row.children;
  const [bar, left] = leased.firstChild.children;
  setText(epoch, instant(time(item.epoch)));
  setText(widths, text.names.widths(63 - item.workerBits - item.seqBits, item.workerBits, item.seqBits));
  setText(hold, duration(parseFloat(item.hold)));
  bar.value = item.leased / item.workers;
  setAttribute(leased.firstChild, 'data-use', item.leased > 0);
  setText(left, text.names.leased(count(item.leased), count(item.workers)));
  setAttribute(show.firstChild, 'aria-expanded', item.name === chosen ? 'true' : 'false');
}

function createHolder(workerId) {
  const { columns } = text.holders;
  return el('tr', {}, el('th', { scope: 'row' }, digits(String(workerId))), ...cells(columns, 'instance', 'state', 'until', 'renewed'));
}

function fillHolder(row, holder, now) {
  const [, instance, state, until, renewed] = row.children;
  const ago = about(holder.renewed ?? holder.granted, now);
  setText(instance, holder.instance || text.unknown);
  setText(state, holder.leased ? text.holders.leased : text.holders.ended);
  setAttribute(row, 'data-ended', !holder.leased);
  setText(until, instant(time(holder.until)));
  setText(renewed, ago ? text.ago(ago) : text.unknown);
}

/** The panel of names. What was read last stays while it cannot be read again. */
export class Names {
  #chosen = '';
  #now = 0;
  #wake;
  #names = new KeyedList($('name-rows'), (name) => createName(name, (chosen) => this.#choose(chosen)), (row, item) => fillName(row, item, this.#chosen));
  #holders = new KeyedList($('holder-rows'), createHolder, (row, holder) => fillHolder(row, holder, this.#now));
  #shown = [];

  /** wake() is called when the names, or the holders, are to be asked for again. */
  constructor(wake) {
    this.#wake = wake;
    $('name-search').addEventListener('change', () => wake.names());
  }

  /** The path of the names, with what is searched. */
  get path() {
    const words = $('name-search').value.trim();
    return `api/names?limit=${mostNames}${words && `&search=${encodeURIComponent(words)}`}`;
  }

  /** The path of the holders of the chosen name; '' without one. */
  get holdersPath() {
    return this.#chosen && `api/names/${encodeURIComponent(this.#chosen)}`;
  }

  show({ names, total = names.length }) {
    draw($('names'), () => {
      const searched = $('name-search').value.trim() !== '';
      this.#shown = names;
      this.#names.show(names, ({ name }) => name);
      const leased = names.reduce((sum, item) => sum + item.leased, 0);
      if (!searched) setText($('name-sum'), text.names.sum(total, total > names.length ? '' : count(leased)));
      setText($('name-none'), total > names.length ? text.tags.more(count(total - names.length)) : names.length > 0 ? '' : searched ? text.names.noneFound : text.names.none);
      setAttribute($('name-none'), 'hidden', $('name-none').textContent === '');
      setAttribute($('name-search'), 'hidden', !searched && total < 2);
      setAttribute($('name-rows').parentElement, 'hidden', names.length === 0);
      away($('name-away'), null);
    });
  }

  showHolders({ name, holders }, now) {
    if (name !== this.#chosen) return; // another was chosen meanwhile
    draw($('holders'), () => {
      this.#now = now;
      this.#holders.show(holders, ({ workerId }) => workerId);
      setText($('holder-title'), text.holders.title(name));
      setText($('holder-none'), holders.length === 0 ? text.holders.none : holders.length < mostHolders ? '' : text.holders.first(count(mostHolders)));
      setAttribute($('holder-none'), 'hidden', $('holder-none').textContent === '');
      setAttribute($('holder-rows').parentElement, 'hidden', holders.length === 0);
      setAttribute($('holders'), 'hidden', false);
      away($('holder-away'), null);
    });
  }

  /** Says that the names cannot be read, above those that were. */
  fail(err) {
    away($('name-away'), err);
  }

  failHolders(err) {
    if (err.status === 404) { // the name was deleted
      this.#choose(this.#chosen);
      return;
    }
    setText($('holder-title'), text.holders.title(this.#chosen));
    setAttribute($('holders'), 'hidden', false);
    away($('holder-away'), err);
  }

  #choose(name) {
    this.#chosen = name === this.#chosen ? '' : name;
    this.#holders.show([], () => '');
    for (const node of [$('holders'), $('holder-rows').parentElement]) setAttribute(node, 'hidden', true);
    this.#names.show(this.#shown, (item) => item.name);
    this.#wake.holders();
  }
}
