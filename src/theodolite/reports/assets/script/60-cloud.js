// Clouds side by side, with one view, one colouring, and the sentence of the point that the reader points at.

class Cloud {
  constructor(place, data) {
    this.data = data;
    this.view = new View();
    this.only = null;
    this.matches = [];
    this.ownColours = data.ownColours;
    this.panels = [];
    this.holder = el("div", { class: "panels" });
    this.legend = el("div", { class: "legend" });
    this.info = el("div", { class: "point-info", "aria-live": "polite" });
    place.append(this.tools(), this.holder, this.legend, this.info);
    this.show(0);
    this.drawNow();
    performance.mark("clouds drawn");
    new ResizeObserver(() => { this.panels.forEach((panel) => panel.fit()); this.drawNow(); }).observe(this.holder);
    themeListeners.push(() => this.drawNow());
  }

  tools() {
    const button = (text, label, click) => el("button", { type: "button", "aria-label": label, title: label, onclick: click }, text);
    this.flat = el("button", { type: "button", id: "cloud-2d", onclick: () => this.turn(true) }, "2-D");
    this.deep = el("button", { type: "button", id: "cloud-3d", onclick: () => this.turn(false) }, "3-D");
    this.pairChoice = el("select", { id: "cloud-pair", onchange: () => this.show(Number(this.pairChoice.value)) },
      ...this.data.pairs.map((pair, at) => el("option", { value: at }, pair.title)));
    this.colourChoice = el("select", { id: "cloud-colour", onchange: () => this.colourBy(this.colourChoice.value) });
    this.search = el("input", { type: "search", id: "cloud-find", placeholder: "a token", oninput: () => this.find(), onkeydown: (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
    } });
    const zoom = (factor) => () => { this.view.nearer(factor); this.draw(); };
    return el("div", { class: "cloud-tools" },
      this.data.pairs.length > 1 ? el("label", {}, "Clouds", this.pairChoice) : null,
      el("span", { class: "group", role: "group", "aria-label": "Dimensions" }, this.flat, this.deep),
      this.colourLabel = el("label", {}, "Coloured by", this.colourChoice),
      this.data.tokens.length ? el("label", {}, "Find", this.search) : null,
      el("span", { class: "group", role: "group", "aria-label": "View" }, button("+", "Zoom in", zoom(1.4)), button("−", "Zoom out", zoom(1 / 1.4)),
        button("Reset", "Show all points again", () => { this.view.reset(); this.draw(); })));
  }

  show(at) {
    const pair = this.data.pairs[at];
    this.states = pair.states;
    this.colourings = this.data.groups[pair.group];
    this.pictures = pair.at.map((place) => unpacked(this.data.pictures[place], this.colourings));
    this.panels = this.pictures.map((picture) => new CloudPanel(picture, this.view, this));
    this.holder.replaceChildren(...this.panels.map((panel) => panel.element));
    this.panels.forEach((panel) => panel.fit());
    this.colourLabel.hidden = this.colourings.length === 0;
    this.colourChoice.replaceChildren(...this.colourings.map(({ name, title }) => el("option", { value: name }, title)));
    this.turn(this.view.flat);
    this.find();
    this.colourBy(this.colouring ? this.colouring.name : "");
    this.describe(null, -1);
  }

  turn(flat) {
    this.view.flat = flat;
    this.flat.setAttribute("aria-pressed", String(flat));
    this.deep.setAttribute("aria-pressed", String(!flat));
    this.draw();
  }

  colourBy(name) {
    this.colouring = this.colourings.find((each) => each.name === name) || this.colourings[0] || null;
    if (this.colouring) this.colourChoice.value = this.colouring.name;
    this.showOnly(null);
  }

  showOnly(only) {
    this.only = only;
    this.shades = new Map(this.pictures.map((picture) => [picture, shadesOf(picture, this.colouring, this.ownColours, only)]));
    this.orders = new Map(this.pictures.map((picture) => [picture, greyFirst(this.shades.get(picture))]));
    this.legend.replaceChildren(...legendOf(this));
    this.draw();
  }

