// Clouds unpacked: coordinates in [-1, 1], codes of tokens, sentences and colours; and which colour each point has.

const MISSING = 65535;
const GREY_NUMBER = 255;

function bytesOf(packed) {
  const text = atob(packed);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function unpacked(picture, colourings) {
  if (picture.xyz) return picture;
  const steps = new Int16Array(bytesOf(picture.points).buffer);
  picture.xyz = new Float32Array(steps.length);
  // A few points are far outside: the view leaves out one in two hundred at either end of each direction.
  // Clouds in one frame share a view, so that what moved can be seen.
  const ends = picture.ends || [0, 1, 2].map((axis) => {
    const sorted = steps.filter((_, i) => i % 3 === axis).sort();
    return [0.005, 0.995].map((share) => sorted[Math.round(share * (sorted.length - 1))]);
  });
  const middle = ends.map(([low, high]) => (low + high) / 2);
  const reach = Math.max(...ends.map(([low, high]) => (high - low) / 2)) || 1;
  for (let i = 0; i < steps.length; i += 1) picture.xyz[i] = (steps[i] - middle[i % 3]) / reach;
  picture.origin = middle.map((value) => -value / reach);
  picture.width = (picture.reach * reach) / 32767;
  for (const name of ["token", "text"]) {
    if (picture[name]) picture[name] = new Uint32Array(bytesOf(picture[name]).buffer);
  }
  for (const colouring of colourings) {
    const codes = picture.codes[colouring.name];
    if (codes) picture.codes[colouring.name] = colouring.kind === "number" ? bytesOf(codes) : new Uint16Array(bytesOf(codes).buffer);
  }
  return picture;
}

// What is known of a point in this colouring: a number, the name of a class, or null.
function valueOf(picture, colouring, i) {
  const codes = picture.codes[colouring.name];
  if (!codes || codes[i] === (colouring.kind === "number" ? GREY_NUMBER : MISSING)) return null;
  if (colouring.kind === "class") return colouring.names[codes[i]];
  return number(Number((colouring.low + (codes[i] / 254) * (colouring.high - colouring.low)).toFixed(2)));
}

// The token as it is written: without the marks by which tokenizers say that a word begins or goes on.
function bare(token) {
  return token.replace(/^(##|Ġ|▁)+/, "").replace(/(@@|<\/w>)$/, "");
}

// The sentence in parts, [text, whether it is the token]; a token that starts a word is looked for at the start of one first.
function markedParts(sentence, token) {
  const word = bare(token).toLowerCase();
  const whole = sentence.toLowerCase();
  if (!word || whole.length !== sentence.length) return [[sentence, false]];
  const at = [];
  for (let i = whole.indexOf(word); i >= 0; i = whole.indexOf(word, i + word.length)) at.push(i);
  const letter = /[\p{L}\p{N}]/u;
  const inside = token.startsWith("##");
  const apart = at.filter((i) => letter.test(whole[i - 1] || " ") === inside && (inside || !letter.test(whole[i + word.length] || " ")));
  const starts = at.filter((i) => letter.test(whole[i - 1] || " ") === inside);
  const chosen = apart.length ? apart : starts.length ? starts : at;
  const parts = [];
  let last = 0;
  for (const i of chosen) {
    parts.push([sentence.slice(last, i), false], [sentence.slice(i, i + word.length), true]);
    last = i + word.length;
  }
  parts.push([sentence.slice(last), false]);
  return parts.filter(([text]) => text);
}

const REST = 60000;
const HIDDEN = 65535;
const MOST_CHIPS = 40;

// Dots are blended into a panel's pixels one by one: as fast without a graphics card as with one.
class Dots {
  // Few points are drawn large, many small; `scale` is pixels of the screen for one of the page.
  constructor(count, scale) {
    const across = Math.max(3.6, Math.min(7, 420 / Math.sqrt(count || 1))) * scale;
    this.size = Math.ceil(across) + 1;
    this.mask = new Uint8Array(this.size * this.size);
    for (let i = 0; i < this.mask.length; i += 1) {
      const away = Math.hypot((i % this.size) - (this.size - 1) / 2, Math.floor(i / this.size) - (this.size - 1) / 2);
      this.mask[i] = Math.round(180 * Math.max(0, Math.min(1, across / 2 - away + 0.5)));
    }
    this.colours = new Map();
  }

  colour(shade) {
    if (!this.colours.has(shade)) {
      const hex = shadeColour(shade);
      this.colours.set(shade, [...[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)), shade === REST ? 0.4 : 1]);
    }
    return this.colours.get(shade);
  }

  blend(image, x, y, shade) {
    const [red, green, blue, strength] = this.colour(shade);
    const { data, width, height } = image;
    const [left, top] = [Math.round(x - this.size / 2), Math.round(y - this.size / 2)];
    for (let row = Math.max(0, -top); row < this.size && top + row < height; row += 1) {
      for (let column = Math.max(0, -left); column < this.size && left + column < width; column += 1) {
        const share = (this.mask[row * this.size + column] * strength) / 255;
        if (share === 0) continue;
        const at = 4 * ((top + row) * width + left + column);
        data[at] += (red - data[at]) * share;
        data[at + 1] += (green - data[at + 1]) * share;
        data[at + 2] += (blue - data[at + 2]) * share;
      }
    }
  }
}

// Shades below 1000 are of the ramp, from 1000 on of the palette.
function shadeColour(shade) {
  if (shade === REST) return LOOK.grey;
  return shade < 1000 ? LOOK.ramp[shade] : classColour(shade - 1000);
}

function classColour(at) {
  return LOOK.classes[at % LOOK.classes.length];
}

// A shade of the ramp for numbers, a colour of the palette for the first classes, grey for the rest; `only` shows one class alone.
function shadesOf(picture, colouring, ownColours, only) {
  const shades = new Uint16Array(picture.n).fill(colouring ? REST : 1000);
  const codes = colouring && picture.codes[colouring.name];
  if (!codes) return shades;
  for (let i = 0; i < picture.n; i += 1) {
    const code = codes[i];
    if (colouring.kind === "number") {
      if (code !== GREY_NUMBER) shades[i] = Math.min(LOOK.ramp.length - 1, Math.floor((code / 255) * LOOK.ramp.length));
    } else if (only !== null) {
      shades[i] = code === only ? 1000 + Math.min(code, ownColours - 1) : HIDDEN;
    } else if (code < ownColours) shades[i] = 1000 + code;
  }
  return shades;
}

function legendOf(cloud) {
  const { colouring, ownColours } = cloud;
  if (!colouring) return [];
  if (colouring.kind === "number") {
    const ramp = el("span", { class: "ramp", "aria-hidden": "true" }, ...LOOK.ramp.map((colour) => el("i", { colour })));
    const unknown = cloud.pictures.some((picture) => (picture.codes[colouring.name] || []).includes(GREY_NUMBER));
    return [el("span", {}, `${colouring.title}: rare ${number(colouring.low, 3)}`), ramp,
      el("span", {}, `frequent ${number(colouring.high, 3)}${unknown ? "; grey: not known" : ""}`)];
  }
  const names = colouring.names.slice(0, MOST_CHIPS);
  const chips = names.map((name, at) => el("button", {
    type: "button", "aria-pressed": String(cloud.only === at), title: `Show ${name} alone`,
    onclick: () => cloud.showOnly(cloud.only === at ? null : at),
  }, el("i", { colour: at < ownColours ? classColour(at) : LOOK.grey }), el("span", { class: "name" }, name)));
  if (colouring.names.length > chips.length) chips.push(el("span", {}, `and ${colouring.names.length - chips.length} more in grey`));
  return chips;
}
