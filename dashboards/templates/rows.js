"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main"), articles = [...document.querySelectorAll("article")];
const PIECE = 384; // Tokens that are painted together when they become visible.
const LINE = 19.2, HEAD = 85; // Pixels of a line of text, and of the parts around a text.
const READ = {
  loss: "Tinted tokens are scored. Struck-through tokens are context only. Tokens in italics are not part of any document.",
  structure: "Colours show the category of the code. Point at a chunk to mark the chunks that it calls and its callers.",
  plain: "Training text without colours.",
};
const said = (number) => number.toLocaleString("en");
const many = (number, thing) => `${said(number)} ${thing}${number === 1 ? "" : "s"}`;
const digit = new Map([...data.digits].map((letter, value) => [letter, value]));
const rows = [];
const input = document.querySelector("#search input"), counted = document.querySelector("#search output"), found = document.getElementById("found");
const MOST_FOUND = 100;
let at = -1, chosen = -1, only = "", wanted = "";

// The position of a row in its data set; its pack_id ends with the index of the row.
function position(index) {
  const number = /-(\d{10})$/.exec(articles[index].dataset.pack);
  if (!number || data.total <= articles.length) return `row ${index + 1} of ${articles.length}`;
  return `row ${said(+number[1] + 1)} of ${said(data.total)} (${articles.length} shown)`;
}

// The tokens of a row: their lengths, codes, chunks and whether they are scored.
function unpack(index) {
  const packed = data.rows[index], article = articles[index];
  const lengths = new Uint32Array(packed.valid), scored = new Uint8Array(packed.valid), made = new Uint8Array(packed.valid);
  const codes = new Uint8Array(packed.valid), chunkOf = new Int32Array(packed.valid).fill(-1);
  let token = 0, carried = 0;
  for (const letter of packed.lengths) for (const value of [digit.get(letter) >> 3, digit.get(letter) & 7]) {
    carried += value;
    if (value === 7) continue;
    lengths[token++] = carried;
    carried = 0;
  }
  for (const [flags, runs] of [[scored, packed.scored], [made, packed.made]]) {
    runs.reduce((start, size, i) => { flags.fill(i % 2, start, start + size); return start + size; }, 0);
  }
  for (let i = 0, start = 0; i < packed.codes.length; i += 2) {
    codes.fill(packed.codes[i], start, start + packed.codes[i + 1]);
    start += packed.codes[i + 1];
  }
  const chunks = [];
  for (let i = 0; i < packed.chunks.length; i += 3) {
    const [start, end, level] = packed.chunks.slice(i, i + 3);
    chunkOf.fill(chunks.length, start, end);
    chunks.push({ start, level: level - 1, calls: [], callers: [], uses: [], users: [] });
  }
  for (const [edges, out, back] of [[packed.calls, "calls", "callers"], [packed.types, "uses", "users"]]) {
    for (let i = 0; i < edges.length; i += 2) {
      chunks[edges[i]][out].push(edges[i + 1]);
      chunks[edges[i + 1]][back].push(edges[i]);
    }
  }
  const ends = [...packed.starts.slice(1), packed.valid];
  complete(article, packed, ends);
  const marks = [".mask > path:not(.sees)", ".documents rect", ".lines tr", ".doc"].map((drawn) => [...article.querySelectorAll(drawn)]);
  for (const mark of marks) mark.forEach((each, d) => { each.dataset.d = d; });
  return {
    article, lengths, scored, made, codes, chunkOf, chunks, ends, starts: packed.starts, length: packed.length, structured: packed.codes.length > 0,
    marks, edges: [...article.querySelectorAll(".edges path")],
  };
}