  order(picture) { return this.orders.get(picture); }

  isShown(picture, i) { return this.shades.get(picture)[i] !== HIDDEN; }

  draw() {
    if (this.waiting || !this.shades) return;
    this.waiting = requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    cancelAnimationFrame(this.waiting);
    this.waiting = 0;
    for (const panel of this.panels) if (panel.width) panel.draw(this.shades.get(panel.picture));
    this.mark();
    this.holder.dataset.drawn = String(Number(this.holder.dataset.drawn || 0) + 1);
  }

  mark() {
    for (const panel of this.panels) {
      const marks = this.matches.filter(([picture]) => picture === panel.picture).slice(0, 400).map(([, i]) => [i, false]);
      const same = this.pointed && (this.pointed.panel === panel || this.pointed.panel.picture.same === panel.picture.same);
      if (same && this.pointed.at < panel.picture.n) marks.push([this.pointed.at, true]);
      panel.mark(marks);
    }
  }

  point(panel, at) {
    if (at < 0 && !this.pointed || this.pointed && this.pointed.panel === panel && this.pointed.at === at) return;
    this.pointed = at < 0 ? null : { panel, at };
    if (at >= 0) this.describe(panel.picture, at);
    this.mark();
  }

  find() {
    const query = this.search.value.trim().toLowerCase();
    this.matches = [];
    this.step = -1;
    if (query && this.data.tokens.length) {
      const codes = new Set(this.data.tokens.flatMap((token, code) => (bare(token).toLowerCase() === query ? [code] : [])));
      for (const picture of this.pictures) {
        if (picture.token) picture.token.forEach((code, i) => { if (codes.has(code)) this.matches.push([picture, i]); });
      }
      this.info.replaceChildren(el("p", { class: "about" }, `${this.matches.length} of the points shown are “${this.search.value.trim()}”`,
        this.matches.length ? "; Enter goes from one to the next." : "."));
    }
    this.mark();
  }

  next(by) {
    if (!this.matches.length) return;
    this.step = (this.step + by + this.matches.length) % this.matches.length;
    const [picture, at] = this.matches[this.step];
    this.pointed = { panel: this.panels.find((panel) => panel.picture === picture), at };
    this.describe(picture, at);
    this.mark();
  }

  describe(picture, at) {
    if (picture === null) {
      this.info.replaceChildren(el("p", { class: "about" }, "Point at a dot to read what it is."));
      return;
    }
    const token = picture.token ? this.data.tokens[picture.token[at]] : "";
    const sentence = picture.text ? this.data.sentences[picture.text[at]] : "";
    const known = this.colourings.map((colouring) => [colouring.title, valueOf(picture, colouring, at)])
      .filter(([, value]) => value !== null).map((pair) => pair.join(" "));
    const about = el("p", { class: "about" }, token ? el("b", {}, el("bdi", {}, token)) : `point ${at + 1}`);
    if (known.length) about.append(el("span", {}, "  ", el("bdi", {}, known.join(" · "))));
    const line = el("p", { class: "sentence", dir: "auto" });
    for (const [text, marked] of sentence ? markedParts(sentence, token) : []) line.append(marked ? el("mark", {}, text) : text);
    this.info.replaceChildren(about, line);
  }
}

// Grey points are drawn first, so that they hide none that have a colour.
function greyFirst(shades) {
  const order = new Uint32Array(shades.length);
  let at = 0;
  for (let i = 0; i < shades.length; i += 1) if (shades[i] === REST) order[at++] = i;
  for (let i = 0; i < shades.length; i += 1) if (shades[i] !== REST) order[at++] = i;
  return order;
}

function startCloud() {
  const place = document.getElementById("cloud-place");
  if (place === null) return;
  new Cloud(place, dataOf("clouds"));
}
