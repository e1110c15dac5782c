// The scripted part of Millrace's pages: they follow the log, tick, and listen to keys. Pages work without it.
(() => {
  "use strict";
  const root = document.documentElement, $ = (id) => document.getElementById(id);
  root.classList.add("scripted");
  const kept = { get: (k) => { try { return localStorage.getItem("millrace." + k); } catch { return null; } }, set: (k, v) => { try { localStorage.setItem("millrace." + k, v); } catch { /* it is for this page alone */ } } };
  const say = (text, late) => { const p = $("said"); if (!p) return; if (p.textContent !== text) p.textContent = text; p.classList.toggle("late", !!late); };

  // Times: in the zone of the browser or in UTC, and how long ago.
  let zone = kept.get("zone") || "local";
  const two = (n) => String(n).padStart(2, "0");
  const parts = (d) => zone === "UTC" ? [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds()] : [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds()];
  const span = (s) => s < 60 ? Math.floor(s) + "s" : s < 3600 ? Math.floor(s / 60) + "m" : s < 172800 ? Math.floor(s / 3600) + "h" : Math.floor(s / 86400) + "d";
  const long = (s) => s < 60 ? Math.floor(s) + "s" : s < 3600 ? Math.floor(s / 60) + "m" + two(Math.floor(s) % 60) + "s" : Math.floor(s / 3600) + "h" + two(Math.floor(s / 60) % 60) + "m";
  function tick(within) {
    const moment = root.dataset.then && document.querySelector("#head time"), today = parts(moment ? new Date(moment.dateTime) : new Date());
    for (const t of within.querySelectorAll("time")) {
      const d = new Date(t.dateTime), p = parts(d);
      const clock = p.slice(3).map(two).join(":"), day = p[0] + "-" + two(p[1]) + "-" + two(p[2]);
      const text = t.dataset.whole || p[0] !== today[0] || p[1] !== today[1] || p[2] !== today[2] ? day + " " + clock : clock;
      if (t.textContent !== text) t.textContent = text;
      const ago = t.nextElementSibling;
      if (ago && ago.className === "ago") {
        const s = (Date.now() - d) / 1000, said = s < 0 ? "(in " + span(-s) + ")" : "(" + span(s) + " ago)";
        if (ago.textContent !== said) ago.textContent = said;
      }
    }
    for (const f of within.querySelectorAll(".for")) {
      const text = long(Math.max(0, (Date.now() - new Date(f.dataset.since)) / 1000));
      if (f.textContent !== text) f.textContent = text;
    }
  }
  const showZone = () => { $("zone").textContent = zone === "UTC" ? "UTC" : "local time"; tick(document); };
  if ($("zone")) {
    $("zone").onclick = () => { zone = zone === "UTC" ? "local" : "UTC"; kept.set("zone", zone); showZone(); };
    showZone();
  }
  setInterval(() => { if (!document.hidden) tick(document); listen(); }, 1000);

  // Light and dark.
  const themes = ["system", "light", "dark"];
  let theme = kept.get("theme") || "system";
  const showTheme = () => { root.dataset.theme = theme; if ($("theme")) $("theme").textContent = (theme === "system" ? "auto" : theme) + " theme"; };
  if ($("theme")) $("theme").onclick = () => { theme = themes[(themes.indexOf(theme) + 1) % 3]; kept.set("theme", theme); showTheme(); };
  showTheme();

  // On a telephone the entries scroll: the current one is shown.
  document.querySelector("nav li a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // Scrolling elements can be reached by keys.
  function reach() {
    for (const el of document.querySelectorAll("main .scroll, main pre")) if (!el.checkVisibility()) continue; else if (el.scrollWidth > el.clientWidth || el.scrollHeight > el.clientHeight) el.tabIndex = 0; else el.removeAttribute("tabindex");
  }
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
  reach();

  // What the server redraws replaces the old part. In a frozen list rows keep their places: new rows wait to be
  // fetched, and rows that have left are dimmed; not those that are on the next page by now.
  function keep(tr, now) { // its text has as many lines as before, one or two
    const was = tr.querySelector(".clamp"), is = now.querySelector(".clamp");
    if (was && is) is.classList.add(was.clientHeight < 2 * parseFloat(getComputedStyle(was).fontSize) ? "one" : "two");
  }
  function freeze(old, fresh, more) {
    const was = [...old.children], is = new Map([...fresh.children].map((tr) => [tr.id, tr])), last = [...is.keys()].filter((id) => id > "t").sort()[0];
    const rows = was.map((tr) => {
      const now = is.get(tr.id);
      if (now) { is.delete(tr.id); keep(tr, now); return now; }
      const gone = tr.cloneNode(true);
      if (!more || tr.id > last) gone.dataset.gone = ""; // ids are in the order of submission
      return gone;
    });
    fresh.replaceChildren(...rows);
    return [...is.values()].filter((tr) => !("in" in tr.dataset)).length; // the others are counted in a row that is there
  }
  const waiting = new Map();
  function apply(id, html) {
    const target = $(id);
    if (!target) return;
    const draft = document.createElement("template");
    draft.innerHTML = html;
    const fresh = draft.content.querySelector("tbody[data-rows='frozen']"), old = target.querySelector("tbody[data-rows='frozen']");
    let more = 0;
    if (fresh && old) more = freeze(old, fresh, draft.content.querySelector("a[rel='next']"));
    // Nothing moves under a pointer, in an open form, or in a part with selected text.
    if (!fresh && (target.querySelector("[data-rows]:hover") || target.querySelector("details.act[open]") || selecting(target))) { waiting.set(id, html); return; }
    waiting.delete(id);
    const text = draft.innerHTML;
    Promise.resolve(htmx.swap({ text, target, swap: "innerMorph" })).then(reach).then(choose);
    tick(target);
    const p = $(id + "-more"); // it always takes up room, so that nothing moves when it is filled
    if (p && more > 0) {
      const a = document.createElement("a");
      a.href = location.href; a.textContent = more + " new \u2191";
      p.replaceChildren(a);
    }
  }
  function selecting(target) {
    const s = getSelection();
    return s && !s.isCollapsed && target.contains(s.anchorNode);
  }
  const flush = () => { for (const [id, html] of [...waiting]) apply(id, html); };
  document.addEventListener("pointerout", () => setTimeout(flush));
  document.addEventListener("toggle", () => setTimeout(flush), true);
  document.addEventListener("selectionchange", () => { if (getSelection().isCollapsed) flush(); });

  // Chosen tasks stay chosen when rows are redrawn.
  const chosen = new Set();
  function choose() {
    for (const box of document.querySelectorAll("#rows input[name='task']")) box.checked = chosen.has(box.value);
    const said = $("chosen");
    if (said) said.textContent = chosen.size ? chosen.size + " selected" : "";
    const all = $("allrows"), boxes = [...document.querySelectorAll("#rows tbody input[name='task']")];
    if (all) { all.checked = boxes.length > 0 && boxes.every((box) => box.checked); all.indeterminate = !all.checked && boxes.some((box) => box.checked); }
  }
  document.addEventListener("change", (e) => {
    if (e.target.id === "allrows") {
      for (const box of document.querySelectorAll("#rows tbody input[name='task']")) if (e.target.checked) chosen.add(box.value); else chosen.delete(box.value);
      choose();
    }
    if (!e.target.matches("#rows input[name='task']")) return;
    if (e.target.checked) chosen.add(e.target.value); else chosen.delete(e.target.value);
    choose();
  });
  addEventListener("pageshow", () => { for (const box of document.querySelectorAll("#rows input[name='task']:checked")) chosen.add(box.value); choose(); });

  // The query bar offers completions of the word at the cursor.
  const bar = $("search"), offers = $("suggestions");
  if (bar && offers) {
    let soon = 0, round = 0, at = -1, all = [];
    bar.removeAttribute("list");
    for (const [name, value] of [["role", "combobox"], ["aria-controls", "suggestions"], ["aria-expanded", "false"], ["aria-autocomplete", "list"]]) bar.setAttribute(name, value);
    const bytes = (text) => new TextEncoder().encode(text).length;
    const close = () => { round++; clearTimeout(soon); all = []; at = -1; offers.hidden = true; offers.replaceChildren(); bar.setAttribute("aria-expanded", "false"); bar.removeAttribute("aria-activedescendant"); };
    const mark = (n) => {
      at = n;
      [...offers.children].forEach((li, i) => li.setAttribute("aria-selected", i === n));
      if (n < 0) bar.removeAttribute("aria-activedescendant"); else { bar.setAttribute("aria-activedescendant", "offer-" + n); offers.children[n].scrollIntoView({ block: "nearest" }); }
    };
    const take = (n) => {
      const is = all[n];
      bar.value = is.text;
      const place = new TextDecoder().decode(new TextEncoder().encode(is.text).slice(0, is.cursor)).length;
      bar.setSelectionRange(place, place);
      close();
      if (is.shown.endsWith(":")) ask();
    };
    async function ask() {
      const mine = ++round, u = new URL(bar.form.dataset.complete, location.href);
      u.searchParams.set("q", bar.value);
      u.searchParams.set("cursor", bytes(bar.value.slice(0, bar.selectionStart)));
      let got;
      try { got = await (await fetch(u)).json(); } catch { return; }
      if (mine !== round || document.activeElement !== bar || !Array.isArray(got)) return;
      all = got;
      offers.replaceChildren(...all.map((s, i) => {
        const li = document.createElement("li");
        li.id = "offer-" + i; li.textContent = s.shown; li.setAttribute("role", "option");
        li.addEventListener("pointerdown", (e) => { e.preventDefault(); take(i); });
        return li;
      }));
      offers.hidden = !all.length;
      bar.setAttribute("aria-expanded", !!all.length);
      mark(-1);
    }
    bar.addEventListener("input", () => { clearTimeout(soon); soon = setTimeout(ask, 120); });
    bar.addEventListener("blur", close);
    bar.addEventListener("keydown", (e) => {
      if (e.key === "ArrowDown" && !all.length) { e.preventDefault(); ask(); return; }
      if (!all.length) return;
      if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); mark((at + (e.key === "ArrowDown" ? 1 : at < 0 ? 0 : -1) + all.length) % all.length); }
      else if ((e.key === "Enter" || e.key === "Tab") && at >= 0) { e.preventDefault(); take(at); }
      else if (e.key === "Escape") { e.preventDefault(); e.stopPropagation(); close(); }
    });
  }

  // Plots of the table of points, which share one cursor. Their colours come from the style sheet, so a change of theme redraws them.
  const plots = [...document.querySelectorAll(".plot")].map((el) => ({ el, name: el.dataset.plot, is: null }));
  const hour = (t, exactly) => parts(new Date(t * 1000)).slice(3, exactly ? 6 : 5).map(two).join(":");
  const figure = (y) => y == null ? "none" : String(Math.round(y * 10) / 10);
  function plot(anew) {
    const rows = [...document.querySelectorAll("#points tbody tr")];
    if (!rows.length) return;
    const colour = (name) => { const probe = document.createElement("span"); probe.className = name; document.body.append(probe); const c = getComputedStyle(probe).color; probe.remove(); return c; };
    const xs = rows.map((r) => Number(r.dataset.at)), line = { done: "s-finished", failed: "s-error", wait: "s-running", oldest: "s-retrying" }, grid = { stroke: colour("empty"), grid: { stroke: colour("empty"), width: 0.2 }, ticks: { show: false } };
    for (const p of plots) {
      const data = [xs, rows.map((r) => { const y = Number(r.dataset[p.name]); return y < 0 ? null : y; })];
      p.xs = xs; // uPlot would show a single moment as years
      if (p.is && !anew && p.is.width === p.el.clientWidth) { p.is.setData(data); continue; }
      if (p.is) p.is.destroy();
      p.is = new uPlot({ width: p.el.clientWidth, height: 130, cursor: { sync: { key: "late" }, drag: { x: false, y: false } }, legend: { show: true }, hooks: { setScale: [(u, key) => { if (key === "x") p.el.dataset.seconds = Math.round(u.scales.x.max - u.scales.x.min); }] }, tzDate: (t) => zone === "UTC" ? uPlot.tzDate(new Date(t * 1000), "Etc/UTC") : new Date(t * 1000),
        scales: { x: { range: () => [Math.min(p.xs[0], p.xs.at(-1) - 300), p.xs.at(-1)] }, y: { range: (u, lo, hi) => [0, hi > 0 ? hi * 1.1 : 1] } }, axes: [{ ...grid, size: 30, values: (u, ts) => ts.map((t) => hour(t, ts[1] - ts[0] < 60)) }, { ...grid, size: 50 }], series: [{ label: "at", value: (u, t) => t == null ? "now" : hour(t, true) }, { label: p.el.dataset.label, value: (u, y) => figure(y ?? u.data[1].findLast((y) => y != null)), stroke: colour(line[p.name]), width: 1.5, points: { show: p.name === "wait" || p.name === "oldest", size: 4 }, spanGaps: false }] }, data, p.el);
      p.is.width = p.el.clientWidth;
    }
  }
  if (plots.length) {
    let resizing = 0;
    addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => plot(true), 200); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot(true));
    $("theme").addEventListener("click", () => plot(true));
    $("zone").addEventListener("click", () => plot(true));
    addEventListener("load", () => plot(true));
  }

  // Live: one stream for the page, none while it is hidden, paused, or shows the past.
  const url = new URL(location.href);
  const pinned = !!root.dataset.then || !root.dataset.now;
  let paused = url.searchParams.has("paused") || "still" in root.dataset, stream = null, again = 0, seq = root.dataset.now, heard = Date.now(), silent = false;
  // The server says something every ten seconds. A server that hangs does not, and its connection stays open.
  const patience = 20000;
  function word() {
    heard = Date.now();
    if (silent) { silent = false; say(""); $("live")?.setAttribute("aria-current", "true"); }
  }
  function listen() {
    if (!stream || document.hidden || Date.now() - heard < patience) return;
    if (!silent) {
      silent = true;
      $("live")?.removeAttribute("aria-current");
      say("No word from the server since " + parts(new Date(heard)).slice(3).map(two).join(":") + ": what stands here is as of #" + seq + ".", true);
    }
    if ((Date.now() - heard) % patience < 1000) { stop(); start(); } // the connection may be dead
  }
  // The number of what needs a person stands in the title of the tab, also while that is in the background.
  function count(of) {
    const n = of.querySelector(".needs")?.value;
    if (n !== undefined) document.title = document.title.replace(/^(\(\d+\) )?/, n === "0" ? "" : "(" + n + ") ");
  }
  if ($("needs") && !pinned) setInterval(() => {
    if (document.hidden && !paused) fetch(location.href).then((r) => r.text()).then((text) => count(new DOMParser().parseFromString(text, "text/html"))).catch(() => {});
  }, 60000);
  function stop() { if (stream) stream.close(); stream = null; clearTimeout(again); }
  function start() {
    if (pinned || paused || document.hidden || stream) return;
    const s = new EventSource(location.href);
    stream = s;
    if (!silent) heard = Date.now();
    s.onopen = () => { word(); say(""); };
    s.addEventListener("alive", word);
    s.onerror = () => {
      if (!silent) say("Cut off: what stands here is as of #" + seq + ". Trying again.", true);
      if (s.readyState === EventSource.CLOSED) { stop(); again = setTimeout(start, 4000); }
    };
    for (const el of document.querySelectorAll("[id]")) s.addEventListener(el.id, (e) => {
      word();
      if (e.lastEventId) { seq = e.lastEventId; frame(Infinity); }
      apply(el.id, JSON.parse(e.data));
      if (el.id === "late") plot(false);
      if (el.id === "needs") count(el);
    });
    s.addEventListener("problem", (e) => { say(JSON.parse(e.data).detail || "It cannot go on."); stop(); again = setTimeout(start, 4000); });
  }
  function showPause() {
    const b = $("pause");
    if (!b) return;
    b.textContent = paused ? "paused" : "pause";
    b.setAttribute("aria-pressed", paused);
    b.hidden = pinned;
    if (!pinned && paused) $("live").removeAttribute("aria-current");
  }
  if ($("pause")) $("pause").onclick = () => {
    paused = !paused;
    const u = new URL(location.href);
    if (paused) { u.searchParams.set("paused", "1"); stop(); say("Paused at #" + seq + "."); } else { u.searchParams.delete("paused"); say(""); start(); $("live").setAttribute("aria-current", "true"); }
    history.replaceState(null, "", u);
    showPause();
  };
  showPause();
  document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else start(); });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (e) => { if (e.persisted) start(); });

  // Moments.
  function goAt(at) {
    const u = new URL(location.href);
    u.searchParams.delete("paused");
    if (at) u.searchParams.set("at", at); else u.searchParams.delete("at");
    location.href = u;
  }
  // A time of day means the latest such time that has passed, in the shown zone; the address has the full time.
  for (const field of document.querySelectorAll("input[data-moment]")) field.form.addEventListener("submit", () => {
    const typed = /^(?:(\d{4})-(\d\d)-(\d\d)[ T])?(\d\d?):(\d\d)(?::(\d\d))?$/.exec(field.value.trim());
    if (!typed) return;
    const today = parts(new Date()), of = [1, 2, 3, 4, 5, 6].map((i) => Number(typed[i] ?? (i < 4 ? today[i - 1] : 0)));
    of[1]--;
    const date = () => zone === "UTC" ? new Date(Date.UTC(...of)) : new Date(...of);
    if (!typed[1] && date() - Date.now() > 60000) of[2]--;
    field.value = date().toISOString().replace(".000", "");
  });
  // A download leaves the page as it is, so the script folds its form.
  document.addEventListener("submit", (e) => { const act = e.target.closest("details.act"); if (act && e.target.getAttribute("method") === "get") setTimeout(() => { act.open = false; }); });
  // The slider is scaled by time: over the whole log, or over the last hours up to now.
  const slider = $("slider"), hours = $("span");
  let sliding = false;
  function frame(value) {
    if (!slider || sliding) return;
    const begin = Number(slider.dataset.begin), end = hours ? Math.max(Date.now(), begin + 1000) : Number(slider.max), at = Math.min(value, end);
    let of = hours ? Number(hours.value) : 0;
    if (of && at < end - of * 3600e3) { of = [24, 168].find((h) => at >= end - h * 3600e3) || 0; hours.value = String(of); }
    slider.max = end;
    slider.min = of ? Math.max(begin, end - of * 3600e3) : begin;
    slider.value = at;
    tell();
  }
  const wall = () => { const p = parts(new Date(Number(slider.value))); return p[0] + "-" + two(p[1]) + "-" + two(p[2]) + " " + p.slice(3).map(two).join(":"); };
  const tell = () => slider.setAttribute("aria-valuetext", wall());
  if (slider) {
    if (hours) {
      hours.value = kept.get("span") || "0";
      if (!hours.value) hours.value = "0";
      hours.onchange = () => { kept.set("span", hours.value); frame(root.dataset.then ? Number(slider.value) : Infinity); };
    }
    frame(root.dataset.then ? Number(slider.value) : Infinity);
    slider.oninput = () => { sliding = true; $("at").value = wall(); tell(); };
    slider.onchange = () => { sliding = false; goAt(Number(slider.value) >= Number(slider.max) ? "" : new Date(Math.floor(Number(slider.value))).toISOString()); };
  }
  const step = (by) => { const to = Number(root.dataset.then || seq) + by; if (slider && to >= 1) goAt(to < Number(root.dataset.then ? slider.dataset.last : seq) ? String(to) : ""); };

  // The editor's text is checked while it is typed: the answer to its form has the preview.
  const editor = $("editor");
  if (editor) {
    let soon = 0, round = 0;
    editor.addEventListener("input", () => {
      clearTimeout(soon);
      soon = setTimeout(async () => {
        const mine = ++round;
        try {
          const got = await fetch(editor.action, { method: "POST", body: new URLSearchParams(new FormData(editor)) });
          const fresh = new DOMParser().parseFromString(await got.text(), "text/html").getElementById("preview");
          if (mine === round && fresh) { $("preview").replaceChildren(...fresh.childNodes); tick($("preview")); }
        } catch { say("It cannot be checked: the server does not answer."); }
      }, 400);
    });
  }

  // Copying. Where there is no clipboard, the text is selected.
  function copy(text, button) {
    const done = () => { const was = button.textContent; button.textContent = "copied"; setTimeout(() => { button.textContent = was; }, 1200); };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => say(text)); else say(text);
  }
  document.addEventListener("click", (e) => { const b = e.target.closest("button.copy, abbr.id"); if (b) copy(b.dataset.copy || b.title, b); });
  if ($("copylink")) $("copylink").onclick = () => copy(location.href, $("copylink"));

  // Keys.
  const keys = $("keys"), use = $("usekeys");
  if (use) { use.checked = kept.get("keys") !== "off"; use.onchange = () => kept.set("keys", use.checked ? "on" : "off"); }
  if ($("help")) $("help").onclick = () => keys.showModal();
  const rows = () => [...document.querySelectorAll("main tbody tr")].filter((tr) => tr.querySelector("a[href]"));
  function move(by) {
    const all = rows(), at = all.findIndex((tr) => tr.contains(document.activeElement));
    const to = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
    if (to) to.querySelector("a[href]").focus();
  }
  const row = () => document.activeElement?.closest("main tbody tr");
  // A page is chosen by the letter or the letters with which its name begins.
  const entries = () => [...document.querySelectorAll("nav[aria-label='Pages'] li a")];
  const go = (name) => { const a = name && entries().find((a) => a.textContent.toLowerCase().startsWith(name.trim().toLowerCase())); if (a) location.href = a.href; return !!a; };
  let going = 0;
  // What a button has opened lies over the page: Escape closes it, and so does whoever goes elsewhere and has typed nothing.
  const opened = "details.act[open]:not(#usual)";
  for (const way of ["pointerdown", "focusin"]) document.addEventListener(way, (e) => {
    for (const act of document.querySelectorAll(opened)) if (!act.contains(e.target) && [...act.querySelectorAll("input, textarea")].every((f) => f.value === f.defaultValue)) act.open = false;
  });
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || e.defaultPrevented) return;
    const typing = e.composedPath()[0].closest?.("input, textarea, select, [contenteditable]"); // the editor is in a shadow
    if (e.key === "Escape") {
      const open = e.target.closest?.(opened) || document.querySelector(opened);
      if (open) { open.open = false; open.querySelector("summary").focus(); } else if (typing) typing.blur();
      return;
    }
    if (e.key === "x" && e.target.matches?.("main tbody tr input[type='checkbox']")) { e.preventDefault(); e.target.click(); return; }
    if (typing || (use && !use.checked && e.key !== "?") || (keys && keys.open)) {
      if (!(e.key === "Enter" && e.target.matches?.("main tbody tr input[type='checkbox']"))) return;
    }
    if (going && Date.now() - going < 1500 && e.key.length === 1) { going = 0; if (go(e.key)) { e.preventDefault(); return; } }
    const act = { "/": () => ($("search") || $("at"))?.focus(), j: () => move(1), k: () => move(-1), "?": () => keys?.showModal(), "[": () => step(-1), "]": () => step(1), ".": () => goAt(""), g: () => { going = Date.now(); }, ":": palette,
      x: () => row()?.querySelector("input[type='checkbox']")?.click(), ...row() && !e.target.closest("a, button, summary") ? { Enter: () => row().querySelector("a[href]")?.click() } : {} }[e.key];
    if (act) { e.preventDefault(); act(); }
  });

  // In a grid arrow keys go to the next cell that leads somewhere.
  document.addEventListener("keydown", (e) => {
    const cell = e.target.matches?.("table.grid td > a") && e.target.parentNode, way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (!cell || !way || e.ctrlKey || e.metaKey || e.altKey) return;
    const rows = [...cell.closest("tbody").rows];
    for (let x = cell.cellIndex + way[0], y = rows.indexOf(cell.parentNode) + way[1]; rows[y]?.cells[x]; x += way[0], y += way[1]) {
      const to = rows[y].cells[x].querySelector("td > a");
      if (to?.checkVisibility()) { e.preventDefault(); to.focus(); return; }
    }
  });

  // The palette leads to a page, a job, or a task by its id or a part of it; any other text is searched.
  function palette() {
    if ($("palette")) return;
    const box = Object.assign(document.createElement("dialog"), { id: "palette" }), line = Object.assign(document.createElement("input"), { id: "noun", placeholder: "page, job, task id or text", autocomplete: "off" }), list = document.createElement("ul");
    box.setAttribute("aria-label", "Go to"); line.setAttribute("aria-label", "Go to");
    for (const [name, value] of [["role", "combobox"], ["aria-controls", "ways"], ["aria-expanded", "true"], ["aria-autocomplete", "list"]]) line.setAttribute(name, value);
    list.id = "ways"; list.setAttribute("role", "listbox"); list.setAttribute("aria-label", "Ways");
    const to = (path) => new URL(root.dataset.base + path, location.href).href;
    let ways = [], at = 0, round = 0;
    const mark = (n) => { at = n; [...list.children].forEach((li, i) => li.setAttribute("aria-selected", i === n)); if (list.children[n]) line.setAttribute("aria-activedescendant", list.children[n].id); };
    const draw = () => {
      list.replaceChildren(...ways.map(([text, href], i) => { const li = Object.assign(document.createElement("li"), { id: "way-" + i, textContent: text }); li.setAttribute("role", "option"); li.onclick = () => { location.href = href; }; return li; }));
      mark(0);
    };
    async function find() {
      const mine = ++round, text = line.value.trim(), low = text.toLowerCase();
      const named = entries().filter((a) => a.textContent.toLowerCase().startsWith(low)).map((a) => [a.textContent, a.href]);
      ways = named;
      if (/^[0-9a-z]{7,26}$/i.test(text)) ways = [...named, ["task " + text, to("tasks?q=" + encodeURIComponent(text.length === 26 ? text : "id:" + text))]];
      const rest = text ? [["search tasks for " + text, to("tasks?q=" + encodeURIComponent(/[:"]/.test(text) ? text : '"' + text + '"'))]] : [];
      const jobs = (all) => all.filter((s) => s.shown.startsWith("job:")).map((s) => s.shown.slice(4)).map((name) => ["job " + name, to("jobs/" + encodeURIComponent(name))]);
      const first = ways;
      ways = [...first, ...rest];
      draw();
      if (!text || text.includes(" ")) return;
      try {
        const got = jobs(await (await fetch(to("tasks/complete?q=" + encodeURIComponent("job:" + text)))).json());
        if (mine === round && got.length) { ways = [...first, ...got, ...rest]; draw(); }
      } catch { /* without jobs */ }
    }
    line.oninput = find;
    line.onkeydown = (e) => {
      if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); if (ways.length) mark((at + (e.key === "ArrowDown" ? 1 : -1) + ways.length) % ways.length); }
      else if (e.key === "Enter") { e.preventDefault(); if (ways[at]) location.href = ways[at][1]; }
    };
    box.onclick = (e) => { if (e.target === box) box.close(); };
    box.onclose = () => box.remove();
    box.append(line, list);
    document.body.append(box);
    box.showModal();
    find();
  }
  document.addEventListener("keydown", (e) => { if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") { e.preventDefault(); palette(); } });

  // What was just done is said once: the address is without it.
  if ($("did")) { const u = new URL(location.href); u.searchParams.delete("did"); u.searchParams.delete("thing"); history.replaceState(null, "", u); }

  // Pinned views are queries that this browser keeps, by their text.
  const pin = $("pin"), pins = () => { try { return JSON.parse(kept.get("views")) || []; } catch { return []; } };
  function views() {
    const here = new URL(location.href).search || "?", all = pins();
    for (const el of $("pinned").querySelectorAll("a")) el.remove();
    pin.before(...all.map((v) => { const a = Object.assign(document.createElement("a"), { href: v, textContent: new URLSearchParams(v).get("q") || "all tasks" }); if (v === here) a.setAttribute("aria-current", "true"); return a; }));
    pin.textContent = all.includes(here) ? "unpin this view" : "pin this view";
  }
  if (pin) {
    pin.onclick = () => { const here = new URL(location.href).search || "?", all = pins(); kept.set("views", JSON.stringify(all.includes(here) ? all.filter((v) => v !== here) : [...all, here].slice(-12))); views(); };
    views();
  }

  const ready = () => start();
  if (document.readyState === "complete") ready(); else addEventListener("load", ready);
})();
