// Applies the theme that was chosen here earlier. A plain script in the head, so
// that the page is never drawn in another one first.
(() => {
  try {
    const theme = localStorage.getItem('shardid.theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is forbidden: the system's theme it is.
  }
})();
