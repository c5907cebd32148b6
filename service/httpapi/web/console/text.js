// The texts in the language of the page, which language.js has set. The page's HTML has none of
// its own: it names those that stand there, by their keys.

import { text as english } from './en.js';
import { text as chinese } from './zh.js';

export const text = document.documentElement.lang === 'zh-CN' ? chinese : english;

/** The text of a key such as fleet.columns.state. */
function find(key) {
  const found = key.split('.').reduce((texts, name) => texts?.[name], text);
  if (typeof found !== 'string') throw new Error(`no text: ${key}`);
  return found;
}

for (const node of document.querySelectorAll('[data-text]')) node.textContent = find(node.dataset.text);
for (const node of document.querySelectorAll('[data-label]')) node.setAttribute('aria-label', find(node.dataset.label));
for (const node of document.querySelectorAll('[data-placeholder]')) node.setAttribute('placeholder', find(node.dataset.placeholder));
