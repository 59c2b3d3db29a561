// The page: reads the event, asks the model, and shows what it answers. Frequencies in mHz.

const FACTS = JSON.parse(document.getElementById("facts").textContent);
const RELEASE = new ReleasedModel(FACTS);
const MHZ = 1000 * FACTS.frequency_hz;
const SYSTEM = -1; // the mean of the machines, where a bus is meant
const FEW_PORTS = 60,
  NAMED_LINES = 12;

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:")
    ? document.createElementNS(SVG, name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const nameOf = (port) => (port === SYSTEM ? "System" : FACTS.ports[port]);

// A number with its sign, to three digits or to a tenth of a thousandth.
function signed(value, digits = 3) {
  if (!Number.isFinite(value)) return value < 0 ? "falls on" : "rises on";
  const size = Math.abs(value),
    places = size === 0 ? 1 : Math.min(4, Math.max(0, digits - 1 - Math.floor(Math.log10(size))));
  return (value < 0 ? "−" : "+") + size.toFixed(places);
}

// ---- The event ----

function offer(select, pairs) {
  const before = select.value;
  select.replaceChildren(...pairs.map(([value, label]) => element("option", { value }, label)));
  if (pairs.some(([value]) => String(value) === before)) select.value = before;
}

function offerBuses() {
  const trip = $("kind").value === "trip",
    ports = trip ? FACTS.trips : range(FACTS.ports.length);
  offer(
    $("bus"),
    ports.map((port) => [port, nameOf(port)]),
  );
  $("sizes").hidden = trip;
}

function hasBand(port) {
  return FACTS.members && (port === SYSTEM || FACTS.all_bands || FACTS.largest.includes(port));
}

function readEvent() {
  const kind = $("kind").value,
    port = Number($("bus").value),
    typed = Number($("size").value);
  if (kind !== "trip" && ($("size").value.trim() === "" || !Number.isFinite(typed))) return null;
  return { kind, port, size: $("unit").value === "mw" ? typed / FACTS.base_mva : typed };
}

function inWords({ kind, port, size }) {
  const amount =
    $("unit").value === "mw"
      ? `${+(size * FACTS.base_mva).toPrecision(12)}MW`
      : `${+size.toPrecision(12)}`;
  if (kind === "trip") return `trip:${nameOf(port)}@${START_S}s`;
  const name = kind === "load" ? "load" : "gen",
    sign = size < 0 ? "" : "+";
  return `${name}:${nameOf(port)}=${sign}${amount}@${START_S}s`;
}

// ---- Answers ----

// Buses whose curves and figures are shown.
function listed(answer, event) {
  const machines = FACTS.all_bands
    ? answer.staying
    : answer.staying.filter((i) => FACTS.largest.includes(i));
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
  const members = RELEASE.members,
    level = FACTS.level,
    shift = RELEASE.shiftOf(event, answer, horizon);
  const curves = new Map(ports.map((port) => [port, []])),
    settled = [];
  let told = performance.now();
  for (const [number, member] of members.entries()) {
    if (stale()) return null;
    const one = RELEASE.answerOf(member, event, horizon, shift);
    for (const port of ports) {
      curves
        .get(port)
        .push(
          port === SYSTEM
            ? weighed(one.at, answer.staying, one.inertia, one.samples)
            : one.at(port),
        );
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
      curves: each,
      nadir: middle(
        figures.map((one) => one.nadir),
        level,
      ),
      rocof: middle(
        figures.map((one) => one.rocof),
        level,
      ),
    });
  }
  return { bands, settling: middle(settled, level), level };
}

// Lower and upper end of a band at every sample [mHz].
function envelope({ curves }, level) {
  return Array.from(curves[0], (_, i) =>
    middle(
      curves.map((values) => values[i] * MHZ),
      level,
    ),
  );
}

// A warning where curves go further than linear models were ever compared with nonlinear ones.
function beyondWords(curves) {
  const limit = FACTS.shown_to_hold * MHZ,
    each = [...curves.values()].map((own) => own.reduce((m, w) => Math.max(m, Math.abs(w)), 0)),
    largest = Math.max(...each) * MHZ;
  return largest <= limit
    ? ""
    : ` This goes beyond the ±${limit.toFixed(0)} mHz up to which linear models were held against ` +
        `nonlinear simulation: it reaches ${largest.toFixed(0)} mHz, where limits and load ` +
        "shedding may act.";
}

// ---- The whole ----

let turn = 0,
  shown = null;

async function run() {
  const mine = ++turn,
    event = readEvent(),
    horizon = Number($("horizon").value);
  if (event === null) {
    $("status").textContent = "Type a size, such as 10.";
    return;
  }
  $("status").textContent = "Computing …";
  await new Promise((resume) => setTimeout(resume));
  if (mine !== turn) return;
  const begun = performance.now(),
    answer = RELEASE.simulate(event, horizon),
    strong = Number($("shown").value);
  const ports = listed(answer, event);
  const curves = new Map(
    ports.map((port) => [port, port === SYSTEM ? answer.system : answer.at(port)]),
  );
  shown = {
    event,
    answer,
    ports,
    curves,
    horizon,
    strong: ports.includes(strong) ? strong : SYSTEM,
    spread: null,
  };
  $("command").textContent = `gridveil simulate . --event "${inWords(event)}"`;
  draw(shown);
  fill(shown);
  performance.mark("drawn");
  if (FACTS.members) {
    const spread = await bandsOf(
      event,
      answer,
      horizon,
      ports.filter(hasBand),
      () => mine !== turn,
    );
    if (spread === null) return;
    shown.spread = spread;
    draw(shown);
    fill(shown);
  }
  const system = figuresOf(answer.system, DT_S),
    took = (performance.now() - begun) / 1000;
  $("status").textContent =
    `${inWords(event)}: system nadir ${signed(system.nadir)} mHz at ${system.when.toFixed(2)} s, ` +
    `RoCoF ${signed(system.rocof)} mHz/s, settles at ${signed(answer.settling * MHZ)} mHz. ` +
    `Computed in ${took.toFixed(2)} s.` +
    beyondWords(curves);
  document.documentElement.dataset.ready = String(mine);
}

function start() {
  const kinds = [
    ["load", "Load added"],
    ["generation", "Generation added"],
  ];
  if (FACTS.trips.length) kinds.push(["trip", "Machine trips"]);
  offer($("kind"), kinds);
  offerBuses();
  offer(
    $("shown"),
    [SYSTEM, ...range(FACTS.ports.length)].map((port) => [port, nameOf(port)]),
  );
  $("size").value = +(0.1 * FACTS.base_mva).toPrecision(6);
  $("kind").addEventListener("change", offerBuses);
  $("unit").addEventListener("change", () => {
    const factor = $("unit").value === "mw" ? FACTS.base_mva : 1 / FACTS.base_mva;
    if ($("size").value.trim() !== "")
      $("size").value = +(Number($("size").value) * factor).toPrecision(12);
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
