// Applies the theme and the language that were chosen here earlier. A plain script in the head, so
// that the page is never drawn in others first. Without a choice the language is the first of
// the browser's that the console has.
(() => {
  const root = document.documentElement;
  let theme, language;
  try {
    theme = localStorage.getItem('shardid.theme');
    language = localStorage.getItem('shardid.language');
  } catch {
    // Storage is forbidden: the system's theme it is, and the language of the address or the browser.
  }
  if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  language ??= new URLSearchParams(location.search).get('lang') ?? navigator.languages.find((tag) => /^(en|zh)\b/i.test(tag));
  root.lang = /^zh\b/i.test(language) ? 'zh-CN' : 'en';
})();
