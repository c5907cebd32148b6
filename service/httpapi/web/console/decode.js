// Takes an ID apart as each kind that has parts. IDs are strings all the way: a JS
// number holds no more than 53 bits.

import { $, describe, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { digits } from './format.js';
import { AnswerError, ask } from './net.js';

const kinds = Object.entries(text.decode.kinds);

/** Fields of the answer that are not parts. */
const others = new Set(['code', 'id', 'idStr', 'kind', 'message']);

/** The box that takes IDs apart. */
export class Decoder {
  #token;
  #nameOf;
  #latest = 0; // of the questions: answers to earlier ones are dropped
  #panels = kinds.map(([kind, title]) => {
    const list = el('dl');
    const error = el('p', { class: 'error' });
    const panel = el('div', { class: 'kind', 'data-kind': kind }, el('h3', {}, title), list, error);
    return { kind, panel, list, error };
  });

  /** token() is sent when there is one; nameOf(appId) gives the name of an app, or ''. */
  constructor(token, nameOf) {
    this.#token = token;
    this.#nameOf = nameOf;
    $('decode-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#decode($('decode-id').value);
    });
    $('decode-id').addEventListener('input', () => this.#clear());
  }

  #clear() {
    this.#latest++;
    $('decode-kinds').replaceChildren();
    this.#complain('');
  }

  #complain(message) {
    setText($('decode-error'), message);
    setAttribute($('decode-id'), 'aria-invalid', message === '' ? null : 'true');
  }

  async #decode(written) {
    this.#clear();
    const id = written.replace(/[\s,_"']/g, ''); // as IDs are copied from elsewhere
    const wrong = problem(id);
    if (wrong) {
      this.#complain(wrong);
      return;
    }
    const question = this.#latest;
    const answers = await Promise.allSettled(this.#panels.map(({ kind }) =>
      ask(`decode?kind=${kind}&id=${encodeURIComponent(id)}`, { token: this.#token() })));
    if (question !== this.#latest) return;
    this.#show(answers);
  }

  #show(answers) {
    const reasons = new Set(answers.map((a) => a.reason?.message ?? ''));
    if (reasons.size === 1 && !reasons.has('')) {
      this.#complain([...reasons][0]);
      return;
    }
    for (const [i, { value, reason }] of answers.entries()) {
      const { list, error } = this.#panels[i];
      describe(list, value ? this.#parts(value.answer) : []);
      setText(error, reason instanceof AnswerError ? reason.message : '');
    }
    $('decode-kinds').replaceChildren(...this.#panels.map((p) => p.panel));
  }

  #parts(answer) {
    return Object.entries(answer)
      .filter(([name]) => !others.has(name))
      .map(([name, value]) => [text.decode.parts[name] ?? name, this.#word(name, value)]);
  }

  #word(name, value) {
    const known = name === 'appId' ? this.#nameOf(value) : '';
    if (known) return `${value} (${known})`;
    return Number.isInteger(value) && name !== 'timestamp' ? digits(String(value)) : String(value);
  }
}

/** What is wrong with a text that should be an ID; '' for nothing. */
function problem(id) {
  if (id === '') return text.decode.empty;
  if (!/^\d+$/.test(id)) return text.decode.digits;
  if (BigInt(id) >= 1n << 63n) return text.decode.tooLarge;
  return '';
}
