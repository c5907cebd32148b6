// Making, changing and deleting apps, tags, names of worker IDs and spaces, in one dialog that opens on demand. The
// administrator's token stays in this page's memory and goes into the header of these
// requests only. What cannot be taken back wants the name typed.

import { $, el, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { digits } from './format.js';
import { AnswerError, ask } from './net.js';

const number = { inputmode: 'numeric', 'data-kind': 'number', required: true };
const some = (value) => ({ ...number, value });
const bits = { inputmode: 'numeric', 'data-kind': 'number' };
const name = { maxlength: 128, required: true };

/**
 * What can be administered: its path and its fields, of a new one and those that can be changed. A field is its name,
 * the attributes of its input, and the key of its label where that is another one. One with `of` is sent only when
 * that other one is filled.
 */
const kinds = {
  app: {
    path: 'admin/apps',
    create: [['id', number], ['name', name], ['description', { maxlength: 255 }], ['step', some('1000')], ['maxLimitId', some('0')], ['limitPolicy', {}], ['scramble', { 'data-kind': 'literal' }]],
    edit: [['name', name], ['description', { maxlength: 255 }], ['step', number], ['maxLimitId', number], ['limitPolicy', {}]],
  },
  tag: {
    path: 'admin/tags',
    create: [['tag', name], ['description', { maxlength: 256 }], ['step', some('2000')], ['maxId', some('1')], ['shardBits', bits], ['pattern', { maxlength: 128 }], ['reset', { of: 'pattern' }], ['zone', { maxlength: 64, of: 'pattern' }]],
    edit: [['description', { maxlength: 256 }], ['step', number], ['maxId', number, 'nextId']],
  },
  name: {
    path: 'admin/names',
    create: [['name', { ...name, maxlength: 64 }], ['epoch', some('1288834974657')], ['workerBits', some('10')], ['seqBits', some('12')], ['shardBits', bits], ['hold', { value: '60s', required: true }]],
    edit: [['hold', { required: true }]],
  },
  space: {
    path: 'admin/sequences',
    create: [['space', { ...name, maxlength: 64 }], ['sections', some('1024')], ['step', some('10000')]],
    edit: [['step', number]],
  },
};

/** The dialog. */
export class Admin {
  #token = '';
  #pageToken;
  #changed;
  #task = null;
  #before = {}; // the fields as the server has them, as texts
  #ready = false; // the token is right and the fields are shown

  /** pageToken() stands in for an administrator's that was not entered; changed(task, answer) is told of success. */
  constructor(pageToken, changed) {
    this.#pageToken = pageToken;
    this.#changed = changed;
    $('admin-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#submit();
    });
    $('admin-form').addEventListener('input', () => this.#guard());
    $('admin-cancel').addEventListener('click', () => $('admin').close());
    $('admin').addEventListener('close', () => $('admin-fields').replaceChildren());
  }

  /** Makes an app, tag, name or space, for which some values are proposed. */
  create(kind, values) {
    const { path } = kinds[kind];
    const create = kinds[kind].create.map(([name, attributes, ...label]) => [name, { ...attributes, value: values[name] ?? attributes.value }, ...label]);
    const what = (sent) => text.admin[kind](sent.get(create[0][0]), sent.get('name'));
    this.#open({ does: 'create', kind, path, fields: create, title: text.admin.titles[kind], what });
  }

  edit(kind, key, called = key) {
    this.#openOne(kind, key, called, { does: 'edit', fields: kinds[kind].edit, title: text.admin.titles.edit });
  }

  remove(kind, key, called = key) {
    this.#openOne(kind, key, called, { does: 'remove', fields: [], title: text.admin.titles.remove });
  }

  #openOne(kind, key, called, { title, ...task }) {
    const label = text.admin[kind](key, called);
    this.#open({ kind, path: `${kinds[kind].path}/${encodeURIComponent(key)}`, name: called, title: title(label), what: () => label, ...task });
  }

  #open(task) {
    this.#task = task;
    this.#ready = false;
    this.#token ||= this.#pageToken();
    setText($('admin-title'), task.title);
    setAttribute($('admin-done'), 'hidden', true);
    this.#say('', '');
    this.#show();
    $('admin').showModal();
    if (this.#token) this.#load();
  }

  /** Shows the box for the token, or the fields of the task. */
  #show() {
    const { does, kind } = this.#task;
    setAttribute($('admin-token-row'), 'hidden', this.#ready || this.#token !== '');
    setAttribute($('admin-fields'), 'hidden', !this.#ready);
    setText($('admin-warning'), this.#ready && does === 'remove' ? text.admin.warnings[kind] : '');
    setText($('admin-submit'), this.#ready ? text.admin.submits[does] : text.admin.submits.token);
    setAttribute($('admin-submit'), 'data-kind', this.#ready && does === 'remove' ? 'critical' : null);
    this.#guard();
  }

  /** Looks what there is to change, and so whether the token is right; for what is new, by an answer that is short. */
  async #load() {
    const task = this.#task;
    await this.#busy(async () => {
      const { answer } = await ask(task.does === 'create' ? 'admin/log' : task.path, { token: this.#token });
      if (task !== this.#task) return;
      this.#before = Object.fromEntries(task.fields.map(([name]) => [name, String(answer[`${name}Str`] ?? answer[name] ?? '')]));
      this.#ready = true;
      $('admin-fields').replaceChildren(...this.#inputs());
      this.#show();
      $('admin-fields').querySelector('input')?.focus();
    });
  }

  #inputs() {
    const { does, name } = this.#task;
    const rows = this.#task.fields.flatMap(([field, attributes, label = field]) => {
      const present = does === 'edit' ? this.#before[field] : attributes.value ?? '';
      const { of, ...own } = attributes;
      const choices = text.admin.choices[field];
      const input = choices
        ? el('select', {}, ...Object.entries(choices).map(([value, words]) => el('option', { value, selected: value === present }, words)))
        : el('input', { ...own, value: attributes['data-kind'] === 'number' ? digits(present) : present, autocomplete: 'off', spellcheck: 'false' });
      return row(field, text.admin.fields[label], input, text.admin.hints[label]);
    });
    if (does === 'create') return rows;
    const confirm = row('confirm', text.admin.fields.confirm(name), el('input', { autocomplete: 'off', spellcheck: 'false' }), does === 'edit' ? text.admin.wrapWarning : '');
    return [...rows, ...confirm];
  }

  /** Wants the name where something cannot be taken back: a deletion, and IDs that repeat. */
  #guard() {
    const { does, name } = this.#task;
    const { confirm, limitPolicy } = $('admin-form').elements;
    const wanted = this.#ready && (does === 'remove' || (does === 'edit' && limitPolicy?.value === 'wrap' && this.#before.limitPolicy !== 'wrap'));
    for (const node of $('admin-fields').querySelectorAll('[data-field=confirm]')) setAttribute(node, 'hidden', !wanted);
    $('admin-submit').disabled = wanted && confirm?.value !== name;
    return wanted;
  }

  #submit() {
    if ($('admin-result').dataset.state === 'busy') return;
    if (!this.#ready) {
      this.#token = $('admin-token').value.trim() || this.#token;
      $('admin-token').value = '';
      this.#ready = $('admin-fields').hasChildNodes(); // They were filled before a token was refused.
    }
    if (!this.#ready) {
      this.#load();
      return;
    }
    this.#show();
    this.#send();
  }

  async #send() {
    const task = this.#task;
    const confirm = this.#guard() ? $('admin-form').elements.confirm.value : undefined;
    await this.#busy(async () => {
      const sent = this.#values();
      if (task.does === 'edit' && sent.size === 0) throw new AnswerError(0, text.admin.nothing);
      const method = { create: 'POST', edit: 'PATCH', remove: 'DELETE' }[task.does];
      const body = task.does === 'remove' ? undefined : toJSON(sent);
      const { answer } = await ask(task.path, { method, body, confirm, token: this.#token });
      if (task === this.#task) $('admin').close();
      setText($('admin-done'), text.admin.done[task.does](task.what(sent), answer.effective));
      setAttribute($('admin-done'), 'hidden', false);
      this.#changed(task, answer);
    });
  }

  /** The fields that were filled, or changed, by name. Throws AnswerError for a number that is none. */
  #values() {
    const sent = new Map();
    for (const [name, attributes, label = name] of this.#task.fields) {
      let { value } = $('admin-form').elements[name];
      if (attributes['data-kind'] === 'number') {
        value = value.replace(/[\s,_]/g, '');
        if ((value !== '' || attributes.required) && !/^(0|[1-9]\d{0,18})$/.test(value)) throw new AnswerError(0, text.admin.wholeNumber(text.admin.fields[label], value));
      }
      if (attributes.of && $('admin-form').elements[attributes.of].value === '') continue;
      if (this.#task.does === 'create' && value === '' && !attributes.required) continue;
      if (this.#task.does === 'create' || value !== this.#before[name]) sent.set(name, value);
    }
    return sent;
  }

  /**
   * Runs a question and says what came of it, unless another task has begun; another token can be given when this one
   * is refused.
   */
  async #busy(question) {
    const task = this.#task;
    this.#say('busy', text.admin.busy);
    $('admin-submit').disabled = true;
    try {
      await question();
      if (task === this.#task) this.#say('', '');
    } catch (err) {
      if (!(err instanceof AnswerError)) throw err;
      if (task !== this.#task) return;
      if (err.status === 401 || err.status === 403) {
        this.#token = '';
        this.#ready = false;
        this.#show();
      }
      this.#say('critical', err.message);
    } finally {
      this.#guard();
    }
  }

  #say(state, words) {
    setAttribute($('admin-result'), 'data-state', state || null);
    setText($('admin-result'), words);
  }
}

/** The parts of a field: its label, its input, and a hint. */
function row(name, label, input, hint) {
  const id = `admin-${name}`;
  for (const [attribute, value] of [['id', id], ['name', name], ['data-field', name]]) setAttribute(input, attribute, value);
  if (hint) setAttribute(input, 'aria-describedby', `${id}-hint`);
  return [
    el('label', { for: id, 'data-field': name }, label),
    input,
    ...(hint ? [el('p', { id: `${id}-hint`, class: 'hint', 'data-field': name }, hint)] : []),
  ];
}

/** Fields as JSON. Numbers, true and false are copied as they are: a limit is a 64-bit number, which JSON.stringify could not write. */
function toJSON(sent) {
  const isNumber = new Set(Object.values(kinds).flatMap(({ create, edit }) => [...create, ...edit]).filter(([, attributes]) => ['number', 'literal'].includes(attributes['data-kind'])).map(([name]) => name));
  return `{${[...sent].map(([name, value]) => `${JSON.stringify(name)}:${isNumber.has(name) ? value : JSON.stringify(value)}`).join(',')}}`;
}
