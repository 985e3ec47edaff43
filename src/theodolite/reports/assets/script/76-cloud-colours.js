// Which colour a point has: a shade of the ramp for numbers, one of the palette for the most frequent classes, grey for the rest.

const OWN_COLOURS = 12;
const REST = 60000;
const HIDDEN = 65535;

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

function shadesOf(picture, by, classes, only) {
  const shades = new Uint16Array(picture.n).fill(by ? REST : 1000);
  const colour = picture.colours.find((one) => one.name === by);
  if (!colour) return shades;
  if (colour.kind === "number") {
    for (let i = 0; i < picture.n; i += 1) {
      if (colour.codes[i] !== GREY_NUMBER) shades[i] = Math.min(LOOK.ramp.length - 1, Math.floor((colour.codes[i] / 255) * LOOK.ramp.length));
    }
    return shades;
  }
  const places = colour.names.map((name) => classes.indexOf(name));
  for (let i = 0; i < picture.n; i += 1) {
    const at = colour.codes[i] === MISSING ? -1 : places[colour.codes[i]];
    shades[i] = at >= 0 && at < OWN_COLOURS ? 1000 + at : REST;
    if (only !== null && at !== only) shades[i] = HIDDEN;
    else if (only !== null) shades[i] = 1000 + Math.min(at, OWN_COLOURS - 1);
  }
  return shades;
}

function legendOf(cloud) {
  const colours = cloud.pictures.map((picture) => picture.colours.find((one) => one.name === cloud.by)).filter(Boolean);
  if (!colours.length) return [];
  if (colours[0].kind === "number") {
    const [low, high] = [Math.min(...colours.map((one) => one.low)), Math.max(...colours.map((one) => one.high))];
    const ramp = el("span", { class: "ramp", "aria-hidden": "true" }, ...LOOK.ramp.map((colour) => el("i", { colour })));
    const words = `frequent (${number(high, 3)}), log10 of its count in a thousand million words`;
    const unknown = colours.some((one) => one.codes.includes(GREY_NUMBER));
    return [el("span", {}, `rare (${number(low, 3)})`), ramp, el("span", {}, words + (unknown ? "; grey: not known" : ""))];
  }
  const chips = cloud.classes.slice(0, Math.max(OWN_COLOURS, 40)).map((name, at) => el("button", {
    type: "button", "aria-pressed": String(cloud.only === at), title: `Show ${name} alone`,
    onclick: () => cloud.choose(cloud.only === at ? null : at),
  }, el("i", { colour: at < OWN_COLOURS ? classColour(at) : LOOK.grey }), el("span", { class: "name" }, name || "(empty)")));
  if (cloud.classes.length > chips.length) chips.push(el("span", {}, `and ${cloud.classes.length - chips.length} more in grey`));
  return chips;
}
