"use strict";
// The page keeps no copy of the truth: each survey replaces the last, and only what is visible is drawn.

const base = document.querySelector('meta[name="base"]').content;
const $ = (id) => document.getElementById(id);
const ROW = 44; // The height of a row, as in the style sheet.
const SAMPLES = 120; // So many seconds of contention are remembered for each lock.
const RETRY = 2000; // In so many milliseconds a connection that was refused is tried again.
const HISTORY = 50; // So many changes are remembered for each lock.

const state = {
  survey: null,
  session: { allow_release: false, csrf: "" },
  shown: [], // The locks that pass the filter, in order.
  sort: { by: "key", down: false },
  paused: false,
  open: null, // The name of the lock whose details are shown.
  past: new Map(), // By name: samples of waiters, the longest lease seen, changes.
};

// Elements; `text` and attributes are never parsed as HTML.
function make(tag, props = {}, ...children) {
  const svg = ["svg", "path", "rect", "text", "g", "title"].includes(tag) && props.svg !== false;
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "svg") continue;
    if (name === "text") element.textContent = value;
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function time(ms) {
  if (ms === null || ms === undefined) return "–";
  const s = Math.floor(ms / 1000);
  if (s < 1) return `${ms} ms`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

const process = (client) => `${client.service}@${client.host}:${client.pid}`;

// What is known of a holder, or of a waiter in the store's queue.
function named(one) {
  if (one.client) return process(one.client);
  if (one.thread !== null) return `Redisson client ${one.client_id}, thread ${one.thread}`;
  if (one.last_known) return `${one.last_known}, which does not answer`;
  return one.client_id ? `client ${one.client_id}, which does not answer` : "Redisson client";
}

const held = (lock) => lock.holders.reduce((most, one) => Math.max(most, one.held_for_ms ?? -1), -1);
const waiting = (lock) => Math.max(lock.waiters.length, lock.waiting_in_store);
const longest = (lock) => lock.waiters.reduce((most, one) => Math.max(most, one.waited_for_ms), 0);

function holderText(lock) {
  if (lock.holders.length === 0) return "–";
  const more = lock.holders.length > 1 ? ` and ${lock.holders.length - 1} more` : "";
  return named(lock.holders[0]) + more;
}

// Remembers what the last survey no longer shows.
function remember(survey) {
  const now = new Date();
  const seen = new Set();
  for (const lock of survey.locks) {
    seen.add(lock.key);
    const holders = lock.holders.map(named).sort().join(", ");
    let past = state.past.get(lock.key);
    if (!past) state.past.set(lock.key, (past = { samples: [], lease: 0, holders: "", changes: [] }));
    past.samples.push(waiting(lock));
    if (past.samples.length > SAMPLES) past.samples.shift();
    past.lease = Math.max(past.lease, lock.remaining_ms ?? 0);
    if (past.holders !== holders) {
      past.changes.unshift({ now, text: holders ? `held by ${holders}` : "free, with waiters" });
      past.changes.length = Math.min(past.changes.length, HISTORY);
      past.holders = holders;
    }
  }
  for (const [key, past] of state.past) {
    if (seen.has(key)) continue;
    if (past.holders) past.changes.unshift({ now, text: "released" });
    past.holders = "";
    past.samples.push(0);
    if (past.samples.length > SAMPLES) past.samples.shift();
    // A lock that has been free for long is forgotten, unless it is looked at.
    if (key !== state.open && past.samples.every((count) => count === 0) && past.samples.length === SAMPLES) state.past.delete(key);
  }
}

function select() {
  const words = $("filter").value.trim().toLowerCase();
  const kind = $("kind").value;
  const contended = $("contended").checked;
  const text = (lock) => [lock.key, ...lock.holders.flatMap((one) => [named(one), one.site ?? "", one.policy ?? ""]),
    ...lock.waiters.flatMap((one) => [process(one.client), one.site ?? ""])].join("\n").toLowerCase();
  const value = {
    key: (lock) => lock.key, kind: (lock) => lock.kind ?? "", holder: holderText, held, waiters: waiting,
  }[state.sort.by];
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    const order = x < y ? -1 : x > y ? 1 : a.key < b.key ? -1 : 1;
    return state.sort.down ? -order : order;
  };
  state.shown = state.survey.locks
    .filter((lock) => (!kind || lock.kind === kind) && (!contended || waiting(lock) > 0) && (!words || text(lock).includes(words)))
    .sort(compare);
}