// Table rows of the documents that are missing in the HTML.
function complete(article, packed, ends) {
  if (!packed.lines.length) return;
  const body = article.querySelector(".lines"), pattern = body.rows[0], texts = article.querySelectorAll(".doc");
  for (let d = body.rows.length, i = 0; d < ends.length; d++, i += 4) {
    const line = pattern.cloneNode(true), link = line.querySelector("a"), start = packed.starts[d];
    const [repository, commit, licence, share] = packed.lines.slice(i, i + 4).map((word) => packed.words[word]);
    link.textContent = d;
    link.href = "#" + texts[d].id;
    line.querySelector("bdi").textContent = texts[d].querySelector("h3").lastChild.textContent;
    const cells = { 1: repository, 2: commit, 4: licence, 5: said(start), 6: said(ends[d] - start), 7: share };
    for (const cell in cells) line.cells[cell].textContent = cells[cell];
    body.append(line);
  }
  article.querySelector(".more").remove();
}

// Texts are divided into pieces. A piece is divided into tokens when it comes near the visible part of the page.
const near = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) paint(entry.target);
}, { rootMargin: "900px 0px" });

function cut(row) {
  row.article.querySelectorAll("pre").forEach((pre, d) => {
    const text = pre.textContent, pieces = [];
    let offset = 0;
    for (let token = row.starts[d]; token < row.ends[d]; token += PIECE) {
      const last = Math.min(token + PIECE, row.ends[d]), piece = document.createElement("span");
      let end = offset;
      for (let each = token; each < last; each++) end += row.lengths[each];
      piece.textContent = text.slice(offset, end);
      piece.first = token;
      piece.last = last;
      offset = end;
      pieces.push(piece);
    }
    pre.replaceChildren(...pieces);
    // The browser doesn't lay out texts that are far away. Their heights are set, so that scrolling doesn't jump.
    pre.parentNode.style.containIntrinsicSize = `auto none auto ${(HEAD + text.split("\n").length * LINE).toFixed(1)}px`;
    for (const piece of pieces) near.observe(piece);
  });
}

function paint(piece) {
  near.unobserve(piece);
  if (piece.first === undefined) return;
  const row = rows[+piece.closest("article").id.slice(1)], text = piece.textContent, drawn = [];
  let offset = 0;
  for (let token = piece.first; token < piece.last; token++) {
    const size = row.lengths[token];
    if (!size) continue;
    const own = text.slice(offset, offset + size), made = document.createElement(row.scored[token] ? "i" : "s");
    offset += size;
    made.textContent = own;
    made.token = token;
    const chunk = row.chunkOf[token], looks = [];
    if (row.codes[token]) looks.push("k" + row.codes[token]);
    if (row.made[token]) looks.push("g");
    if (own[0] === "\n") looks.push("l");
    if (chunk >= 0 && row.chunks[chunk].start === token) looks.push("b");
    if (looks.length) made.className = looks.join(" ");
    if (chunk >= 0) made.dataset.c = chunk;
    drawn.push(made);
  }
  delete piece.first;
  piece.replaceChildren(...drawn);
}

// Show a row.
function go(index, document_ = -1, scroll = false) {
  index = Math.max(0, Math.min(articles.length - 1, index));
  if (index !== at) {
    articles[at]?.classList.remove("now");
    at = index;
    articles[at].classList.add("now");
    if (!rows[at]) {
      rows[at] = unpack(at);
      cut(rows[at]);
    }
    articles[at].querySelector(".texts > header").append(tools);
    tools.querySelector("[data-show=structure]").hidden = !rows[at].structured;
    document.querySelector("#rows output").value = position(at);
    document.getElementById("before").disabled = at === 0;
    document.getElementById("after").disabled = at === articles.length - 1;
    document.getElementById("strip").replaceChildren(articles[at].querySelector(".documents").cloneNode(true));
    rows[at].marks[4] = [...document.querySelectorAll("#strip [data-d]")];
    dim();
    colour(wanted);
  }
  choose(document_, scroll);
}

function marked(index, name) {
  const row = rows[at];
  for (const each of document.querySelectorAll(`.now .${name}[data-d], #strip .${name}`)) each.classList.remove(name);
  if (index >= 0) for (const marks of row.marks) marks[index]?.classList.add(name);
}

