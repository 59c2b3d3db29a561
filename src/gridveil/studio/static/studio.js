// The studio's script: the slider and its preview, progress of a release, drops and their limits.
"use strict";

const byId = (id) => document.getElementById(id);

function tellsWhatEpsilonMeans(form) {
  const slider = byId("slider"), typed = byId("epsilon"), box = byId("preview");
  const stops = slider.dataset.stops.split(" ");
  let asked = null, timer = 0;

  async function ask(epsilon, signal, long = "yes") {
    const fields = new FormData(form);
    fields.set("epsilon", epsilon);
    fields.set("long", long);
    const answer = await fetch("/hide/preview", { method: "POST", body: fields, signal });
    return answer.text();
  }

  function put(words) {
    box.innerHTML = words;
    const summed = box.querySelector("template.summed"), column = document.querySelector(".sum dl");
    if (summed && column) column.replaceChildren(summed.content);
  }

  async function show() {
    if (asked) asked.abort();
    const mine = asked = new AbortController();
    box.setAttribute("aria-busy", "true");
    try {
      put(await ask(typed.value, mine.signal, ""));
      if (box.querySelector(".refusal")) return;
      if (box.querySelector(".trying")) put(await ask(typed.value, mine.signal));
      box.setAttribute("aria-busy", "false");
      let shown = Date.now();
      for (const stop of [...stops].reverse()) { // the quickest first
        await ask(stop, mine.signal);
        if (Date.now() - shown < 2000 && stop !== stops[0]) continue;
        put(await ask(typed.value, mine.signal));
        shown = Date.now();
      }
    } catch (error) {
      if (error.name !== "AbortError") box.textContent = "The studio does not answer.";
    }
  }

  function say() {
    slider.setAttribute("aria-valuetext", `ε = ${stops[slider.value]}`);
  }

  const soon = () => { clearTimeout(timer); timer = setTimeout(show, 250); };
  slider.addEventListener("input", () => { typed.value = stops[slider.value]; say(); soon(); });
  typed.addEventListener("input", () => {
    const at = stops.indexOf(typed.value.trim());
    if (at >= 0) slider.value = at;
    soon();
  });
  form.addEventListener("change", (event) => {
    if (event.target !== slider && event.target !== typed) soon();
  });
  form.addEventListener("submit", () => asked && asked.abort());
  say();
  show();
}

function tellsProgress(panel) {
  const stage = byId("stage"), bar = byId("bar"), elapsed = byId("elapsed"), lost = byId("lost");
  const began = Date.now();
  const clock = setInterval(() => {
    elapsed.textContent = `${Math.round((Date.now() - began) / 1000)} s on this page`;
  }, 1000);
  const source = new EventSource(panel.dataset.events);
  source.addEventListener("progress", (event) => {
    const { stage: words, done, total } = JSON.parse(event.data);
    stage.textContent = `${words}${total ? ` (${done} of ${total})` : ""}`;
    if (total) { bar.max = total; bar.value = done; } else bar.removeAttribute("value");
    lost.hidden = true;
  });
  source.addEventListener("end", () => { source.close(); location.reload(); });
  source.addEventListener("error", () => {
    lost.hidden = false;
    if (source.readyState === EventSource.CLOSED) clearInterval(clock);
  });
}

function keepsToLimit(form) {
  form.addEventListener("submit", (event) => {
    const files = [...form.querySelectorAll("input[type=file]")].flatMap((one) => [...one.files]);
    const size = files.reduce((sum, file) => sum + file.size, 0);
    form.querySelector(".refusal")?.remove();
    if (size <= Number(form.dataset.limit)) return;
    event.preventDefault();
    const said = document.createElement("p");
    said.className = "bad refusal panel";
    said.setAttribute("role", "alert");
    const mib = Math.round(Number(form.dataset.limit) / 1048576);
    said.textContent = `This upload is larger than ${mib} MiB. It was not sent.`;
    form.prepend(said);
  });
}

function takesDrops(form) {
  const input = form.querySelector("input[type=file]");
  form.addEventListener("dragover", (event) => { event.preventDefault(); form.classList.add("over"); });
  form.addEventListener("dragleave", () => form.classList.remove("over"));
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    form.classList.remove("over");
    if (event.dataTransfer.files.length) { input.files = event.dataTransfer.files; form.requestSubmit(); }
  });
}

if (byId("choices")) tellsWhatEpsilonMeans(byId("choices"));
if (byId("running")) tellsProgress(byId("running"));
document.querySelectorAll("form[data-limit]").forEach(keepsToLimit);
document.querySelectorAll("form.drop").forEach(takesDrops);
