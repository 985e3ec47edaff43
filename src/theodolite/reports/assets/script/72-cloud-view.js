// One view for both panels: where it looks from, how near, and what that makes of a point.

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
