"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main"), panel = document.getElementById("edges");
const input = document.querySelector("#find input"), told = document.querySelector("#find output");
const lines = [...document.querySelectorAll("#tree li")];
const places = lines.map((_, i) => document.getElementById("n" + i));
const depths = lines.map((line) => +/\bl(\d+)/.exec(line.className)[1]);
const words = lines.map((line) => line.textContent.toLowerCase());
const above = [], shut = new Set();
let at = -1, only = "";

// The parent of every line, and the number of lines below it.
const below = lines.map(() => 0);
for (let i = 0, path = []; i < lines.length; i++) {
  path.length = Math.min(path.length, depths[i]);
  above[i] = path.length ? path[path.length - 1] : -1;
  for (const each of path) below[each]++;
  path.push(i);
}

// The edges of every line: the other end, the kind and the label, by direction.
const edges = lines.map(() => ({ out: [], in: [] }));
for (let each = 0; each < data.edges.length; each += 3) {
  const [source, target, look] = data.edges.slice(each, each + 3), [kind, label, sure] = data.looks[look];
  edges[source].out.push({ end: target, word: data.words[kind][0], label, sure });
  edges[target].in.push({ end: source, word: data.words[kind][1], label, sure });
}

function draw() {
  const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = new Set(), kept = new Set();
  lines.forEach((_, i) => {
    if (!wanted.every((word) => words[i].includes(word))) return;
    found.add(i);
    for (let each = i; each >= 0; each = above[each]) kept.add(each);
  });
  lines.forEach((line, i) => {
    let hidden = wanted.length ? !kept.has(i) : false;
    if (!wanted.length) for (let up = above[i]; up >= 0; up = above[up]) hidden ||= shut.has(up);
    line.classList.toggle("gone", hidden);
    line.classList.toggle("beside", wanted.length > 0 && !found.has(i));
    line.classList.toggle("shut", shut.has(i) && !wanted.length);
    if (below[i]) line.setAttribute("aria-expanded", !shut.has(i));
  });
  told.value = wanted.length ? `${found.size} of ${lines.length}` : `${lines.length}`;
  if (only) main.dataset.only = only; else delete main.dataset.only;
  for (const item of document.querySelectorAll("#legend li")) item.classList.toggle("only", item.className.split(" ")[0] === only);
}

function keep() {
  const state = [];
  if (at >= 0) state.push("n" + at);
  if (input.value) state.push("q=" + encodeURIComponent(input.value));
  if (shut.size) state.push("x=" + [...shut].join("."));
  if (only) state.push("o=" + only);
  history.replaceState(null, "", "#" + state.join("&"));
}

function choose(i, { scroll = true } = {}) {
  for (const each of [lines[at], places[at]]) each?.classList.remove("on");
  for (const line of document.querySelectorAll("#tree .in, #tree .out")) line.classList.remove("in", "out");
  at = i >= 0 && i < lines.length ? i : -1;
  panel.classList.toggle("full", at >= 0);
  if (at < 0) return;
  for (let up = above[at]; up >= 0; up = above[up]) if (shut.delete(up)) draw();
  for (const each of [lines[at], places[at]]) each?.classList.add("on");
  for (const edge of edges[at].out) lines[edge.end].classList.add("out");
  for (const edge of edges[at].in) lines[edge.end].classList.add("in");
  tell();
  lines[at].scrollIntoView({ block: "nearest" });
  if (scroll) places[at]?.scrollIntoView({ block: "start" });
}

function part(tag, text) {
  const made = document.createElement(tag);
  made.textContent = text;
  return made;
}