function spark(samples) {
  const most = Math.max(1, ...samples);
  if (most === 1 && samples.every((count) => count === 0)) samples = [];
  const points = samples.map((count, at) => `${at === 0 ? "M" : "L"}${(at * 100) / (SAMPLES - 1)} ${25 - (count * 24) / most}`);
  const svg = make("svg", { class: "spark", viewBox: "0 0 100 26", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(make("path", { d: points.join(" ") }));
  return svg;
}

function row(lock, at) {
  const past = state.past.get(lock.key) ?? { samples: [], lease: 0 };
  const first = lock.holders[0];
  // A narrow page has no column for the holder.
  const name = make("td", { title: lock.key, dir: "auto" }, lock.key, make("small", { class: "narrow", text: holderText(lock) }));
  const holder = make("td", { title: holderText(lock) }, holderText(lock), make("small", { text: first?.site ?? "" }));
  const share = past.lease > 0 && lock.remaining_ms !== null ? Math.min(1, lock.remaining_ms / past.lease) : 0;
  const bar = make("div", { class: share < 0.34 ? "lease low" : "lease", role: "img", "aria-label": `${time(lock.remaining_ms)} left` }, make("div"));
  bar.firstChild.style.width = `${Math.round(share * 100)}%`;
  const waiters = make("td", { class: "number" }, String(waiting(lock)));
  if (lock.waiters.length > 0) waiters.append(make("small", { text: `up to ${time(longest(lock))}` }));
  const tr = make("tr", { tabindex: "0", "aria-rowindex": at + 2, "data-key": lock.key },
    name, make("td", { text: (lock.kind ?? "–").replace("_", " ") }), holder,
    make("td", { class: "number", text: held(lock) < 0 ? "–" : time(held(lock)) }),
    make("td", { title: `${time(lock.remaining_ms)} left` }, bar), waiters, make("td", {}, spark(past.samples)));
  if (deadlocked().has(lock.key)) tr.classList.add("deadlocked");
  return tr;
}

const deadlocked = () => new Set(state.survey.deadlocks.flatMap((one) => one.edges.flatMap((edge) => [edge.holds, edge.waits_for])));

// Draws the rows that can be seen, and room in place of the others.
function drawRows() {
  const list = $("list");
  const focused = document.activeElement?.dataset?.key;
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 10);
  const last = Math.min(state.shown.length, first + Math.ceil(list.clientHeight / ROW) + 20);
  const room = (rows) => {
    const td = make("td", { colspan: "7", "aria-hidden": "true" });
    td.style.height = `${rows * ROW}px`;
    td.style.padding = td.style.border = "0";
    return make("tr", { role: "presentation" }, td);
  };
  const rows = state.shown.slice(first, last).map((lock, at) => row(lock, first + at));
  const above = first > 0 ? [room(first)] : [];
  const below = last < state.shown.length ? [room(state.shown.length - last)] : [];
  $("rows").replaceChildren(...above, ...rows, ...below);
  if (focused) rows.find((tr) => tr.dataset.key === focused)?.focus({ preventScroll: true });
  list.querySelector("table").setAttribute("aria-rowcount", state.shown.length + 1);
  $("empty").hidden = state.shown.length > 0;
  $("empty").textContent = state.survey.locks.length > 0 ? "No lock matches the filter." : "No lock is held.";
}

function drawKinds() {
  const kinds = [...new Set(state.survey.locks.map((lock) => lock.kind).filter(Boolean))].sort();
  const known = [...$("kind").options].slice(1).map((option) => option.value);
  for (const kind of kinds.filter((one) => !known.includes(one))) {
    $("kind").append(make("option", { value: kind, text: kind.replace("_", " ") }));
  }
}

function drawAlarm() {
  const found = state.survey.deadlocks;
  const text = JSON.stringify(found);
  // Written only when it changes: a screen reader reads it out each time.
  if ($("alarm").dataset.text !== text) {
    $("alarm").dataset.text = text;
    const edge = (one) => make("li", { text: `${process(one.client)} holds ${one.holds} (${one.acquired_at ?? "unknown"}) and waits for ${one.waits_for} (${one.waits_at ?? "unknown"})` });
    $("alarm").replaceChildren(...found.flatMap((one, at) => [make("h2", { text: found.length > 1 ? `Deadlock ${at + 1}` : "Deadlock" }), make("ul", {}, ...one.edges.map(edge))]));
  }
  $("alarm").hidden = found.length === 0;
  $("tab-graph").classList.toggle("alarmed", found.length > 0);
}

// Three columns: who waits, for what, who holds it.
function drawGraph() {
  const locks = state.survey.locks.filter((lock) => waiting(lock) > 0).slice(0, 60);
  $("calm").hidden = locks.length > 0;
  $("drawing").hidden = locks.length === 0;
  if ($("graph").hidden || locks.length === 0) return;
  const unique = (all) => [...new Set(all)];
  const left = unique(locks.flatMap((lock) => lock.waiters.map((one) => process(one.client))));
  const right = unique(locks.flatMap((lock) => lock.holders.map(named)));
  const columns = [left, locks.map((lock) => lock.key), right];
  const [width, gap, height, top] = [250, 130, 46, 44];
  const place = (column, name) => ({ x: 16 + column * (width + gap), y: top + columns[column].indexOf(name) * height });
  const svg = make("svg", { width: 32 + 3 * width + 2 * gap, height: top + height * Math.max(...columns.map((one) => one.length)) + 16 });
  ["waits", "lock", "holder"].forEach((head, at) => svg.append(make("text", { class: "head", x: place(at).x, y: 26, text: head })));
  const bad = new Set(state.survey.deadlocks.flatMap((one) => one.edges.map((edge) => `${process(edge.client)}\n${edge.waits_for}`)));
  const badHolds = new Set(state.survey.deadlocks.flatMap((one) => one.edges.map((edge) => `${process(edge.client)}\n${edge.holds}`)));
  const line = (from, to, is) => svg.append(make("path", { class: is ? "bad" : "", d: `M${from.x + width} ${from.y + 16} C${from.x + width + gap / 2} ${from.y + 16} ${to.x - gap / 2} ${to.y + 16} ${to.x} ${to.y + 16}` }));
  for (const lock of locks) {
    const here = place(1, lock.key);
    for (const who of unique(lock.waiters.map((one) => process(one.client)))) line(place(0, who), here, bad.has(`${who}\n${lock.key}`));
    for (const who of unique(lock.holders.map(named))) line(here, place(2, who), badHolds.has(`${who}\n${lock.key}`));
  }
  const cut = (text) => (text.length > 34 ? `${text.slice(0, 33)}…` : text);
  columns.forEach((names, column) => names.forEach((name) => {
    const { x, y } = place(column, name);
    svg.append(make("rect", { x, y, width, height: 32 }), make("text", { x: x + 10, y: y + 21, text: cut(name) }, make("title", { text: name })));
  }));
  $("drawing").replaceChildren(svg);
}

function drawProcesses() {
  const rows = state.survey.clients.map((one) => make("tr", {},
    make("td", { text: process(one.client) }), make("td", { text: one.client.version }),
    make("td", { class: "number", text: time(Math.max(0, Date.now() - one.client.started)) }),
    make("td", { class: "number", text: `${one.holds}${one.is_cut ? "+" : ""}` }),
    make("td", { class: "number", text: `${one.waits}${one.is_cut ? "+" : ""}` }),
    make("td", { class: "number", text: time(one.answered_in_ms) })));
  $("process-rows").replaceChildren(...rows);
}

function entry(head, parts) {
  const rows = parts.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return make("div", { class: "entry" }, make("strong", { text: head }), make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })])));
}

