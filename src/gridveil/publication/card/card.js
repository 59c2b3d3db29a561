// The page: reads the event, asks the engine, and draws. Frequencies in mHz.

const FACTS = JSON.parse(document.getElementById("facts").textContent);
const RELEASE = new ReleasedModel(FACTS);
const MHZ = 1000 * FACTS.frequency_hz;
const SYSTEM = -1; // the mean of the machines, where a bus is meant
const FEW_PORTS = 60, NAMED_LINES = 12;

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const nameOf = (port) => (port === SYSTEM ? "System" : FACTS.ports[port]);

// A number with its sign, to three digits or to a tenth of a thousandth.
function signed(value, digits = 3) {
  if (!Number.isFinite(value)) return value < 0 ? "falls on" : "rises on";
  const size = Math.abs(value), places = size === 0 ? 1 : Math.min(4, Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
  return (value < 0 ? "−" : "+") + size.toFixed(places);
}

// ---- The event ----

function offer(select, pairs) {
  const before = select.value;
  select.replaceChildren(...pairs.map(([value, label]) => element("option", { value }, label)));
  if (pairs.some(([value]) => String(value) === before)) select.value = before;
}

function offerBuses() {
  const trip = $("kind").value === "trip", ports = trip ? FACTS.trips : range(FACTS.ports.length);
  offer($("bus"), ports.map((port) => [port, nameOf(port)]));
  $("sizes").hidden = trip;
}

function hasBand(port) {
  return FACTS.members && (port === SYSTEM || FACTS.all_bands || FACTS.largest.includes(port));
}

function readEvent() {
  const kind = $("kind").value, port = Number($("bus").value), typed = Number($("size").value);
  if (kind !== "trip" && ($("size").value.trim() === "" || !Number.isFinite(typed))) return null;
  return { kind, port, size: $("unit").value === "mw" ? typed / FACTS.base_mva : typed };
}

function inWords({ kind, port, size }) {
  const amount = $("unit").value === "mw" ? `${+(size * FACTS.base_mva).toPrecision(12)}MW` : `${+size.toPrecision(12)}`;
  if (kind === "trip") return `trip:${nameOf(port)}@${START_S}s`;
  return `${kind === "load" ? "load" : "gen"}:${nameOf(port)}=${size < 0 ? "" : "+"}${amount}@${START_S}s`;
}

// ---- Answers ----

// Buses whose curves and figures are shown.
function listed(answer, event) {
  const machines = FACTS.all_bands ? answer.staying : answer.staying.filter((i) => FACTS.largest.includes(i));
  const ports = FACTS.ports.length - FACTS.machines;
  const loaded = ports <= FEW_PORTS ? range(FACTS.ports.length).slice(FACTS.machines) : [];
  const more = [event.kind === "trip" ? SYSTEM : event.port, Number($("shown").value)];
  const gone = event.kind === "trip" ? event.port : null;
  return [...new Set([SYSTEM, ...machines, ...loaded, ...more])].filter((port) => port !== gone);
}

function figuresOf(values, dt) {
  const [nadir, when] = nadirOf(values, dt);
  return { nadir: nadir * MHZ, when, rocof: rocofOf(values, dt) * MHZ };
}

// Answers of all members, one after the other, so that the page stays alive.
async function bandsOf(event, answer, horizon, ports, stale) {
  const members = RELEASE.members, level = FACTS.level, shift = RELEASE.shiftOf(event, answer, horizon);
  const curves = new Map(ports.map((port) => [port, []])), settled = [];
  let told = performance.now();
  for (const [number, member] of members.entries()) {
    if (stale()) return null;
    const one = RELEASE.answerOf(member, event, horizon, shift);
    for (const port of ports) {
      curves.get(port).push(port === SYSTEM ? weighed(one.at, answer.staying, one.inertia, one.samples) : one.at(port));
    }
    settled.push(one.settling * MHZ);
    if (performance.now() - told > 40) {
      $("status").textContent = `Bands: ${number + 1} of ${members.length} models …`;
      await new Promise((resume) => setTimeout(resume));
      told = performance.now();
    }
  }
  const bands = new Map();
  for (const [port, each] of curves) {
    const figures = each.map((values) => figuresOf(values, BAND_DT_S));
    bands.set(port, {
      curves: each, nadir: middle(figures.map((one) => one.nadir), level), rocof: middle(figures.map((one) => one.rocof), level),
    });
  }
  return { bands, settling: middle(settled, level), level };
}

// Lower and upper end of a band at every sample [mHz].
function envelope({ curves }, level) {
  return Array.from(curves[0], (_, i) => middle(curves.map((values) => values[i] * MHZ), level));
}

// ---- Drawing ----

function ticks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) out.push(k * step);
  return out;
}

