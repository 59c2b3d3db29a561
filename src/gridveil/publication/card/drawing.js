// Chart, legend and table of the card, in mHz; names of the page are those of card.js.

function ticks(low, high, most) {
  const rough = (high - low) / most,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++)
    out.push(k * step);
  return out;
}

function lookOf(port, number) {
  if (port === SYSTEM) return "trace system";
  if (port >= FACTS.machines) return "trace port";
  return `trace s${(number % 7) + 1} d${Math.floor(number / 7) % 4}`;
}

function draw({ event, answer, ports, curves, spread, horizon, strong }) {
  const width = Math.max(280, $("chart").clientWidth),
    height = Math.min(420, Math.max(260, width * 0.5));
  const left = 58,
    right = 12,
    top = 26,
    bottom = 42;
  const band =
    spread && spread.bands.has(strong) ? envelope(spread.bands.get(strong), spread.level) : null;
  let low = 0,
    high = 0;
  for (const values of curves.values())
    for (const value of values) {
      low = Math.min(low, value * MHZ);
      high = Math.max(high, value * MHZ);
    }
  for (const [one, two] of band ?? []) {
    low = Math.min(low, one);
    high = Math.max(high, two);
  }
  if (high - low < 1e-9) high = low + 1;
  const pad = 0.05 * (high - low),
    from = low - pad,
    to = high + pad;
  const x = (t) => left + ((width - left - right) * t) / horizon;
  const y = (value) => top + ((height - top - bottom) * (to - value)) / (to - from);
  const path = (points) =>
    "M" + points.map(([t, value]) => `${x(t).toFixed(1)},${y(value).toFixed(1)}`).join("L");
  const label =
    `Frequency deviation in mHz over ${horizon} s at ${ports.length} places; ` +
    "figures are in the table below.";
  const svg = element("svg:svg", {
    viewBox: `0 0 ${width} ${height}`,
    height,
    role: "img",
    "aria-label": label,
  });
  for (const tick of ticks(from, to, height / 55)) {
    svg.append(
      element("svg:line", { class: "rule", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
      element(
        "svg:text",
        { x: left - 6, y: y(tick) + 4, "text-anchor": "end" },
        `${+tick.toPrecision(6)}`.replace("-", "−"),
      ),
    );
  }
  for (const tick of ticks(0, horizon, width / 80)) {
    svg.append(
      element("svg:line", {
        class: "rule",
        x1: x(tick),
        x2: x(tick),
        y1: top,
        y2: height - bottom,
      }),
      element(
        "svg:text",
        { x: x(tick), y: height - bottom + 16, "text-anchor": "middle" },
        `${+tick.toPrecision(6)}`,
      ),
    );
  }
  svg.append(
    element("svg:text", { x: 4, y: 14 }, "frequency deviation [mHz]"),
    element(
      "svg:text",
      { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" },
      "time [s]",
    ),
  );
  if (band) {
    const upper = band.map(([, end], i) => [i * BAND_DT_S, end]),
      lower = band.map(([end], i) => [i * BAND_DT_S, end]).reverse();
    svg.append(element("svg:path", { class: "band", d: path([...upper, ...lower]) + "Z" }));
  }
  if (Number.isFinite(answer.settling)) {
    const at = y(answer.settling * MHZ);
    if (at > top && at < height - bottom)
      svg.append(
        element("svg:line", { class: "settled", x1: left, x2: width - right, y1: at, y2: at }),
      );
  }
  const every = Math.max(1, Math.floor(answer.samples / (2 * width)));
  const order = [...ports].sort(
    (a, b) => (a === strong) - (b === strong) || (b >= FACTS.machines) - (a >= FACTS.machines),
  );
  for (const port of order) {
    const points = [];
    curves.get(port).forEach((value, i) => {
      if (i % every === 0) points.push([i * DT_S, value * MHZ]);
    });
    svg.append(
      element("svg:path", {
        class: lookOf(port, ports.indexOf(port) - 1) + (port === strong ? " strong" : ""),
        d: path(points),
      }),
    );
  }
  svg.append(
    element("svg:line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }),
  );
  $("chart").replaceChildren(svg);
  drawLegend(ports, strong, band, answer);
}

function drawLegend(ports, strong, band, answer) {
  const swatch = (look) =>
    element(
      "svg:svg",
      { viewBox: "0 0 26 10", "aria-hidden": "true" },
      element("svg:path", { class: look, d: "M0,5L26,5" }),
    );
  const entry = (look, words) => element("span", {}, swatch(look), words);
  const machines = ports.filter((port) => port >= 0 && port < FACTS.machines),
    entries = [entry("trace system", "System")];
  const named =
    machines.length <= NAMED_LINES ? machines : machines.filter((port) => port === strong);
  for (const port of named)
    entries.push(entry(lookOf(port, ports.indexOf(port) - 1), nameOf(port)));
  if (machines.length > named.length)
    entries.push(element("span", {}, `and ${machines.length - named.length} machines`));
  const loaded = ports.filter((port) => port >= FACTS.machines);
  if (loaded.length)
    entries.push(
      entry(
        "trace port",
        loaded.length > 2
          ? `${nameOf(loaded[0])} … ${nameOf(loaded.at(-1))}`
          : loaded.map(nameOf).join(", "),
      ),
    );
  if (band) {
    const area = element(
      "svg:svg",
      { viewBox: "0 0 26 10", "aria-hidden": "true" },
      element("svg:rect", { class: "band", width: 26, height: 10 }),
    );
    entries.push(
      element(
        "span",
        {},
        area,
        `${+(100 * FACTS.level).toPrecision(3)} % band of ${nameOf(strong)}`,
      ),
    );
  }
  if (Number.isFinite(answer.settling)) entries.push(entry("settled", "settles at"));
  $("legend").replaceChildren(...entries);
}

function fill({ event, answer, ports, curves, spread, strong }) {
  const level = spread ? ` (${+(100 * FACTS.level).toPrecision(3)} % band)` : "";
  const heads = [
    "bus",
    `nadir [mHz]${level}`,
    "at [s]",
    `RoCoF [mHz/s]${level}`,
    `settles at [mHz]${level}`,
  ];
  const between = (ends) =>
    ends && ends.every(Number.isFinite) ? ` (${signed(ends[0])} to ${signed(ends[1])})` : "";
  $("figures").tHead.replaceChildren(
    element("tr", {}, ...heads.map((words) => element("th", { scope: "col" }, words))),
  );
  $("figures").tBodies[0].replaceChildren(
    ...ports.map((port) => {
      const own = figuresOf(curves.get(port), DT_S),
        band = spread?.bands.get(port);
      const cells = [
        signed(own.nadir) + between(band?.nadir),
        own.when.toFixed(2),
        signed(own.rocof) + between(band?.rocof),
        signed(answer.settling * MHZ) + between(band && spread.settling),
      ];
      const row = element(
        "tr",
        port === strong ? { class: "picked" } : {},
        element("th", { scope: "row" }, nameOf(port)),
      );
      row.append(
        ...cells.map((words, i) => element("td", { "data-label": heads[i + 1] }, words)),
      );
      return row;
    }),
  );
}
