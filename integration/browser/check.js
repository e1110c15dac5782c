// Returns the faults in the layout of a page, as texts. The page must have been laid out.
(() => {
  const wrong = [], wide = document.documentElement.clientWidth;
  const name = (el) => el.tagName.toLowerCase() + (el.id ? "#" + el.id : "") + (typeof el.className === "string" && el.className ? "." + el.className.replaceAll(" ", ".") : "");
  const said = (text) => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 40));
  if (document.scrollingElement.scrollWidth > wide) wrong.push("the page is " + document.scrollingElement.scrollWidth + " wide, the window " + wide);
  if (!document.querySelector("main h1")) wrong.push("there is no heading");
  if (!document.querySelector("main")?.innerText.trim()) wrong.push("there is no text");

  // The part of a rectangle that an element shows after all clipping ancestors; null if none.
  const clips = new Map();
  function clip(el) {
    if (!el || el === document.documentElement) return { l: -1e9, t: -1e9, r: 1e9, b: 1e9 };
    let c = clips.get(el);
    if (c === undefined) {
      c = clip(el.parentElement);
      const s = getComputedStyle(el);
      if (c && s.clipPath !== "none") c = null;
      if (c && (s.overflowX !== "visible" || s.overflowY !== "visible") && el !== document.body) {
        const b = el.getBoundingClientRect();
        c = { l: Math.max(c.l, b.left), t: Math.max(c.t, b.top), r: Math.min(c.r, b.right), b: Math.min(c.b, b.bottom) };
      }
      clips.set(el, c);
    }
    return c;
  }
  function seen(el, r) {
    const c = clip(el);
    if (!c) return null;
    const is = { l: Math.max(r.left, c.l), t: Math.max(r.top, c.t), r: Math.min(r.right, c.r), b: Math.min(r.bottom, c.b) };
    return is.r - is.l > 1 && is.b - is.t > 1 && is.r > 0 && is.b > 0 ? is : null;
  }

  for (const el of document.body.querySelectorAll("*")) {
    if (!el.checkVisibility({ visibilityProperty: true })) continue;
    const r = seen(el.parentElement, el.getBoundingClientRect());
    if (r && (r.r > wide + 1 || r.l < -1)) wrong.push(name(el) + " reaches from " + Math.round(r.l) + " to " + Math.round(r.r) + ", the window to " + wide);
  }

  const texts = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const el = n.parentElement;
    if (!n.data.trim() || el.closest("script, style, title, option, textarea, dialog:not([open])") || !el.checkVisibility({ visibilityProperty: true })) continue;
    range.selectNodeContents(n);
    for (const rect of range.getClientRects()) {
      const r = seen(el, rect);
      if (r) texts.push({ ...r, n });
    }
  }
  texts.sort((a, b) => a.t - b.t);
  const said2 = new Set();
  texts.forEach((a, i) => {
    for (let j = i + 1; j < texts.length && texts[j].t < a.b; j++) {
      const b = texts[j];
      if (a.n === b.n) continue;
      const w = Math.min(a.r, b.r) - Math.max(a.l, b.l), h = Math.min(a.b, b.b) - Math.max(a.t, b.t);
      if (w > 3 && h > 0.45 * Math.min(a.b - a.t, b.b - b.t)) {
        const what = said(a.n.data) + " and " + said(b.n.data) + " lie over each other";
        if (!said2.has(what) && said2.size < 5) { said2.add(what); wrong.push(what); }
      }
    }
  });
  return wrong;
})()