function point(index) {
  const shown = index >= 0 ? index : chosen;
  marked(shown, "on");
  document.documentElement.classList.toggle("has-on", shown >= 0);
}

// Show a document of the row.
function choose(index, scroll = true) {
  chosen = index >= 0 && index < rows[at].starts.length ? index : -1;
  marked(chosen, "chosen");
  point(-1);
  if (chosen < 0) return;
  const line = articles[at].querySelector("tr.chosen"), box = line.closest(".table");
  if (line.offsetTop < box.scrollTop + 30 || line.offsetTop + line.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = line.offsetTop - 60;
  if (scroll) articles[at].querySelector("section.chosen").scrollIntoView({ block: "start" });
}

// Choose the property that colours show. A row without structure shows its loss mask instead.
function colour(name) {
  wanted = name;
  name = name === "structure" && !rows[at].structured ? "loss" : name;
  main.dataset.show = name;
  for (const button of tools.querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.show === name);
  if (name !== "structure") only = "";
  if (only) main.dataset.only = only; else delete main.dataset.only;
  for (const item of tools.querySelectorAll("#legend li")) item.classList.toggle("only", item.className.split(" ")[0] === only);
  read();
}

function read(text = READ[main.dataset.show]) {
  articles[at].querySelector(".reading").textContent = text;
}

// Describe the token under the pointer and its chunk.
function tell(made) {
  const row = rows[at], token = made.token, chunk = row.chunks[row.chunkOf[token]];
  const d = row.ends.findIndex((end) => token < end);
  const words = [`token ${said(token)}`, `${said(token - row.starts[d])} into document ${d}`, row.scored[token] ? "scored" : "context only"];
  if (row.made[token]) words.push("not part of a document");
  if (row.codes[token]) words.push(data.names[row.codes[token]]);
  if (chunk) words.push(`level ${chunk.level}`);
  if (chunk) for (const [edges, word] of [[chunk.calls, "calls"], [chunk.callers, "called by"], [chunk.uses, "uses"], [chunk.users, "used by"]]) {
    if (edges.length) words.push(`${word} ${said(edges.length)}`);
  }
  read(words.join(" · "));
  light(row.chunkOf[token]);
}

function light(index) {
  for (const each of articles[at].querySelectorAll(".lit, .near")) each.classList.remove("lit", "near");
  const row = rows[at], chunk = row.chunks[index];
  if (!chunk) return;
  const painted = (i, name) => articles[at].querySelectorAll(`pre [data-c="${i}"]`).forEach((each) => each.classList.add(name));
  for (const end of [...chunk.calls, ...chunk.callers, ...chunk.uses, ...chunk.users]) painted(end, "near");
  painted(index, "lit");
  row.edges.forEach((path) => {
    const [source, target] = path.dataset.e.split(" ").map(Number);
    path.classList.toggle("lit", source === index || target === index);
  });
}

// Show the tokens that the token under the pointer in the mask attends to.
function see(event) {
  const row = rows[at], svg = articles[at].querySelector(".mask"), box = svg.getBoundingClientRect();
  const output = articles[at].querySelector(".see output"), line = svg.querySelector(".sees");
  const unit = row.length / box.width;
  const asks = Math.min(row.length - 1, Math.max(0, Math.floor((event.clientY - box.top) * unit)));
  const d = row.ends.findIndex((end) => asks < end);
  if (d < 0) {
    line.removeAttribute("d");
    output.value = `Token ${said(asks)} is padding.`;
    point(-1);
    return;
  }
  const first = row.starts[d];
  line.setAttribute("d", `M${first} ${asks + 0.5}H${asks + 1}`);
  output.value = `Token ${said(asks)} of document ${d} attends to ${many(asks - first + 1, "token")}.`;
  point(d);
}

function unsee() {
  articles[at].querySelector(".sees").removeAttribute("d");
  articles[at].querySelector(".see output").value = "";
  point(-1);
}

// Search the documents of all rows on the page. Every word must occur in a path, repository, commit, id or licence.
const documents = [];
let hits = [], hit = -1;

function list() {
  articles.forEach((article, row) => article.querySelectorAll(".doc").forEach((text, d) => {
    const path = text.querySelector("h3").lastChild.textContent, facts = text.querySelector("p").textContent.split(" · ");
    const [repository, commit = ""] = facts[0].split(" at "), id = text.querySelector("details code")?.textContent ?? "";
    const files = [...text.querySelectorAll("details li")].map((each) => each.textContent);
    const words = [path, facts[0], facts[2] ?? "", id, ...files].join("\n").toLowerCase();
    documents.push({ row, d, path, repository, commit, words });
  }));
}

function search() {
  if (!documents.length) list();
  const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  hits = asked.length ? documents.filter((each) => asked.every((word) => each.words.includes(word))) : [];
  hit = -1;
  counted.value = asked.length ? `${said(hits.length)} of ${said(documents.length)}` : "";
  const lines = hits.slice(0, MOST_FOUND).map(line);
  if (hits.length > MOST_FOUND) lines.push(sentence(`and ${said(hits.length - MOST_FOUND)} more; add a word to narrow the search`));
  if (asked.length && !hits.length) lines.push(...elsewhere(asked[0]));
  found.replaceChildren(...lines);
  found.hidden = !asked.length;
  dim();
}

function line(each, number) {
  const link = document.createElement("a"), parts = ["i", "b", "i", "code"].map((name) => document.createElement(name));
  [`${position(each.row).split(" of ")[0]}, ${each.d}`, each.path, each.repository, each.commit.slice(0, 10)].forEach((text, i) => { parts[i].textContent = text; });
  link.href = `#r${each.row}d${each.d}`;
  link.dataset.hit = number;
  link.append(...parts);
  return link;
}

function sentence(text) {
  const made = document.createElement("p");
  made.textContent = text;
  return made;
}

// The page shows only some rows of the data set. This command searches all rows.
function elsewhere(word) {
  const made = sentence("No match on this page. "), command = document.createElement("code");
  if (!data.artefact) return [made];
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const filter = /^[0-9a-f]{7,40}$/.test(word) ? `--commit ${word}` : `--path ${quoted(`*${word}*`)}`;
  command.textContent = `curriculum inspect ${data.artefact} ${filter} --rows 6 --html found.html`;
  made.append("Search all rows of the data set: ", command);
  return [made];
}

// Dim the documents of the current row that the search didn't find.
function dim() {
  const kept = new Set(hits.filter((each) => each.row === at).map((each) => each.d));
  for (const marks of [0, 1, 2, 4].map((kind) => rows[at].marks[kind])) {
    marks?.forEach((each, d) => each.classList.toggle("miss", hits.length > 0 && !kept.has(d)));
  }
}

// Show a document that the search found. After the last, the first follows.
function visit(number) {
  if (!hits.length) return;
  hit = (number + hits.length) % hits.length;
  found.querySelectorAll("a").forEach((each, i) => each.classList.toggle("on", i === hit));
  go(hits[hit].row, hits[hit].d, true);
  keep();
}

function keep() {
  const show = wanted === usual ? "" : "&m=" + wanted, asked = input.value.trim();
  const state = `#r${at}${chosen >= 0 ? "d" + chosen : ""}${show}${only ? "&o=" + only : ""}`;
  history.replaceState(null, "", state + (asked ? "&q=" + encodeURIComponent(asked) : ""));
}

function restore() {
  const [place, ...rest] = location.hash.slice(1).split("&"), found = /^r(\d+)(?:d(\d+))?$/.exec(place);
  const value = (name) => rest.find((each) => each.startsWith(name + "="))?.slice(2) ?? "";
  wanted = READ[value("m")] ? value("m") : usual;
  go(found ? +found[1] : 0, found?.[2] === undefined ? -1 : +found[2], true);
  only = /^k\d+$/.test(value("o")) ? value("o") : "";
  colour(wanted);
  let asked = "";
  try { asked = decodeURIComponent(value("q")); } catch { /* An address that was cut short asks nothing. */ }
  if (asked !== input.value.trim()) {
    input.value = asked;
    search();
    found.hidden = true;
  }
}

const tools = document.getElementById("tools").content.firstElementChild;
const usual = data.rows.some((row) => row.codes.length) ? "structure" : "loss";
// Texts that scroll sideways can get the keyboard focus.
const fits = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0; else target.removeAttribute("tabindex");
  }
});
for (const pre of document.querySelectorAll("pre")) fits.observe(pre);

