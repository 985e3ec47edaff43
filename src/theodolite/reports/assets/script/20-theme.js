// Light or dark: as the system has it until somebody chooses.

const LOOK = dataOf("look");
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const themeListeners = [];

function theme() {
  return document.documentElement.dataset.theme || (systemDark.matches ? "dark" : "light");
}

function themeChanged() {
  document.getElementById("theme").textContent = theme() === "dark" ? "Light" : "Dark";
  document.getElementById("theme").setAttribute("aria-label", `Change to the ${theme() === "dark" ? "light" : "dark"} theme`);
  for (const listener of themeListeners) listener(theme());
}

function startTheme() {
  document.getElementById("theme").addEventListener("click", () => {
    const next = theme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("theodolite-theme", next); } catch { /* then it is for this visit alone */ }
    themeChanged();
  });
  systemDark.addEventListener("change", themeChanged);
  let kept; // paper is light
  addEventListener("beforeprint", () => { kept = document.documentElement.dataset.theme; document.documentElement.dataset.theme = "light"; themeChanged(); });
  addEventListener("afterprint", () => {
    if (kept) document.documentElement.dataset.theme = kept;
    else delete document.documentElement.dataset.theme;
    themeChanged();
  });
  themeChanged();
}

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
