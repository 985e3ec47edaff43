// Elements, data, theme and copying. Texts only ever get into the page as text.

const NONCE = document.body.dataset.nonce;

// Plotly makes style elements and style attributes as it draws; the page's policy lets neither through unless it comes this way.
const makeElement = document.createElement.bind(document);
document.createElement = (name, options) => {
  const element = makeElement(name, options);
  if (String(name).toLowerCase() === "style") element.setAttribute("nonce", NONCE);
  return element;
};
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (String(name).toLowerCase() === "style" && this.style) this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "colour") element.style.background = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function dataOf(id) {
  const holder = document.getElementById(`data-${id}`);
  return holder === null ? null : JSON.parse(holder.textContent);
}

// Read out by screen readers.
function announce(text) {
  document.getElementById("status").textContent = text;
}

// Light or dark: as the system has it until the reader chooses.

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
    try { localStorage.setItem("theodolite-theme", next); } catch { /* then it lasts for this visit only */ }
    themeChanged();
  });
  systemDark.addEventListener("change", themeChanged);
  let themeBefore; // paper is light
  addEventListener("beforeprint", () => { themeBefore = document.documentElement.dataset.theme; document.documentElement.dataset.theme = "light"; themeChanged(); });
  addEventListener("afterprint", () => {
    if (themeBefore) document.documentElement.dataset.theme = themeBefore;
    else delete document.documentElement.dataset.theme;
    themeChanged();
  });
  themeChanged();
}

function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A file that was opened from disk may not have a clipboard of its own: then a text area is copied from.

async function copyText(text, button) {
  let copied = false;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch {
    const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    copied = document.execCommand("copy");
    area.remove();
    button.focus();
  }
  const label = button.dataset.label || button.textContent;
  button.dataset.label = label;
  button.textContent = copied ? "Copied" : "Could not copy";
  announce(button.textContent);
  clearTimeout(button.waiting);
  button.waiting = setTimeout(() => { button.textContent = label; }, 1600);
}

function startCommands() {
  for (const button of document.querySelectorAll(".copy-command")) {
    button.addEventListener("click", () => copyText(button.parentElement.querySelector("code").textContent, button));
  }
}