function lookOf(port, number) {
  if (port === SYSTEM) return "trace system";
  if (port >= FACTS.machines) return "trace port";
  return `trace s${number % 7 + 1} d${Math.floor(number / 7) % 4}`;
}

function draw({ event, answer, ports, curves, spread, horizon, strong }) {
  const width = Math.max(280, $("chart").clientWidth), height = Math.min(420, Math.max(260, width * 0.5));
  const left = 58, right = 12, top = 26, bottom = 42;
  const band = spread && spread.bands.has(strong) ? envelope(spread.bands.get(strong), spread.level) : null;
  let low = 0, high = 0;
  for (const values of curves.values()) for (const value of values) { low = Math.min(low, value * MHZ); high = Math.max(high, value * MHZ); }
  for (const [one, two] of band ?? []) { low = Math.min(low, one); high = Math.max(high, two); }
  if (high - low < 1e-9) high = low + 1;
  const pad = 0.05 * (high - low), from = low - pad, to = high + pad;
  const x = (t) => left + (width - left - right) * t / horizon;
  const y = (value) => top + (height - top - bottom) * (to - value) / (to - from);
  const path = (points) => "M" + points.map(([t, value]) => `${x(t).toFixed(1)},${y(value).toFixed(1)}`).join("L");
  const label = `Frequency deviation in mHz over ${horizon} s at ${ports.length} places; figures are in the table below.`;
  const svg = element("svg:svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  for (const tick of ticks(from, to, height / 55)) {
    svg.append(element("svg:line", { class: "rule", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
      element("svg:text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, `${+tick.toPrecision(6)}`.replace("-", "−")));
  }
  for (const tick of ticks(0, horizon, width / 80)) {
    svg.append(element("svg:line", { class: "rule", x1: x(tick), x2: x(tick), y1: top, y2: height - bottom }),
      element("svg:text", { x: x(tick), y: height - bottom + 16, "text-anchor": "middle" }, `${+tick.toPrecision(6)}`));
  }
  svg.append(element("svg:text", { x: 4, y: 14 }, "frequency deviation [mHz]"),
    element("svg:text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, "time [s]"));
  if (band) {
    const upper = band.map(([, end], i) => [i * BAND_DT_S, end]), lower = band.map(([end], i) => [i * BAND_DT_S, end]).reverse();
    svg.append(element("svg:path", { class: "band", d: path([...upper, ...lower]) + "Z" }));
  }
  if (Number.isFinite(answer.settling)) {
    const at = y(answer.settling * MHZ);
    if (at > top && at < height - bottom) svg.append(element("svg:line", { class: "settled", x1: left, x2: width - right, y1: at, y2: at }));
  }
  const every = Math.max(1, Math.floor(answer.samples / (2 * width)));
  const order = [...ports].sort((a, b) => (a === strong) - (b === strong) || (b >= FACTS.machines) - (a >= FACTS.machines));
  for (const port of order) {
    const points = [];
    curves.get(port).forEach((value, i) => { if (i % every === 0) points.push([i * DT_S, value * MHZ]); });
    svg.append(element("svg:path", { class: lookOf(port, ports.indexOf(port) - 1) + (port === strong ? " strong" : ""), d: path(points) }));
  }
  svg.append(element("svg:line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }));
  $("chart").replaceChildren(svg);
  drawLegend(ports, strong, band, answer);
}

function drawLegend(ports, strong, band, answer) {
  const swatch = (look) => element("svg:svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, element("svg:path", { class: look, d: "M0,5L26,5" }));
  const entry = (look, words) => element("span", {}, swatch(look), words);
  const machines = ports.filter((port) => port >= 0 && port < FACTS.machines), entries = [entry("trace system", "System")];
  const named = machines.length <= NAMED_LINES ? machines : machines.filter((port) => port === strong);
  for (const port of named) entries.push(entry(lookOf(port, ports.indexOf(port) - 1), nameOf(port)));
  if (machines.length > named.length) entries.push(element("span", {}, `and ${machines.length - named.length} machines`));
  const loaded = ports.filter((port) => port >= FACTS.machines);
  if (loaded.length) entries.push(entry("trace port", loaded.length > 2 ? `${nameOf(loaded[0])} … ${nameOf(loaded.at(-1))}` : loaded.map(nameOf).join(", ")));
  if (band) {
    const area = element("svg:svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, element("svg:rect", { class: "band", width: 26, height: 10 }));
    entries.push(element("span", {}, area, `${+(100 * FACTS.level).toPrecision(3)} % band of ${nameOf(strong)}`));
  }
  if (Number.isFinite(answer.settling)) entries.push(entry("settled", "settles at"));
  $("legend").replaceChildren(...entries);
}

function fill({ event, answer, ports, curves, spread, strong }) {
  const level = spread ? ` (${+(100 * FACTS.level).toPrecision(3)} % band)` : "";
  const heads = ["bus", `nadir [mHz]${level}`, "at [s]", `RoCoF [mHz/s]${level}`, `settles at [mHz]${level}`];
  const between = (ends) => (ends && ends.every(Number.isFinite) ? ` (${signed(ends[0])} to ${signed(ends[1])})` : "");
  $("figures").tHead.replaceChildren(element("tr", {}, ...heads.map((words) => element("th", { scope: "col" }, words))));
  $("figures").tBodies[0].replaceChildren(...ports.map((port) => {
    const own = figuresOf(curves.get(port), DT_S), band = spread?.bands.get(port);
    const cells = [
      signed(own.nadir) + between(band?.nadir), own.when.toFixed(2), signed(own.rocof) + between(band?.rocof),
      signed(answer.settling * MHZ) + between(band && spread.settling),
    ];
    const row = element("tr", port === strong ? { class: "picked" } : {}, element("th", { scope: "row" }, nameOf(port)));
    row.append(...cells.map((words) => element("td", {}, words)));
    return row;
  }));
}

// ---- The whole ----

let turn = 0, shown = null;

async function run() {
  const mine = ++turn, event = readEvent(), horizon = Number($("horizon").value);
  if (event === null) {
    $("status").textContent = "Type a size, such as 10.";
    return;
  }
  $("status").textContent = "Computing …";
  await new Promise((resume) => setTimeout(resume));
  if (mine !== turn) return;
  const begun = performance.now(), answer = RELEASE.simulate(event, horizon), strong = Number($("shown").value);
  const ports = listed(answer, event);
  const curves = new Map(ports.map((port) => [port, port === SYSTEM ? answer.system : answer.at(port)]));
  shown = { event, answer, ports, curves, horizon, strong: ports.includes(strong) ? strong : SYSTEM, spread: null };
  $("command").textContent = `gridveil simulate . --event "${inWords(event)}"`;
  draw(shown);
  fill(shown);
  performance.mark("drawn");
  if (FACTS.members) {
    const spread = await bandsOf(event, answer, horizon, ports.filter(hasBand), () => mine !== turn);
    if (spread === null) return;
    shown.spread = spread;
    draw(shown);
    fill(shown);
  }
  const system = figuresOf(answer.system, DT_S), took = (performance.now() - begun) / 1000;
  $("status").textContent = `${inWords(event)}: system nadir ${signed(system.nadir)} mHz at ${system.when.toFixed(2)} s, ` +
    `RoCoF ${signed(system.rocof)} mHz/s, settles at ${signed(answer.settling * MHZ)} mHz. Computed in ${took.toFixed(2)} s.`;
  document.documentElement.dataset.ready = String(mine);
}

function start() {
  const kinds = [["load", "Load added"], ["generation", "Generation added"]];
  if (FACTS.trips.length) kinds.push(["trip", "Machine trips"]);
  offer($("kind"), kinds);
  offerBuses();
  offer($("shown"), [SYSTEM, ...range(FACTS.ports.length)].map((port) => [port, nameOf(port)]));
  $("size").value = +(0.1 * FACTS.base_mva).toPrecision(6);
  $("kind").addEventListener("change", offerBuses);
  $("unit").addEventListener("change", () => {
    const factor = $("unit").value === "mw" ? FACTS.base_mva : 1 / FACTS.base_mva;
    if ($("size").value.trim() !== "") $("size").value = +(Number($("size").value) * factor).toPrecision(12);
  });
  $("event").addEventListener("submit", (event) => event.preventDefault());
  $("event").addEventListener("change", run);
  let width = $("chart").clientWidth;
  new ResizeObserver(() => {
    if (shown && $("chart").clientWidth !== width) draw(shown);
    width = $("chart").clientWidth;
  }).observe($("chart"));
  run();
}

start();
