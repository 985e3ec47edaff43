// One view for both panels: from where, how near, and where it puts a point.

class View {
  constructor() {
    this.flat = true;
    this.reset();
  }

  reset() {
    this.zoom = 1;
    this.x = 0;
    this.y = 0;
    this.yaw = -0.6;
    this.pitch = 0.35;
  }

  move(dx, dy) {
    this.x += dx;
    this.y += dy;
  }

  turn(dx, dy) {
    this.yaw += dx;
    this.pitch = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, this.pitch + dy));
  }

  // Zoom so that what is under (x, y), in the panel's own units from its middle, stays there.
  nearer(factor, x = 0, y = 0) {
    const zoom = Math.max(0.3, Math.min(60, this.zoom * factor));
    const by = zoom / this.zoom;
    this.x = x - (x - this.x) * by;
    this.y = y - (y - this.y) * by;
    this.zoom = zoom;
  }

  // The rows of the turned axes: right, up, towards the eye.
  axes() {
    if (this.flat) return [1, 0, 0, 0, 1, 0, 0, 0, 1];
    const [c, s, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    return [c, s, 0, -s * sp, c * sp, cp, -s * cp, c * cp, -sp];
  }

  // Pixels for a length of 1; what is turned needs room for its corners.
  scale(width, height) {
    return (this.flat ? 0.46 : 0.37) * Math.min(width, height) * this.zoom;
  }

  // Places on the panel in pixels, and depths, of all points.
  project(xyz, width, height, out) {
    const [a, b, c, d, e, f, g, h, i] = this.axes();
    const scale = this.scale(width, height);
    const [left, top] = [width / 2 + this.x * Math.min(width, height), height / 2 + this.y * Math.min(width, height)];
    for (let n = 0, k = 0; k < xyz.length; n += 1, k += 3) {
      const [x, y, z] = [xyz[k], xyz[k + 1], xyz[k + 2]];
      out.x[n] = left + scale * (a * x + b * y + c * z);
      out.y[n] = top - scale * (d * x + e * y + f * z);
      out.depth[n] = g * x + h * y + i * z;
    }
    return out;
  }
}

// From the farthest to the nearest, in steps that no eye tells apart.
function byDepth(depth, order, levels = 1024) {
  const starts = new Uint32Array(levels + 1);
  const level = new Uint16Array(depth.length);
  for (let i = 0; i < depth.length; i += 1) {
    level[i] = Math.max(0, Math.min(levels - 1, Math.floor(((depth[i] + 1.2) / 2.4) * levels)));
    starts[level[i] + 1] += 1;
  }
  for (let k = 1; k <= levels; k += 1) starts[k] += starts[k - 1];
  for (let i = 0; i < depth.length; i += 1) { order[starts[level[i]]] = i; starts[level[i]] += 1; }
  return order;
}

// One panel: its points on one canvas, marks of what is pointed at on another above it.

const NEAR = 14; // pixels from a point within which it is pointed at

class CloudPanel {
  constructor(picture, view, cloud) {
    this.picture = picture;
    this.view = view;
    this.cloud = cloud;
    const n = picture.n;
    this.at = { x: new Float32Array(n), y: new Float32Array(n), depth: new Float32Array(n) };
    this.order = new Uint32Array(n).map((_, i) => i);
    this.points = el("canvas", { "aria-hidden": "true" });
    this.marks = el("canvas", { "aria-hidden": "true" });
    this.stage = el("div", { class: "stage", tabindex: "0", role: "application", "aria-roledescription": "cloud of points",
      "aria-label": `${picture.name}: ${n} points. Arrow keys move or turn, plus and minus zoom, 0 shows all again.` }, this.points, this.marks);
    const shares = picture.explained.map((share) => `${Math.round(100 * share)}%`).join(", ");
    this.element = el("div", { class: "panel" }, el("h4", {}, (cloud.states && picture.state) || picture.name,
      el("small", {}, `${n.toLocaleString("en")} points; ${shares} of the variance`)), this.stage);
    this.listen();
  }