document.documentElement.classList.add("live");

const part = (target) => +(target.closest?.("[data-d]")?.dataset.d ?? -1);
main.addEventListener("mouseover", (event) => {
  const made = event.target.closest("pre :is(i, s)");
  if (made) tell(made);
  if (!event.target.closest(".mask")) point(part(event.target));
});
main.addEventListener("mouseout", (event) => {
  if (event.target.closest(".mask") && !event.relatedTarget?.closest?.(".mask")) unsee();
  if (event.target.closest("pre") && !event.relatedTarget?.closest?.("pre")) { light(-1); read(); }
});
main.addEventListener("mouseleave", () => point(-1));
main.addEventListener("focusin", (event) => { if (event.target.closest("tr")) point(part(event.target)); });
main.addEventListener("mousemove", (event) => { if (event.target.closest(".mask")) see(event); });
input.addEventListener("input", () => { search(); keep(); });
input.addEventListener("focus", () => { if (input.value.trim()) found.hidden = false; });
input.addEventListener("keydown", (event) => {
  if (event.key === "Enter") { visit(event.shiftKey ? hit - 1 : hit + 1); found.hidden = true; }
  else if (event.key === "ArrowDown") found.querySelector("a")?.focus();
  else if (event.key === "Escape") { input.value = ""; search(); input.blur(); keep(); }
  else return;
  event.preventDefault();
});
found.addEventListener("keydown", (event) => {
  const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (event.key === "Escape") { found.hidden = true; input.focus(); found.hidden = true; }
  else if (next) (event.target[next] ?? input).focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("#found a");
  if (link) {
    visit(+link.dataset.hit);
    found.hidden = true;
    event.preventDefault();
    return;
  }
  if (!event.target.closest("header")) found.hidden = true;
  const button = event.target.closest("button");
  if (button?.id === "before" || button?.id === "after") go(at + (button.id === "after" ? 1 : -1));
  else if (button?.dataset.show) colour(button.dataset.show);
  else if (event.target.closest("#legend li")) {
    const name = event.target.closest("li").className.split(" ")[0];
    only = name === only ? "" : name;
    colour("structure");
  } else if (event.target.closest(".mask, .strip, tbody tr") && event.target.closest("article, #strip")) {
    const mask = event.target.closest(".mask");
    choose(mask ? +(document.querySelector(".now .mask .on")?.dataset.d ?? -1) : part(event.target));
    event.preventDefault();
  } else return;
  keep();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target === input) return;
  const shows = [...tools.querySelectorAll("button")].filter((each) => !each.hidden).map((each) => each.dataset.show);
  const last = rows[at].starts.length - 1;
  if (event.key === "j" || event.key === "k") go(at + (event.key === "j" ? 1 : -1));
  else if (event.key === "n") choose(Math.min(last, chosen + 1));
  else if (event.key === "p") choose(chosen < 0 ? last : Math.max(0, chosen - 1));
  else if (event.key === "/") input.focus();
  else if (event.key === "m") colour(shows[(shows.indexOf(main.dataset.show) + 1) % shows.length]);
  else if (event.key === "Escape") { only = ""; choose(-1); colour(wanted); }
  else return;
  event.preventDefault();
  keep();
});
addEventListener("beforeprint", () => {
  for (const piece of articles[at].querySelectorAll("pre > span")) paint(piece);
});
addEventListener("hashchange", restore);
restore();
