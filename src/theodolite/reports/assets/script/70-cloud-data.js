// Clouds unpacked: coordinates in [-1, 1], codes of tokens, sentences and colours.

const MISSING = 65535;
const GREY_NUMBER = 255;

function bytesOf(packed) {
  const text = atob(packed);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function unpacked(picture) {
  if (picture.xyz) return picture;
  const steps = new Int16Array(bytesOf(picture.points).buffer);
  picture.xyz = new Float32Array(steps.length);
  // A few points lie far outside: the view is of the middle of all but one in two hundred at either end of each direction.
  const ends = [0, 1, 2].map((axis) => {
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
  for (const colour of picture.colours) {
    const bytes = bytesOf(colour.codes);
    colour.codes = colour.kind === "number" ? bytes : new Uint16Array(bytes.buffer);
  }
  return picture;
}

// One class has one colour in both panels: places are those of the names, over both.
function classesOf(pictures, name) {
  const counts = new Map();
  for (const picture of pictures) {
    const colour = picture.colours.find((one) => one.name === name);
    if (!colour || colour.kind !== "class") continue;
    for (const code of colour.codes) if (code !== MISSING) counts.set(colour.names[code], (counts.get(colour.names[code]) || 0) + 1);
  }
  const names = [...counts.keys()];
  if (name !== "cluster") names.sort((a, b) => counts.get(b) - counts.get(a) || a.localeCompare(b, "en"));
  else names.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return names;
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