  listen() {
    const stage = this.stage;
    const fingers = new Map();
    stage.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
      stage.setPointerCapture(event.pointerId);
    });
    const lift = (event) => fingers.delete(event.pointerId);
    stage.addEventListener("pointerup", lift);
    stage.addEventListener("pointercancel", lift);
    stage.addEventListener("pointermove", (event) => {
      if (fingers.has(event.pointerId)) this.drag(event, fingers);
      else this.cloud.point(this, this.nearest(event.offsetX, event.offsetY));
    });
    stage.addEventListener("click", (event) => this.cloud.point(this, this.nearest(event.offsetX, event.offsetY)));
    stage.addEventListener("wheel", (event) => {
      if (document.activeElement !== stage) return; // until a panel has the focus, the wheel scrolls the page
      event.preventDefault();
      this.zoomAt(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
    }, { passive: false });
    stage.addEventListener("keydown", (event) => this.key(event));
  }

  drag(event, fingers) {
    const [x, y] = fingers.get(event.pointerId);
    const [dx, dy] = [event.offsetX - x, event.offsetY - y];
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const [before, now] = [[x, y], [event.offsetX, event.offsetY]].map((at) => Math.hypot(at[0] - other[0], at[1] - other[1]));
      if (before > 0) this.zoomAt(now / before, (event.offsetX + other[0]) / 2, (event.offsetY + other[1]) / 2);
    } else if (this.view.flat || event.shiftKey) {
      this.view.move(dx / this.side, dy / this.side);
    } else {
      this.view.turn(-dx * 0.008, dy * 0.008);
    }
    this.cloud.draw();
  }

  key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (steps) {
      if (this.view.flat || event.shiftKey) this.view.move(-0.06 * steps[0], -0.06 * steps[1]);
      else this.view.turn(-0.12 * steps[0], 0.12 * steps[1]);
    } else if (event.key === "+" || event.key === "=") this.view.nearer(1.25);
    else if (event.key === "-") this.view.nearer(0.8);
    else if (event.key === "0") this.view.reset();
    else return;
    event.preventDefault();
    this.cloud.draw();
  }

  zoomAt(factor, x, y) {
    this.view.nearer(factor, (x - this.width / 2) / this.side, (y - this.height / 2) / this.side);
    this.cloud.draw();
  }

  nearest(x, y) {
    let [nearest, best] = [-1, NEAR * NEAR];
    for (let i = 0; i < this.picture.n; i += 1) {
      const away = (this.at.x[i] - x) ** 2 + (this.at.y[i] - y) ** 2;
      if (away < best && this.cloud.isShown(this.picture, i)) [nearest, best] = [i, away];
    }
    return nearest;
  }

  fit() {
    this.width = this.stage.clientWidth;
    this.height = this.stage.clientHeight;
    this.side = Math.min(this.width, this.height);
    this.scale = Math.min(2, devicePixelRatio || 1);
    this.dots = new Dots(this.picture.n, this.scale);
    for (const canvas of [this.points, this.marks]) {
      canvas.width = Math.round(this.width * this.scale);
      canvas.height = Math.round(this.height * this.scale);
      this.pen(canvas).setTransform(this.scale, 0, 0, this.scale, 0, 0);
    }
  }

  pen(canvas) {
    return canvas.getContext("2d", { willReadFrequently: true });
  }

  draw(shades) {
    const pen = this.pen(this.points);
    const { x, y, depth } = this.view.project(this.picture.xyz, this.width, this.height, this.at);
    pen.fillStyle = colourOf("surface");
    pen.fillRect(0, 0, this.width, this.height);
    drawAxes(pen, this);
    const image = pen.getImageData(0, 0, this.points.width, this.points.height);
    for (const i of this.view.flat ? this.cloud.order(this.picture) : byDepth(depth, this.order)) {
      if (shades[i] === HIDDEN || x[i] < -9 || y[i] < -9 || x[i] > this.width + 9 || y[i] > this.height + 9) continue;
      this.dots.blend(image, x[i] * this.scale, y[i] * this.scale, shades[i]);
    }
    pen.putImageData(image, 0, 0);
  }

  mark(points) {
    const pen = this.pen(this.marks);
    pen.clearRect(0, 0, this.width, this.height);
    pen.lineWidth = 2;
    for (const [i, strong] of points) {
      pen.strokeStyle = colourOf(strong ? "ink" : "accent");
      pen.beginPath();
      pen.arc(this.at.x[i], this.at.y[i], strong ? 8 : 5, 0, 7);
      pen.stroke();
    }
  }
}

function drawAxes(pen, panel) {
  const { view, width, height, picture } = panel;
  pen.strokeStyle = colourOf("line");
  pen.fillStyle = colourOf("soft");
  pen.font = "11px system-ui, sans-serif";
  pen.lineWidth = 1;
  const axes = view.axes();
  const scale = view.scale(width, height);
  const origin = { x: [0], y: [0], depth: [0] };
  view.project(picture.origin, width, height, origin);
  const [left, top] = [origin.x[0], origin.y[0]];
  const tick = nice(picture.width / view.zoom / 2);
  for (let k = 0; k < (view.flat ? 2 : 3); k += 1) {
    const [dx, dy] = [axes[k] * scale, -axes[3 + k] * scale];
    const far = view.flat ? 40 : 1.05;
    pen.beginPath();
    pen.moveTo(left - dx * far, top - dy * far);
    pen.lineTo(left + dx * far, top + dy * far);
    pen.stroke();
    const name = `direction ${k + 1}`;
    if (view.flat) {
      if (k === 0) pen.fillText(name, width - pen.measureText(name).width - 6, Math.max(12, Math.min(height - 6, top - 5)));
      else pen.fillText(name, Math.max(4, Math.min(width - 64, left + 5)), 13);
    } else pen.fillText(String(k + 1), left + dx * 1.1 - 3, top + dy * 1.1 + 4);
  }
  const length = (tick / picture.width) * scale; // a scale bar
  pen.beginPath();
  pen.moveTo(10, height - 10);
  pen.lineTo(10 + length, height - 10);
  pen.strokeStyle = colourOf("soft");
  pen.stroke();
  pen.fillText(String(Number(tick.toPrecision(1))), 10, height - 15);
}

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [5, 2, 1].find((step) => step * power <= value) * power;
}
