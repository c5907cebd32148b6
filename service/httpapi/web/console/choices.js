// Applies the language that was chosen here earlier. A plain script in the head, so that the page is never drawn in
// the other one first. Without a choice it is the first of the browser's that the console has.
(() => {
  let language;
  try {
    language = localStorage.getItem('shardid.language');
  } catch {
    // Storage is forbidden: the language of the address, or of the browser.
  }
  language ??= new URLSearchParams(location.search).get('lang') ?? navigator.languages.find((tag) => /^(en|zh)\b/i.test(tag));
  document.documentElement.lang = /^zh\b/i.test(language) ? 'zh-CN' : 'en';
})();
