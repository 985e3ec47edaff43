// Before anything is painted: the theme that was chosen last time, if the browser lets a file remember one.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("theodolite-theme"); } catch { /* a file may not be allowed to */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
