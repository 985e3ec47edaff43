// Elements and data. Texts only ever go into the page as text.

const NONCE = document.body.dataset.nonce;

// Plotly makes style elements and style attributes as it draws; the page's policy lets neither through unless it comes this way.
const makeElement = document.createElement.bind(document);
document.createElement = (name, options) => {
  const made = makeElement(name, options);
  if (String(name).toLowerCase() === "style") made.setAttribute("nonce", NONCE);
  return made;
};
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (String(name).toLowerCase() === "style" && this.style) this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "colour") made.style.background = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function dataOf(id) {
  const holder = document.getElementById(`data-${id}`);
  return holder === null ? null : JSON.parse(holder.textContent);
}

function say(text) {
  document.getElementById("said").textContent = text;
}
