// What pages of Millrace do beside being read: they follow the log, tick, and listen to keys. All of it can be done without.
(() => {
  "use strict";
  const root = document.documentElement, $ = (id) => document.getElementById(id);
  root.classList.add("scripted");
  const kept = { get: (k) => { try { return localStorage.getItem("millrace." + k); } catch { return null; } }, set: (k, v) => { try { localStorage.setItem("millrace." + k, v); } catch { /* it is for this page alone */ } } };
  const say = (text) => { const p = $("said"); if (p && p.textContent !== text) p.textContent = text; };

  // Times: in the zone of the browser or in UTC, and how long ago.
  let zone = kept.get("zone") || "local";
  const two = (n) => String(n).padStart(2, "0");
  const parts = (d) => zone === "UTC" ? [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds()] : [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds()];
  const span = (s) => s < 60 ? Math.floor(s) + "s" : s < 3600 ? Math.floor(s / 60) + "m" : s < 172800 ? Math.floor(s / 3600) + "h" : Math.floor(s / 86400) + "d";
  const long = (s) => s < 60 ? Math.floor(s) + "s" : s < 3600 ? Math.floor(s / 60) + "m" + two(Math.floor(s) % 60) + "s" : Math.floor(s / 3600) + "h" + two(Math.floor(s / 60) % 60) + "m";
  function tick(within) {
    const then = root.dataset.then;
    for (const t of within.querySelectorAll("time")) {
      const d = new Date(t.dateTime), p = parts(d), today = parts(new Date());
      const clock = p.slice(3).map(two).join(":"), day = p[0] + "-" + two(p[1]) + "-" + two(p[2]);
      const text = then || p[0] !== today[0] || p[1] !== today[1] || p[2] !== today[2] ? day + " " + clock : clock;
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
  const showZone = () => { $("zone").textContent = zone; tick(document); };
  if ($("zone")) {
    $("zone").onclick = () => { zone = zone === "UTC" ? "local" : "UTC"; kept.set("zone", zone); showZone(); };
    showZone();
  }
  setInterval(() => { if (!document.hidden) tick(document); }, 1000);

  // Light and dark.
  const themes = ["system", "light", "dark"];
  let theme = kept.get("theme") || "system";
  const showTheme = () => { root.dataset.theme = theme; if ($("theme")) $("theme").textContent = theme; };
  if ($("theme")) $("theme").onclick = () => { theme = themes[(themes.indexOf(theme) + 1) % 3]; kept.set("theme", theme); showTheme(); };
  showTheme();

  // What scrolls can be reached by keys.
  function reach() {
    for (const el of document.querySelectorAll("main .scroll, main pre")) if (!el.checkVisibility()) continue; else if (el.scrollWidth > el.clientWidth || el.scrollHeight > el.clientHeight) el.tabIndex = 0; else el.removeAttribute("tabindex");
  }
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
  reach();

  // What the server draws anew takes the place of what was there. In a frozen list rows stay where they are: new ones wait to be
  // fetched, and those that have left are dimmed.
  function freeze(old, fresh) {
    const was = [...old.children], is = new Map([...fresh.children].map((tr) => [tr.id, tr]));
    const rows = was.map((tr) => {
      const now = is.get(tr.id);
      if (now) { is.delete(tr.id); return now; }
      const gone = tr.cloneNode(true);
      gone.dataset.gone = "";
      return gone;
    });
    fresh.replaceChildren(...rows);
    return is.size;
  }
  const waiting = new Map();
  function apply(id, html) {
    const target = $(id);
    if (!target) return;
    const draft = document.createElement("template");
    draft.innerHTML = html;
    const fresh = draft.content.querySelector("tbody[data-rows='frozen']"), old = target.querySelector("tbody[data-rows='frozen']");
    let more = 0;
    if (fresh && old) more = freeze(old, fresh);
    // Nothing moves under a pointer, in a form that is open, or where somebody reads a selection.
    if (!fresh && (target.querySelector("[data-rows]:hover") || target.querySelector("details.act[open]") || selecting(target))) { waiting.set(id, html); return; }
    waiting.delete(id);
    const text = draft.innerHTML;
    Promise.resolve(htmx.swap({ text, target, swap: "innerMorph" })).then(reach);
    tick(target);
    if (more > 0) {
      let p = target.querySelector(".more");
      if (!p) { p = document.createElement("p"); p.className = "more"; target.prepend(p); }
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

  // Plots of the table of points, which share one cursor. Colours are those of the style sheet, so they are drawn again with it.
  const plots = [...document.querySelectorAll(".plot")].map((el) => ({ el, name: el.dataset.plot, is: null }));
  function plot(anew) {
    const rows = [...document.querySelectorAll("#points tbody tr")];
    if (!rows.length) return;
    const colour = (name) => { const probe = document.createElement("span"); probe.className = name; document.body.append(probe); const c = getComputedStyle(probe).color; probe.remove(); return c; };
    const xs = rows.map((r) => Number(r.dataset.at)), line = { done: "s-finished", failed: "s-error", wait: "s-running" }, grid = { stroke: colour("empty"), grid: { stroke: colour("empty"), width: 0.2 }, ticks: { show: false } };
    for (const p of plots) {
      const data = [xs, rows.map((r) => { const y = Number(r.dataset[p.name]); return y < 0 ? null : y; })];
      if (p.is && !anew && p.is.width === p.el.clientWidth) { p.is.setData(data); continue; }
      if (p.is) p.is.destroy();
      p.is = new uPlot({ width: p.el.clientWidth, height: 130, cursor: { sync: { key: "late" }, drag: { x: false, y: false } }, legend: { show: true }, tzDate: (t) => zone === "UTC" ? uPlot.tzDate(new Date(t * 1000), "Etc/UTC") : new Date(t * 1000),
        scales: { x: { range: (u, lo, hi) => hi == null ? [0, 300] : [Math.min(lo, hi - 300), hi] }, y: { range: (u, lo, hi) => [0, Math.max(hi || 0, 1e-3) * 1.1] } }, axes: [grid, { ...grid, size: 50 }], series: [{ label: "from" }, { label: p.el.dataset.label, stroke: colour(line[p.name]), width: 1.5, points: { show: p.name === "wait", size: 4 }, spanGaps: false }] }, data, p.el);
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
  let paused = url.searchParams.has("paused"), stream = null, again = 0, seq = root.dataset.now;
  function stop() { if (stream) stream.close(); stream = null; clearTimeout(again); }
  function start() {
    if (pinned || paused || document.hidden || stream) return;
    const s = new EventSource(location.href);
    stream = s;
    s.onopen = () => say("");
    s.onerror = () => {
      say("Cut off: what stands here is as of #" + seq + ". Trying again.");
      if (s.readyState === EventSource.CLOSED) { stop(); again = setTimeout(start, 4000); }
    };
    for (const el of document.querySelectorAll("[id]")) s.addEventListener(el.id, (e) => {
      if (e.lastEventId) { seq = e.lastEventId; const slider = $("slider"); if (slider) { slider.max = seq; slider.value = seq; } }
      apply(el.id, JSON.parse(e.data));
      if (el.id === "late") plot(false);
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
  const slider = $("slider");
  if (slider) {
    slider.oninput = () => { $("at").value = slider.value; };
    slider.onchange = () => goAt(slider.value === slider.max ? "" : slider.value);
  }
  const step = (by) => { const to = Number(root.dataset.then || seq) + by; if (slider && to >= 1) goAt(to < Number(slider.max) ? String(to) : ""); };

  // Output that is followed.
  const out = $("output");
  if (out) {
    const most = 5000, follow = $("follow");
    let chasing = true;
    out.addEventListener("scroll", () => { chasing = out.scrollTop + out.clientHeight >= out.scrollHeight - 8; if (follow && follow.checked !== chasing && out.dataset.follow) follow.checked = chasing; });
    const down = () => { if (chasing) out.scrollTop = out.scrollHeight; };
    if (follow) follow.onchange = () => { chasing = follow.checked; down(); };
    down();
    $("wrap").onchange = () => out.classList.toggle("wrapped", $("wrap").checked);
    const find = (match, from) => { for (let el = from; el; el = el.nextElementSibling) if (match(el)) { out.querySelectorAll(".found").forEach((f) => f.classList.remove("found")); el.classList.add("found"); chasing = false; if (follow) follow.checked = false; el.scrollIntoView({ block: "center" }); return true; } return false; };
    $("find").onkeydown = (e) => {
      if (e.key !== "Enter") return;
      e.preventDefault();
      const text = $("find").value.toLowerCase(), at = out.querySelector(".found"), match = (el) => el.textContent.toLowerCase().includes(text);
      if (text && !find(match, at ? at.nextElementSibling : out.firstElementChild) && !find(match, out.firstElementChild)) say("No line that is shown has " + text + ".");
    };
    $("firsterror").onclick = () => { if (!find((el) => el.classList.contains("l-error") || el.classList.contains("o-stderr"), out.firstElementChild)) say("No line that is shown is an error."); };
    if (out.dataset.follow) {
      const lines = new EventSource(out.dataset.follow);
      lines.addEventListener("batch", (e) => {
        const draft = document.createElement("template");
        draft.innerHTML = JSON.parse(e.data);
        out.append(draft.content);
        while (out.childElementCount > most) out.firstElementChild.remove();
        const none = $("nooutput");
        if (none) none.remove();
        down();
      });
      lines.addEventListener("end", () => { lines.close(); delete out.dataset.follow; });
      lines.addEventListener("problem", () => lines.close());
      addEventListener("pagehide", () => lines.close());
    }
  }

  // What is typed into the editor is checked while it is typed: the page of the form has the preview.
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
  document.addEventListener("click", (e) => { const b = e.target.closest("button.copy"); if (b) copy(b.dataset.copy, b); });
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
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing) return;
    const typing = e.target.closest("input, textarea, select, [contenteditable]");
    if (e.key === "Escape" && typing) { e.target.blur(); return; }
    if (typing || (use && !use.checked && e.key !== "?") || (keys && keys.open)) return;
    const act = { "/": () => ($("search") || $("at"))?.focus(), j: () => move(1), k: () => move(-1), "?": () => keys?.showModal(), "[": () => step(-1), "]": () => step(1), ".": () => goAt("") }[e.key];
    if (act) { e.preventDefault(); act(); }
  });

  const ready = () => start();
  if (document.readyState === "complete") ready(); else addEventListener("load", ready);
})();