function tell() {
  const name = (i) => lines[i].querySelector("b").textContent;
  const own = edges[at], note = lines[at].querySelector("small");
  const links = [...own.out, ...own.in].map((edge) => {
    const link = document.createElement("a");
    const sure = edge.sure === undefined ? "" : " " + edge.sure.toFixed(2);
    link.href = "#n" + edge.end;
    link.className = "e" + edge.label;
    link.title = `${name(at)} ${edge.word} ${name(edge.end)}\n${data.labels[edge.label]}${sure && ", confidence" + sure}`;
    link.append(part("i", edge.word), part("b", name(edge.end)), part("u", data.labels[edge.label] + sure));
    link.onmouseenter = () => mark(edge.end);
    link.onmouseleave = () => mark(-1);
    return link;
  });
  const count = `${own.out.length} out, ${own.in.length} in`;
  const said = [note && note.textContent, data.edges.length ? count : ""].filter(Boolean).join(" · ");
  panel.replaceChildren(part("h4", name(at)), part("p", said), ...links);
  panel.scrollTop = 0;
}

function mark(i) {
  for (const each of document.querySelectorAll(".over")) each.classList.remove("over");
  for (const each of [lines[i], places[i]]) each?.classList.add("over");
}

function fold(i) {
  if (!below[i]) return;
  if (!shut.delete(i)) shut.add(i);
  draw();
  keep();
}

function step(by) {
  const shown = lines.map((_, i) => i).filter((i) => !lines[i].classList.contains("gone"));
  const now = shown.findIndex((i) => i >= at);
  const next = at < 0 ? 0 : now < 0 ? shown.length - 1 : now + (shown[now] === at || by < 0 ? by : 0);
  if (shown.length) choose(shown[Math.max(0, Math.min(shown.length - 1, next))]);
  keep();
}

function place(target) {
  const found = target.closest?.("[id^=n]");
  return found ? +found.id.slice(1) : -1;
}

function restore() {
  const state = location.hash.slice(1).split("&");
  const value = (name) => state.find((each) => each.startsWith(name + "="))?.slice(2) ?? "";
  input.value = decodeURIComponent(value("q"));
  shut.clear();
  for (const each of value("x").split(".")) if (below[+each] && each) shut.add(+each);
  only = value("o");
  draw();
  const named = state.find((each) => /^n\d+$/.test(each));
  choose(named ? +named.slice(1) : -1);
}

// Texts that scroll sideways can get the keyboard focus.
const fits = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0; else target.removeAttribute("tabindex");
  }
});
for (const pre of document.querySelectorAll("pre")) fits.observe(pre);

document.documentElement.classList.add("live");
document.getElementById("tree").setAttribute("role", "tree");
lines.forEach((line, i) => {
  line.title = [...line.querySelectorAll("i, b, small")].map((each) => each.textContent).join(" ");
  line.setAttribute("role", "treeitem");
  line.setAttribute("aria-level", depths[i] + 1);
  if (!below[i]) return;
  line.classList.add("folds");
  line.querySelector("u")?.setAttribute("data-n", below[i]);
  const button = document.createElement("button");
  button.tabIndex = -1;
  button.setAttribute("aria-label", "Fold");
  button.onclick = () => fold(i);
  line.prepend(button);
});
places.forEach((place, i) => {
  if (place?.tagName === "PRE") place.dataset.name = lines[i].querySelector("b").textContent;
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='#n']");
  if (link) {
    event.preventDefault();
    choose(+link.hash.slice(2));
    keep();
  } else if (main.contains(event.target) && getSelection().isCollapsed) {
    choose(place(event.target), { scroll: false });
    keep();
  }
});
main.addEventListener("mouseover", (event) => mark(place(event.target)));
main.addEventListener("mouseleave", () => mark(-1));
document.getElementById("tree").addEventListener("mouseover", (event) => mark(lines.indexOf(event.target.closest("li"))));
document.getElementById("tree").addEventListener("mouseleave", () => mark(-1));
document.getElementById("legend").addEventListener("click", (event) => {
  const name = event.target.closest("li")?.className.split(" ")[0];
  only = !name || name === only ? "" : name;
  draw();
  keep();
});
input.addEventListener("input", () => { draw(); keep(); });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { input.value = ""; only = ""; input.blur(); draw(); keep(); return; }
  if (event.target === input) {
    if (event.key === "Enter") { input.blur(); step(0); }
    return;
  }
  if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (event.key === "Enter" && at >= 0) fold(at);
  else if (event.key === "/") input.focus();
  else return;
  event.preventDefault();
});
addEventListener("hashchange", restore);
restore();