function drawDetail() {
  if (state.open === null || !$("detail").open) return;
  const lock = state.survey.locks.find((one) => one.key === state.open);
  const past = state.past.get(state.open) ?? { changes: [] };
  const body = [];
  const section = (head, children) => children.length > 0 && body.push(make("h3", { text: head }), ...children);
  if (lock) {
    body.push(make("dl", {}, ...[["Kind", (lock.kind ?? "not held").replace("_", " ")], ["Lease left", time(lock.remaining_ms)], ["Permits free", lock.free_permits]]
      .filter(([, value]) => value !== null).flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })])));
    section("Holders", lock.holders.map((one) => entry(named(one), [
      ["held for", time(one.held_for_ms)], ["valid for", time(one.remaining_ms)], ["count", one.count],
      ["acquired at", one.site], ["policy", one.policy]])));
    section("Waiters", lock.waiters.map((one) => entry(process(one.client), [
      ["for", one.kind.replace("_", " ")], ["waited", time(one.waited_for_ms)],
      ["place", one.place === null ? "asks the store" : `behind ${one.place} of its process`], ["waits at", one.site]])));
    section("Queue in the store", lock.queue.map((one, at) => make("div", { class: "entry", text: `${at + 1}. ${named(one)}` })));
  } else {
    body.push(make("p", { text: "The lock is free, and no client waits for it." }));
  }
  section("Since this page was opened", [make("ul", { class: "history" }, ...past.changes.map((one) =>
    make("li", {}, make("time", { text: one.now.toLocaleTimeString() }), make("span", { text: one.text }))))]);
  $("detail-body").replaceChildren(...body);
  $("release").hidden = !state.session.allow_release || !lock || lock.holders.length === 0;
}

function draw() {
  if (!state.survey) return;
  select();
  drawKinds();
  drawAlarm();
  $("count-locks").textContent = state.survey.locks.length;
  $("count-graph").textContent = state.survey.locks.filter((lock) => waiting(lock) > 0).length;
  $("count-processes").textContent = state.survey.clients.length;
  if (!$("locks").hidden) drawRows();
  drawGraph();
  if (!$("processes").hidden) drawProcesses();
  drawDetail();
}

