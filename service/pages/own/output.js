// The output of a task. The page holds only the lines in view; the server returns any lines, and searches all.
(() => {
  "use strict";
  const $ = (id) => document.getElementById(id), out = $("output"), finder = $("finder");
  if (!out) return;
  const clock = (at) => { let zone; try { zone = localStorage.getItem("millrace.zone"); } catch { /* local */ } return new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false, fractionalSecondDigits: 3, ...zone === "UTC" ? { timeZone: "UTC" } : {} }); };
  if ("several" in out.dataset) { // the lines of several tasks, which the server interleaves
    const end = () => { for (const el of out.children) el.dataset.clock = clock(el.dataset.at); out.scrollTop = out.scrollHeight; };
    end();
    if ("again" in out.dataset) setInterval(async () => {
      if (document.hidden || out.matches(":hover") && out.scrollTop + out.clientHeight < out.scrollHeight - 40) return; // one reads
      try {
        const fresh = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html").getElementById("output");
        if (fresh && fresh.textContent !== out.textContent) { out.replaceChildren(...fresh.childNodes); end(); }
      } catch { /* the next time */ }
    }, 2000);
    return;
  }
  $("wrap").checked = matchMedia("(max-width: 40rem)").matches; // a telephone cuts lines
  out.classList.toggle("wrapped", $("wrap").checked);
  $("wrap").onchange = () => out.classList.toggle("wrapped", $("wrap").checked);
  const stamp = (rows) => { if ($("times").checked) for (const el of rows) if (el.dataset.at) el.dataset.clock = clock(el.dataset.at); };
  $("times").onchange = () => { out.classList.toggle("timed", $("times").checked); stamp(out.querySelectorAll(".line")); };
  $("follow").parentElement.hidden = !out.dataset.follow;
  if (!out.dataset.follow && !(Number(out.dataset.total) > out.childElementCount)) { // the page has all lines
    const found = out.querySelector(".found");
    out.scrollTop = found ? found.offsetTop - out.offsetTop - out.clientHeight / 3 : out.dataset.only ? 0 : out.scrollHeight;
    return;
  }
  const say = (text) => { $("missed").className = text ? "wrong" : ""; $("missed").textContent = text; };
  const number = (n) => n.toLocaleString("en");

  // The window stays at the scrolled position of the box, and shows the lines from the first one on. So lines may have any height.
  const tallest = 8e6, chunk = 200, kept = 6000;
  const lines = new Map(), asked = new Set();
  let total = Number(out.dataset.total), first = 1, high = 20, mark = 0, chasing = !!out.dataset.follow, moved = -1;
  const rail = document.createElement("div"), view = document.createElement("div"), block = document.createElement("div");
  rail.className = "rail"; view.className = "window"; block.className = "block"; view.tabIndex = 0;
  view.setAttribute("role", "group");
  view.setAttribute("aria-label", "Lines of the output");
  const take = (all) => { for (const el of all) { lines.set(Number(el.dataset.n), el); if (el.classList.contains("found")) mark = Number(el.dataset.n); } };
  const begun = [...out.querySelectorAll(".line")];
  if (begun.length) high = begun[0].getBoundingClientRect().height || high;
  take(begun);
  out.removeAttribute("tabindex");
  out.removeAttribute("role");
  out.removeAttribute("aria-label");
  view.append(block); rail.append(view); out.replaceChildren(rail);
  out.classList.add("virtual");

  const room = () => Math.max(1, Math.floor(view.clientHeight / high));
  const last = () => Math.max(1, total - room() + 1);
  const slack = () => rail.offsetHeight - out.clientHeight;
  function measure() {
    out.classList.toggle("short", total * high < 300);
    rail.style.height = Math.min(Math.max(total, 1) * high + (total * high < 300 ? 24 : 0), tallest) + "px";
    view.style.height = out.clientHeight + "px";
  }
  function draw() {
    const n = room() + 2, rows = [], want = new Set();
    const from = Math.max(1, Math.min(Math.floor(first), last()));
    for (let i = from; i < from + n && i <= total; i++) {
      let el = lines.get(i);
      if (!el) {
        el = document.createElement("div"); el.className = "line waiting"; el.dataset.n = i;
        el.append(Object.assign(document.createElement("span"), { className: "n", textContent: i }), Object.assign(document.createElement("span"), { className: "t", textContent: asked.has(Math.floor((i - 1) / chunk)) ? "" : "\u2026" }));
        want.add(Math.floor((i - 1) / chunk));
      }
      el.classList.toggle("found", i === mark);
      rows.push(el);
    }
    stamp(rows);
    block.replaceChildren(...rows);
    const end = from >= last();
    view.classList.toggle("end", end && total > room());
    block.style.transform = end ? "" : "translateY(" + -(first - from) * high + "px)";
    out.hidden = total === 0;
    const where = $("where");
    if (where) where.textContent = "lines " + number(from) + " to " + number(Math.min(from + room() - 1, total)) + " of " + number(total);
    for (const c of want) fetchChunk(c);
  }
  let busy = 0;
  async function fetchChunk(c) {
    if (asked.has(c) || busy > 2) return;
    asked.add(c); busy++;
    try { await get(c * chunk + 1); draw(); } catch { setTimeout(() => { asked.delete(c); draw(); }, 1000); } finally { busy--; }
  }
  // get fetches lines from a number on, without a number the last ones; it also learns the present number of lines.
  async function get(from) {
    const u = new URL(out.dataset.lines, location.href);
    if (from) u.searchParams.set("from", from);
    const got = await fetch(u);
    if (!got.ok) throw new Error(got.status);
    const draft = new DOMParser().parseFromString(await got.text(), "text/html").querySelector("[data-total]");
    if (lines.size > kept) for (const n of [...lines.keys()]) if (Math.abs(n - first) > kept / 3) { lines.delete(n); asked.delete(Math.floor((n - 1) / chunk)); }
    take([...draft.children].map((el) => document.adoptNode(el)));
    const is = Number(draft.dataset.total);
    if (is > total) { asked.delete(Math.floor(total / chunk)); total = is; measure(); if ($("nooutput")) $("nooutput").remove(); }
  }

  // show goes to a line; part is the share of the window above it.
  function show(n, part) {
    first = Math.min(Math.max(1, n - (part || 0) * room()), last());
    const s = slack();
    moved = s > 0 && last() > 1 ? (first - 1) / (last() - 1) * s : 0;
    out.scrollTop = moved;
    draw();
    remember();
  }
  let soon = 0;
  function remember() {
    clearTimeout(soon);
    soon = setTimeout(() => {
      const u = new URL(location.href);
      u.searchParams.delete("go");
      if (chasing || first >= last()) u.searchParams.delete("from"); else u.searchParams.set("from", Math.floor(first));
      if (mark) u.searchParams.set("line", mark); else u.searchParams.delete("line");
      for (const name of ["find", "level"]) if ($(name).value) u.searchParams.set(name, $(name).value); else u.searchParams.delete(name);
      $("line").value = mark || "";
      history.replaceState(history.state, "", u);
    }, 400);
  }
  const follow = $("follow");
  function chase(on) { chasing = on; if (follow) follow.checked = on; if (on) show(last()); }
  out.addEventListener("scroll", () => {
    if (Math.abs(out.scrollTop - moved) < 1.5) return; // show scrolled it
    moved = -1;
    const s = slack();
    first = s > 0 ? 1 + out.scrollTop / s * (last() - 1) : 1;
    if (out.dataset.follow) { chasing = first >= last() - 0.5; follow.checked = chasing; }
    draw();
    remember();
  });
  const by = (n) => { chasing = false; if (follow) follow.checked = false; show(first + n); };
  out.addEventListener("wheel", (e) => { // where a pixel stands for more than a line, a turn of the wheel still moves by a few lines
    if (rail.offsetHeight < tallest || e.ctrlKey || !e.deltaY) return;
    e.preventDefault();
    by(e.deltaMode ? e.deltaY : e.deltaY / high);
  }, { passive: false });
  view.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const act = { ArrowUp: () => by(-1), ArrowDown: () => by(1), PageUp: () => by(1 - room()), PageDown: () => by(room() - 1), Home: () => by(-total), End: () => show(last()) }[e.key];
    if (act) { e.preventDefault(); act(); }
  });
  view.addEventListener("click", (e) => {
    const n = e.target.closest(".n");
    if (!n) return;
    const at = Number(n.parentElement.dataset.n);
    mark = mark === at ? 0 : at;
    draw(); remember();
  });
  if (follow) follow.onchange = () => chase(follow.checked);
  $("wrap").onchange = () => { out.classList.toggle("wrapped", $("wrap").checked); draw(); };
  addEventListener("resize", () => { measure(); draw(); });

  // Searching.
  let round = 0;
  async function seek(back, from, level) {
    const mine = ++round;
    for (;;) {
      const u = new URL(out.dataset.hit, location.href);
      for (const name of ["find", "level"]) u.searchParams.set(name, $(name).value);
      if (level) { u.searchParams.set("level", level); u.searchParams.set("find", ""); }
      u.searchParams.set("from", from);
      if (back) u.searchParams.set("back", "1");
      let got;
      for (let tries = 0; !got && tries < 3; tries++) {
        if (tries) await new Promise((again) => { setTimeout(again, 1000); });
        try { got = await (await fetch(u)).json(); } catch { say("The server does not answer. Trying again."); }
      }
      if (!got) return;
      if (mine !== round) return;
      if (got.line) {
        say(""); mark = got.line;
        if (follow) follow.checked = false;
        chasing = false;
        show(mark, 0.3);
        return;
      }
      if (back ? got.reached <= 1 : got.reached >= got.total) break;
      from = back ? got.reached - 1 : got.reached + 1;
      say("Looking at line " + number(from) + " of " + number(got.total) + "\u2026");
    }
    say(back ? "No line before this one has that." : "No line from here on has that.");
  }
  finder.addEventListener("submit", (e) => {
    const go = e.submitter && e.submitter.name === "go" ? e.submitter.value : $("only").checked || e.submitter && e.submitter.id === "choose" ? "" : "next";
    if (!go || $("only").checked || !$("find").value && !$("level").value) return; // the server shows it
    e.preventDefault();
    const back = go === "previous";
    seek(back, mark ? mark + (back ? -1 : 1) : back ? total : 1);
  });
  $("firsterror").onclick = (e) => { e.preventDefault(); mark = 0; seek(false, 1, "error"); };

  // The server announces new lines; the script fetches the end at most about three times a second.
  if (out.dataset.follow) {
    let late = false, fetching = false;
    const more = async () => {
      if (fetching) { late = true; return; }
      fetching = true;
      try { await get(0); } catch { /* the next word of lines tries again */ }
      draw();
      if (chasing) show(last());
      setTimeout(() => { fetching = false; if (late) { late = false; more(); } }, 300);
    };
    const words = new EventSource(out.dataset.follow);
    words.addEventListener("batch", more);
    words.addEventListener("end", () => { words.close(); more(); });
    words.addEventListener("problem", () => words.close());
    addEventListener("pagehide", () => words.close());
  }
  measure();
  const begin = Number(new URL(location.href).searchParams.get("from"));
  if (begin) show(begin); else if (mark) show(mark, 0.3); else show(last());
})();
