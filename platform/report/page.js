"use strict";
// Draws the figures of the page into their SVG elements, as wide as they are; legend, tooltips, files of a figure.
(() => {
  const { figures, styles, columns, template } = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Set();
  const tip = document.getElementById("tip");
  const SHAPES = {
    circle: "M4 0A4 4 0 1 1-4 0A4 4 0 1 1 4 0Z",
    square: "M-3.5-3.5H3.5V3.5H-3.5Z",
    cross: "M-4-2L-2-4L0-2L2-4L4-2L2 0L4 2L2 4L0 2L-2 4L-4 2L-2 0Z",
    diamond: "M0-5L4.5 0L0 5L-4.5 0Z",
    up: "M0-4.5L4.5 3.5H-4.5Z",
    down: "M0 4.5L4.5-3.5H-4.5Z",
    plus: "M-1.4-4.5H1.4V-1.4H4.5V1.4H1.4V4.5H-1.4V1.4H-4.5V-1.4H-1.4Z",
  };

  function add(parent, name, attributes, text) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }

  function show(value) {
    if (value === null) return "–";
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1).replace("e+", "e").replace(".0e", "e");
    return String(+value.toPrecision(4));
  }

  // Ranges, as in drawing.py, of the methods that are shown: [low, high, zero], zero the place of 0 on a log axis.
  const BARS = { xy: 1, rows: 3 };
  const LANE = 0.15;

  function along(panel, name) {
    const zero = panel.zero_line ? [[[0], []]] : [];
    return zero.concat(shown(panel).map((series) => [series[name], series.low.concat(series.high)]));
  }

  function span(extents, panel, log) {
    let points = extents.flatMap((extent) => extent[0]).filter((value) => value !== null);
    let bars = extents.flatMap((extent) => extent[1]).filter((value) => value !== null);
    const zero = log && points.concat(bars).includes(0);
    if (log) [points, bars] = [points, bars].map((values) => values.filter((value) => value > 0).map(Math.log10));
    let [low, high] = log ? [-1, 0] : [0, 1];
    if (points.length) {
      [low, high] = [Math.min(...points), Math.max(...points)];
      const room = high > low ? (high - low) * BARS[panel.kind] : Infinity;
      [low, high] = [Math.max(Math.min(low, ...bars), low - room), Math.min(Math.max(high, ...bars), high + room)];
      const pad = 0.05 * (high - low) || 0.5 * Math.abs(low) || 0.5;
      [low, high] = [low - pad, high + pad];
    }
    if (!log) return [low, high, null];
    const lane = zero ? LANE * (high - low) : 0;
    return [10 ** (low - lane), 10 ** high, zero ? 10 ** (low - lane / 2) : null];
  }

  function ranges(figure, panel) {
    if (panel.x_names.length) return [[-0.6, panel.x_names.length - 0.4, null], null];
    const together = panel.share ? figure.panels.filter((other) => other.share === panel.share) : [panel];
    if (panel.kind === "rows") return [span(together.flatMap((other) => along(other, "x")), panel, panel.x_log), null];
    const across = shown(panel).map((series) => [series.x, []]);
    return [span(across, panel, panel.x_log), span(together.flatMap((other) => along(other, "y")), panel, panel.y_log)];
  }

  const shown = (panel) => panel.series.filter((series) => !hidden.has(series.method));

  // Pixels of a value; inside the axis, also where a bar ends at zero or below on a logarithmic one.
  function scale([low, high, zero], from, to, log) {
    const f = log ? Math.log10 : (value) => value;
    const inside = (value) => (log && value <= 0 ? zero ?? low : within(value, low, high));
    return (value) => from + ((f(inside(value)) - f(low)) / (f(high) - f(low))) * (to - from);
  }

  const laneEnd = ([low, , zero]) => zero * (zero / low); // where the logarithmic part begins

  function ticks([low, high, zero], count, log) {
    if (zero) return [0, ...ticks([laneEnd([low, high, zero]), high, null], count, log)];
    const found = [];
    if (log) {
      const decades = Math.log10(high / low);
      const every = Math.max(1, Math.ceil(decades / count));
      const steps = decades < 1.2 ? [1, 2, 3, 5, 7] : decades < 2.2 ? [1, 2, 5] : [1];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
        for (const step of steps) {
          const value = step * 10 ** power;
          if (value >= low && value <= high && (steps.length > 1 || power % every === 0)) found.push(value);
        }
      return found;
    }
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const sizes = [1, 2, 5, 10];
    for (let size = sizes.findIndex((s) => s * power >= raw); size >= 0 && found.length < 2; size--) {
      const step = power * sizes[size]; // a single tick shows no scale: take a finer step
      found.length = 0;
      for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(i * step);
    }
    return found;
  }

  // Those of the values that have room beside each other, from the first on.
  function fitting(values, x) {
    let last = -Infinity;
    return values.filter((value) => x(value) - last >= 7 * show(value).length + 8 && ((last = x(value)), true));
  }

  function axisX(svg, panel, range, x, box) {
    const own = panel.x_ticks.filter((value) => value >= range[0] && value <= range[1]);
    const count = Math.max(3, Math.floor((box.right - box.left) / 60));
    const named = [...panel.x_names.keys()];
    const at = named.length ? named : own.length ? fitting(own, x) : ticks(range, count, panel.x_log);
    for (const value of at) {
      add(svg, "line", { class: "grid", x1: x(value), x2: x(value), y1: box.top, y2: box.bottom });
      const lower = named.length ? 12 * (value % 2) : 0; // names are on two lines
      const text = named.length ? panel.x_names[value] : show(value);
      add(svg, "text", { x: x(value), y: box.bottom + 14 + lower, "text-anchor": "middle" }, text);
    }
    if (range[2]) {
      const end = x(laneEnd(range));
      add(svg, "line", { class: "break", x1: end, x2: end, y1: box.top, y2: box.bottom });
    }
    add(svg, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
    add(svg, "text", { x: (box.left + box.right) / 2, y: box.bottom + 29, "text-anchor": "middle" }, panel.x_label);
  }

  function marker(group, style, x, y, hollow) {
    const look = hollow ? { fill: "none", stroke: style.colour, "stroke-width": 1.5 } : { fill: style.colour };
    add(group, "path", { d: SHAPES[style.marker], transform: `translate(${x} ${y})`, ...look });
  }

  function within(value, low, high) {
    return Math.min(Math.max(value, low), high);
  }

  function tell(panel, series, i) {
    const value = panel.kind === "rows" ? series.x[i] : series.y[i];
    const range = series.low.length ? ` (${show(series.low[i])} to ${show(series.high[i])})` : "";
    if (panel.x_names.length) return `${series.method}, ${panel.x_names[series.x[i]]}: ${series.labels[i]}`;
    const label = series.labels[i] ? `${series.labels[i]}, ` : "";
    const at = panel.kind === "rows" ? "" : `${panel.x_label} ${show(series.x[i])}: `;
    return `${series.method}, ${label}${at}${show(value)}${range}`;
  }

  // The end of a long name, which tells it from others, where there is no room for all of it.
  const fitted = (name, width) => {
    const most = Math.floor(width / 6.4);
    return name.length <= most ? name : `…${name.slice(1 - most)}`;
  };

  const rowNames = (panel) => [...new Set(shown(panel).map((series) => series.method))];

  // Whether the panel to the left has the names of these rows.
  const stacked = matchMedia("(max-width: 700px)"); // as in page.css
  function namedByItsNeighbour({ panels, columns }, panel) {
    const i = panels.indexOf(panel);
    return i % columns > 0 && !stacked.matches && rowNames(panels[i - 1]).join() === rowNames(panel).join();
  }

  function drawRows(svg, figure, panel, range, _, width) {
    const methods = rowNames(panel);
    const named = !namedByItsNeighbour(figure, panel);
    const top = 8 + 9 * panel.groups.length;
    const longest = Math.max(8, ...methods.map((method) => method.length));
    const box = { left: named ? Math.min(6.4 * longest + 14, 0.45 * width) : 14, right: width - 14, top: 2, bottom: top + 24 * methods.length };
    const height = box.bottom + 36;
    const x = scale(range, box.left, box.right, panel.x_log);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    axisX(svg, panel, range, x, box);
    if (panel.zero_line) add(svg, "line", { class: "axis", x1: x(0), x2: x(0), y1: box.top, y2: box.bottom });
    panel.groups.forEach(([low, high], i) =>
      add(svg, "line", { class: "axis", "stroke-width": 4, x1: x(low), x2: x(high), y1: 7 + 9 * i, y2: 7 + 9 * i }));
    const points = [];
    if (named) methods.forEach((method, row) =>
      add(svg, "text", { x: box.left - 8, y: top + 16 + 24 * row, "text-anchor": "end" }, fitted(method, box.left - 10)));
    for (const series of shown(panel)) {
      const style = styles[series.method];
      const y = top + 12 + 24 * methods.indexOf(series.method);
      const group = add(svg, "g", { "data-method": series.method });
      series.x.forEach((value, i) => {
        if (value === null) return;
        if (series.low.length) {
          const ends = [series.low[i], series.high[i]].map(x);
          add(group, "line", { x1: ends[0], x2: ends[1], y1: y, y2: y, stroke: style.colour, "stroke-width": 3, opacity: 0.6 });
        }
        marker(group, style, x(value), y, series.hollow);
        points.push({ x: x(value), y, method: series.method, text: tell(panel, series, i) });
      });
    }
    return points;
  }

  function drawXY(svg, _, panel, range, yRange, width) {
    const height = 240;
    const box = { left: 50, right: width - 12, top: 10, bottom: height - 36 };
    const x = scale(range, box.left, box.right, panel.x_log);
    const y = scale(yRange, box.bottom, box.top, panel.y_log);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    axisX(svg, panel, range, x, box);
    for (const value of ticks(yRange, 5, panel.y_log)) {
      add(svg, "line", { class: "grid", x1: box.left, x2: box.right, y1: y(value), y2: y(value) });
      add(svg, "text", { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" }, show(value));
    }
    const middle = (box.top + box.bottom) / 2;
    add(svg, "text", { x: 10, y: middle, "text-anchor": "middle", transform: `rotate(-90 10 ${middle})` }, panel.y_label);
    const points = [];
    for (const series of shown(panel)) {
      const style = styles[series.method];
      const group = add(svg, "g", { "data-method": series.method });
      const at = series.x.map((value, i) => [x(value), series.y[i] === null ? null : y(series.y[i])]);
      if (series.low.length && !series.markers) {
        const edge = (ends) => ends.map((end, i) => (end === null ? null : `${at[i][0]},${y(end)}`)).filter(Boolean);
        const points = [...edge(series.high), ...edge(series.low).reverse()].join(" ");
        add(group, "polygon", { points, fill: style.colour, opacity: 0.14 });
      }
      if (series.line)
        add(group, "polyline", {
          points: at.filter((pair) => pair[1] !== null).map((pair) => pair.join(",")).join(" "), fill: "none", stroke: style.colour, "stroke-width": 1.7,
          "stroke-dasharray": style.dash.join(" "),
        });
      at.forEach(([px, py], i) => {
        if (py === null) return;
        if (series.markers) {
          if (series.low.length)
            add(group, "line", {
              x1: px, x2: px, stroke: style.colour, opacity: 0.6, y1: y(series.low[i]), y2: y(series.high[i]),
            });
          marker(group, style, px, py, series.hollow);
        }
        points.push({ x: px, y: py, method: series.method, text: tell(panel, series, i) });
      });
    }
    return points;
  }

  function draw(entry) {
    const width = Math.round(entry.svg.clientWidth);
    if (!width) return;
    entry.width = width;
    entry.svg.replaceChildren();
    entry.ranges = ranges(entry.figure, entry.panel);
    const drawPanel = entry.panel.kind === "rows" ? drawRows : drawXY;
    entry.points = drawPanel(entry.svg, entry.figure, entry.panel, ...entry.ranges, width);
  }

  function leave(entry) {
    tip.hidden = true;
    entry.svg.querySelector(".ring")?.remove();
    for (const group of entry.svg.querySelectorAll(".faded")) group.classList.remove("faded");
  }

  // The point nearest to the pointer, wherever that is in the panel.
  function point(entry, event) {
    const frame = entry.svg.getBoundingClientRect();
    const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
    const distance = (candidate) => Math.hypot(candidate.x - px, candidate.y - py);
    leave(entry);
    if (!entry.points.length) return;
    const nearest = entry.points.reduce((best, other) => (distance(other) < distance(best) ? other : best));
    for (const group of entry.svg.querySelectorAll("[data-method]"))
      group.classList.toggle("faded", group.dataset.method !== nearest.method);
    add(entry.svg, "circle", { class: "ring", cx: nearest.x, cy: nearest.y, r: 7 });
    tip.textContent = nearest.text;
    tip.hidden = false;
    tip.style.left = `${within(frame.left + nearest.x + 12, 4, innerWidth - tip.offsetWidth - 4)}px`;
    tip.style.top = `${within(frame.top + nearest.y - tip.offsetHeight - 10, 4, innerHeight - tip.offsetHeight - 4)}px`;
  }

  // Files of a figure

  const quoted = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));

  function toCsv(figure) {
    const rows = [columns];
    for (const panel of figure.panels)
      for (const series of panel.series)
        series.x.forEach((x, i) => {
          const line = series.line ? "line" : series.hollow ? "hollow points" : "points";
          const y = panel.kind === "rows" ? null : series.y[i];
          rows.push([panel.title, series.method, series.labels[i], line, x, y, series.low[i], series.high[i]]);
        });
    return rows.map((row) => row.map(quoted).join(",") + "\r\n").join("");
  }

  function toScript(figure) {
    const methods = new Set(figure.panels.flatMap((panel) => panel.series.map((series) => series.method)));
    const own = Object.fromEntries(Object.entries(styles).filter(([method]) => methods.has(method)));
    let text = JSON.stringify({ ...figure, styles: own }).replaceAll("'", "\\u0027");
    for (const begin of ['{"title":', '{"method":']) text = text.replaceAll(begin, `\n${begin}`);
    return template.split("FIGURE_AS_JSON").join(text);
  }

  function download(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  for (const figure of figures)
    for (const button of document.getElementById(figure.name).querySelectorAll("[data-file]")) {
      const kind = button.dataset.file;
      button.addEventListener("click", () => download(`${figure.name}.${kind}`, kind === "py" ? toScript(figure) : toCsv(figure)));
    }

  const entries = figures.flatMap((figure) => {
    const svgs = document.getElementById(figure.name).querySelectorAll(".panel svg");
    return figure.panels.map((panel, i) => ({ figure, panel, svg: svgs[i], points: [], width: 0 }));
  });
  const byElement = new Map(entries.map((entry) => [entry.svg, entry]));
  const observer = new ResizeObserver((changes) => {
    for (const change of changes) {
      const entry = byElement.get(change.target);
      if (Math.round(entry.svg.clientWidth) !== entry.width) draw(entry);
    }
  });
  for (const entry of entries) {
    draw(entry);
    observer.observe(entry.svg);
    for (const kind of ["pointermove", "pointerdown"]) entry.svg.addEventListener(kind, (event) => point(entry, event));
    entry.svg.addEventListener("pointerleave", () => leave(entry));
  }

  const legend = document.getElementById("legend");
  for (const [method, style] of Object.entries(styles)) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    const svg = add(button, "svg", { viewBox: "0 0 26 12", "aria-hidden": "true" });
    add(svg, "line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: style.colour, "stroke-width": 2, "stroke-dasharray": style.dash.join(" ") });
    marker(svg, style, 13, 6);
    button.append(method);
    button.addEventListener("click", () => {
      if (!hidden.delete(method)) hidden.add(method);
      button.setAttribute("aria-pressed", String(!hidden.has(method)));
      entries.forEach(draw);
    });
    legend.append(button);
  }
})();
