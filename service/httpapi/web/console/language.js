// Sets the language of the page: that of its address (?lang=zh), or else the first of the browser's that the console
// has. A plain script in the head, so that the page is never drawn in the other one first.
{
  const language = new URLSearchParams(location.search).get('lang') ?? navigator.languages.find((tag) => /^(en|zh)\b/i.test(tag));
  document.documentElement.lang = /^zh\b/i.test(language) ? 'zh-CN' : 'en';
}
