// The spaces of sequences.

import { $, KeyedList, away, draw, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { count } from './format.js';

/** Spaces that are asked for at most; the search finds the others. */
const mostSpaces = 200;

function createSpace(space, admin) {
  const { columns } = text.sequences;
  const number = (name) => el('td', { 'data-name': name, class: 'number' });
  const button = (words, label, open) => {
    const made = el('button', { type: 'button', class: 'quiet', 'aria-label': label(text.admin.space(space)) }, words);
    made.addEventListener('click', open);
    return made;
  };
  return el('tr', {}, el('th', { scope: 'row' }, space), number(columns.step),
    el('td', { 'data-name': columns.used }, el('div', { class: 'buffer' }, el('progress', { max: 1, value: 0, 'aria-label': text.sequences.usedOf(space) }), el('span', { class: 'left' }))),
    number(columns.highest),
    el('td', { 'data-name': columns.change }, el('span', { class: 'buttons' },
      button(text.admin.edit, text.admin.editOf, () => admin.edit({ space })), button(text.admin.remove, text.admin.removeOf, () => admin.remove({ space })))));
}

function fillSpace(row, item) {
  const [, step, used, highest] = row.children;
  const [bar, left] = used.firstChild.children;
  setText(step, count(item.step));
  bar.value = item.used / item.sections;
  setAttribute(used.firstChild, 'data-use', item.used > 0);
  setText(left, text.sequences.used(count(item.used), count(item.sections)));
  setText(highest, count(item.highest));
}

/** The panel of spaces. What was read last stays while it cannot be read again. */
export class Sequences {
  #spaces;

  /** admin opens the dialogs; wake() is called when the spaces are to be asked for again. */
  constructor(admin, wake) {
    this.#spaces = new KeyedList($('space-rows'), (space) => createSpace(space, admin), fillSpace);
    $('new-space').addEventListener('click', () => admin.createSpace());
    $('space-search').addEventListener('change', wake);
  }

  /** The path of the spaces, with what is searched. */
  get path() {
    const words = $('space-search').value.trim();
    return `api/sequences?limit=${mostSpaces}${words && `&search=${encodeURIComponent(words)}`}`;
  }

  show({ spaces, total = spaces.length }) {
    draw($('sequences'), () => {
      const searched = $('space-search').value.trim() !== '';
      this.#spaces.show(spaces, ({ space }) => space);
      if (!searched) setText($('space-sum'), text.sequences.sum(count(total)));
      setText($('space-none'), total > spaces.length ? text.tags.more(count(total - spaces.length)) : spaces.length > 0 ? '' : searched ? text.sequences.noneFound : text.sequences.none);
      setAttribute($('space-none'), 'hidden', $('space-none').textContent === '');
      setAttribute($('space-search'), 'hidden', !searched && total < 2);
      setAttribute($('space-rows').parentElement, 'hidden', spaces.length === 0);
      away($('space-away'), null);
    });
  }

  /** Says that the spaces cannot be read, above those that were. */
  fail(err) {
    away($('space-away'), err);
  }
}