function say(text, failed = false) {
  $("status").classList.toggle("failed", failed);
  if ($("status").textContent !== text) $("status").textContent = text;
}

function receive(survey) {
  remember(survey);
  if (state.paused) return;
  state.survey = survey;
  const missing = survey.missing > 0 ? `, ${survey.missing} did not answer` : "";
  const part = survey.not_listed ? "; the store's names cannot be listed" : survey.is_cut ? "; not all are listed: a survey ends after so many keys and locks, and the next begins anew" : !survey.is_complete && survey.missing === 0 ? "; not every holder has answered" : "";
  const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;
  say(`${count(survey.locks.length, "lock", "locks")}, ${count(survey.clients.length, "process", "processes")}${missing}${part}`);
  draw();
}

// What the page may do; asked again with each connection, since a console that was restarted has another token.
async function greet() {
  try {
    const response = await fetch(`${base}/api/session`);
    if (response.ok) state.session = await response.json();
    return response.status;
  } catch {
    return 0;
  }
}

function connect() {
  const events = new EventSource(`${base}/api/events`);
  events.addEventListener("survey", (event) => receive(JSON.parse(event.data)));
  events.addEventListener("failed", (event) => say(JSON.parse(event.data).error, true));
  events.onopen = greet;
  events.onerror = async () => {
    // The browser connects again by itself, but not after an answer that is no stream: of a proxy, or without the token.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, RETRY);
    const status = await greet();
    if (events.readyState !== EventSource.OPEN) {
      say(status === 401 ? "the console asks for its token; load this page again" : "no connection to the console; trying again …", true);
    }
  };
}

function open(key) {
  state.open = key;
  $("detail-name").textContent = key;
  $("typed").value = "";
  $("release-answer").textContent = "";
  $("release").querySelector("button").disabled = true;
  if (!$("detail").open) $("detail").showModal();
  drawDetail();
}

async function release(event) {
  event.preventDefault();
  const answer = $("release-answer");
  answer.textContent = "releasing …";
  try {
    const response = await fetch(`${base}/api/release`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-csrf-token": state.session.csrf },
      body: JSON.stringify({ name: state.open, typed: $("typed").value }),
    });
    const body = await response.json();
    answer.textContent = response.ok ? "released" : body.error;
  } catch {
    answer.textContent = "the console does not answer";
  }
}

function tab(name) {
  for (const one of ["locks", "graph", "processes"]) {
    $(one).hidden = one !== name;
    $(`tab-${one}`).setAttribute("aria-selected", String(one === name));
    $(`tab-${one}`).tabIndex = one === name ? 0 : -1;
  }
  draw();
}

document.querySelector("nav").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) tab(button.id.slice(4));
});
document.querySelector("nav").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  next.focus();
  tab(next.id.slice(4));
});
document.querySelector("thead").addEventListener("click", (event) => {
  const by = event.target.closest("button")?.dataset.sort;
  if (!by) return;
  state.sort = { by, down: state.sort.by === by ? !state.sort.down : ["held", "waiters"].includes(by) };
  for (const th of document.querySelectorAll("#list th")) {
    const own = th.querySelector("button")?.dataset.sort === by;
    if (own) th.setAttribute("aria-sort", state.sort.down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
  draw();
});
$("rows").addEventListener("click", (event) => {
  const key = event.target.closest("tr")?.dataset.key;
  if (key !== undefined) open(key);
});
$("rows").addEventListener("keydown", (event) => {
  const tr = event.target.closest("tr");
  if (event.key === "Enter" && tr?.dataset.key !== undefined) {
    // Or the same key press would go on to the button that has the focus next, which closes the details.
    event.preventDefault();
    open(tr.dataset.key);
  }
  const other = { ArrowDown: tr?.nextElementSibling, ArrowUp: tr?.previousElementSibling }[event.key];
  if (other?.dataset.key !== undefined) {
    event.preventDefault();
    other.focus();
  }
});
let planned = false;
$("list").addEventListener("scroll", () => {
  if (planned || !state.survey) return;
  planned = true;
  requestAnimationFrame(() => {
    planned = false;
    drawRows();
  });
});
$("filters").addEventListener("submit", (event) => event.preventDefault());
for (const id of ["filter", "kind", "contended"]) {
  $(id).addEventListener("input", () => {
    $("list").scrollTop = 0;
    draw();
  });
}
$("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  $("pause").setAttribute("aria-pressed", String(state.paused));
  $("pause").textContent = state.paused ? "Continue" : "Pause";
  if (state.paused) say("paused");
});
$("close").addEventListener("click", () => $("detail").close());
$("detail").addEventListener("close", () => { state.open = null; });
$("typed").addEventListener("input", () => {
  $("release").querySelector("button").disabled = $("typed").value !== state.open;
});
$("release").addEventListener("submit", release);
addEventListener("resize", draw);

connect();
