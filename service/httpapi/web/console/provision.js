// The forms that make apps and tags. The administrator's token stays in its input,
// which the browser is asked not to keep, and goes into the header of these requests.

import { $, setAttribute, setText } from './dom.js';
import { AnswerError, ask } from './net.js';

/** What the forms are for: where they are sent, and what is said when it was done. */
const forms = [
  { id: 'app-form', path: 'admin/apps', done: (fields) => `App ${fields.get('id')} is there.` },
  { id: 'tag-form', path: 'admin/tags', done: (fields) => `Tag ${fields.get('tag')} is there.` },
];

/**
 * The fields of a form as JSON. Numbers are copied digit by digit: a limit is a 64-bit
 * number, which JSON.stringify could not write. Throws AnswerError for one that is none.
 */
function toJSON(form, fields) {
  const members = [...fields].map(([name, value]) => {
    if (form.elements[name].dataset.kind !== 'number') return `${JSON.stringify(name)}:${JSON.stringify(value)}`;
    const digits = value.trim();
    if (!/^(0|[1-9]\d{0,18})$/.test(digits)) {
      throw new AnswerError(0, 0, `${form.elements[name].labels[0].textContent} must be a whole number, not ${JSON.stringify(digits)}`);
    }
    return `${JSON.stringify(name)}:${digits}`;
  });
  return `{${members.join(',')}}`;
}

/** The section of the forms. */
export class Provision {
  #token;
  #created;

  /** token() stands in for an administrator's that was not entered; created(path, fields) is told of success. */
  constructor(token, created) {
    this.#token = token;
    this.#created = created;
    $('admin-form').addEventListener('submit', (event) => event.preventDefault());
    for (const form of forms) {
      $(form.id).addEventListener('submit', (event) => {
        event.preventDefault();
        this.#send(form);
      });
    }
  }

  async #send({ id, path, done }) {
    const form = $(id);
    const fields = new FormData(form);
    const button = form.querySelector('button');
    this.#say(form, 'busy', 'asking the server …');
    button.disabled = true;
    try {
      await ask(path, { method: 'POST', body: toJSON(form, fields), token: $('admin-token').value.trim() || this.#token() });
      form.reset();
      this.#say(form, 'ok', done(fields));
      this.#created(path, fields);
    } catch (err) {
      this.#say(form, 'critical', reason(err));
    } finally {
      button.disabled = false;
    }
  }

  #say(form, state, text) {
    const result = form.querySelector('.result');
    setAttribute(result, 'data-state', state);
    setText(result, text);
  }
}

function reason(err) {
  if (!(err instanceof AnswerError)) throw err;
  if (err.status === 401) return `${err.message} (the administrator's token goes into the box above)`;
  return err.message;
}
