// The editor of definitions and files: CodeMirror in the place of the textarea, which keeps the text and is what is sent. Without this script one
// types into the textarea. Fields, values and their descriptions come from the schema of job files, or from the document of what can be asked over HTTP; what is wrong is what the server says.
(() => {
  "use strict";
  const area = document.getElementById("text"), form = area?.form, cm = window.CodeMirror;
  if (!form || !cm) return; // in the past nothing is edited
  let schema = null, whole = null; // the schema with all that it refers to, and of the text; if there are none, nothing is offered

  // What is in a schema: of itself, of what it refers to, and of its alternatives.
  function* parts(s) {
    if (!s || typeof s !== "object") return;
    yield s;
    if (s.$ref) yield* parts(s.$ref.slice(2).split("/").reduce((of, name) => of?.[name], schema));
    for (const one of [s.oneOf, s.anyOf, s.allOf].flat()) yield* parts(one);
  }
  const all = (nodes) => nodes.flatMap((n) => [...parts(n)]);
  const ITEM = Symbol("an item of a list");
  const below = (nodes, step) => all(nodes).flatMap((p) => step === ITEM ? p.items : p.properties?.[step] ?? p.additionalProperties).filter((s) => s && typeof s === "object");
  const at = (path) => path.reduce(below, [whole]);
  const about = (nodes) => all(nodes).find((p) => p.description)?.description || "";
  const types = (nodes) => [...new Set(all(nodes).flatMap((p) => p.type || (p.enum ? "word" : [])))].filter((is) => is !== "null");
  const fields = (nodes) => {
    const found = new Map();
    for (const [name, s] of all(nodes).flatMap((p) => Object.entries(p.properties || {}))) if (s && typeof s === "object" && !s.readOnly && !found.has(name)) found.set(name, s);
    return found;
  };
  function values(nodes) {
    const found = new Map();
    for (const p of all(nodes)) {
      for (const v of [p.enum || [], "const" in p ? p.const : [], p.type === "boolean" ? [true, false] : []].flat()) found.set(String(v), "");
      for (const v of p.examples || []) if (typeof v !== "object") found.set(String(v), "for example");
    }
    return found;
  }

  // A line of YAML: its indentation, the dashes of lists that begin in it, its key if it has one, and the rest.
  const parse = (text) => {
    const [, pad, dashes, , key, rest] = /^(\s*)((?:- +|-$)*)(?:(["']?)([^\s"'#{}[\],:-][^\s"'#{}[\],:]*)\3\s*:(?=\s|$))?(.*)$/.exec(text);
    return { pad: pad.length, dashes, key, col: pad.length + dashes.length, rest };
  };
  // Enter takes a line onto the path of keys and items that leads to it.
  function enter(path, line) {
    let col = line.pad;
    for (const dash of line.dashes.matchAll(/-\s*/g)) {
      while (path.length && (path.at(-1).col > col || path.at(-1).col === col && path.at(-1).step === ITEM)) path.pop();
      path.push({ col, step: ITEM });
      col += dash[0].length;
    }
    while (path.length && path.at(-1).col >= line.col) path.pop();
    if (line.key) path.push({ col: line.col, step: line.key });
  }
  // Where a position is: the steps from the root of its document, whether a value belongs there or a key, and what has been typed of it.
  function place(state, pos) {
    const here = state.doc.lineAt(pos), path = [];
    let block = -1; // the column of the key whose text the lines are
    for (let n = 1; n <= here.number; n++) {
      const text = n < here.number ? state.doc.line(n).text : here.text.slice(0, pos - here.from), line = parse(text);
      if (block >= 0 && (n < here.number && !text.trim() || line.pad > block)) { if (n === here.number) return null; continue; }
      block = -1;
      if (/^(---|\.\.\.)(\s|$)/.test(text)) { path.length = 0; continue; }
      if (n < here.number && /^\s*(#|$)/.test(text)) continue;
      enter(path, line);
      if (/^\s*[|>][-+0-9]*\s*(#.*)?$/.test(line.rest) && line.key) block = line.col;
      if (n < here.number) continue;
      const steps = path.map((p) => p.step);
      return /(^|\s)#/.test(line.rest) ? null : flow(steps, line) || { steps, typed: line.rest.trimStart(), key: !line.key, col: line.col, scalar: line.key !== undefined || line.dashes !== "" };
    }
    return null;
  }
  // The same in {…} and […] of the line.
  function flow(steps, line) {
    if (!/^\s*[[{]/.test(line.rest)) return null;
    const open = [], words = line.rest.match(/"[^"]*"?|'[^']*'?|[^\s[\]{},:"']+(?::(?!\s|$)[^\s[\]{},:"']*)*|[[\]{},:]|\s+/g) || [];
    let word = "";
    for (const w of words) {
      const top = open.at(-1);
      if (w === "{" || w === "[") { open.push({ list: w === "[", step: w === "[" ? ITEM : null }); word = ""; }
      else if (w === "}" || w === "]") { open.pop(); word = ""; }
      else if (w === ",") { if (top && !top.list) top.step = null; word = ""; }
      else if (w === ":") { if (top && !top.list) top.step = word; word = ""; }
      else word = w.trim() ? w : word && "";
    }
    if (!open.length) return { steps: [], typed: "", key: false, scalar: false };
    const top = open.at(-1);
    return { steps: [...steps, ...open.map((o) => o.step).filter(Boolean)], typed: word, key: !top.step, col: -1, scalar: !!top.step };
  }
  // The keys beside a line: those of the same mapping.
  function beside(state, number, col) {
    const found = new Set();
    for (const by of [-1, 1]) for (let n = number + by; n >= 1 && n <= state.doc.lines; n += by) {
      const text = state.doc.line(n).text, line = parse(text);
      if (!text.trim()) continue;
      if (line.col === col && line.key && (by < 0 || !line.dashes)) found.add(line.key);
      if (line.pad < col || /^(---|\.\.\.)/.test(text)) break;
    }
    return found;
  }

  function complete(context) {
    const is = schema && place(context.state, context.pos);
    if (!is || !context.explicit && !is.typed && is.key && is.col === 0) return null;
    const nodes = at(is.steps), options = [], here = context.state.doc.lineAt(context.pos), from = context.pos - is.typed.length;
    if (is.key) {
      const there = is.col < 0 ? new Set() : beside(context.state, here.number, is.col), pad = " ".repeat(Math.max(is.col, 0) + 2), has = /^[\w.-]*\s*:/.test(here.text.slice(context.pos - here.from));
      const list = is.col >= 0 && !is.scalar && !fields(nodes).size;
      for (const [name, s] of fields(list ? below(nodes, ITEM) : nodes)) {
        if (there.has(name)) continue;
        const kinds = types([s]), deep = is.col >= 0 && kinds.every((k) => k === "object") && fields([s]).size > 0;
        options.push({ label: name, type: "property", boost: -options.length, detail: kinds.join(", "), info: about([s]), apply: (list ? "- " : "") + name + (has ? "" : deep ? ":\n" + pad : ": ") });
      }
    }
    if (is.scalar) for (const [label, detail] of values(nodes)) options.push({ label, detail, type: "constant", boost: -options.length, info: about(nodes) || undefined });
    return options.length ? { from, options, validFor: /^[\w./=-]*$/ } : null;
  }

  // The description of a field under the pointer.
  function hover(view, pos) {
    const line = view.state.doc.lineAt(pos), word = [...line.text.matchAll(/([\w.-]+)["']?\s*:(?=\s|$)/g)].find((m) => line.from + m.index <= pos && pos <= line.from + m.index + m[1].length);
    const is = word && schema && place(view.state, line.from + word.index + word[0].length + (line.text.length > word.index + word[0].length ? 1 : 0));
    if (!is || is.steps.at(-1) !== word[1]) return null;
    const nodes = at(is.steps), text = about(nodes), allowed = [...values(nodes)].filter(([, example]) => !example).map(([v]) => v);
    if (!text) return null;
    return { pos: line.from + word.index, end: line.from + word.index + word[1].length, create: () => {
      const dom = document.createElement("div"), name = document.createElement("b");
      name.textContent = word[1];
      dom.className = "cm-about";
      dom.append(name, " (" + types(nodes).join(", ") + "): " + text, allowed.length ? " One of: " + allowed.join(", ") + "." : "");
      return { dom };
    } };
  }

  // What the server has said about the text stands below it, and is marked at its line.
  const preview = document.getElementById("preview");
  function mark(view) {
    const doc = view.state.doc;
    view.dispatch(cm.setDiagnostics(view.state, [...preview.querySelectorAll("li[data-line]")].map((li) => {
      const line = doc.line(Math.min(Math.max(Number(li.dataset.line), 1), doc.lines)), to = line.from + line.text.trimEnd().length;
      return { from: Math.max(line.from, Math.min(line.from + Number(li.dataset.column) - 1, to - 1)), to, severity: "error", message: li.lastChild.textContent.trim() };
    })));
  }

  const t = cm.tags, font = 'ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, monospace';
  const colours = cm.HighlightStyle.define([
    { tag: [t.definition(t.propertyName), t.propertyName], color: "var(--link)" }, { tag: [t.string, t.content], color: "var(--text)" }, { tag: [t.special(t.string), t.attributeValue], color: "var(--ok)" },
    { tag: [t.comment, t.lineComment], color: "var(--dim)", fontStyle: "italic" }, { tag: [t.keyword, t.meta, t.typeName, t.labelName], color: "var(--odd)" }, { tag: [t.separator, t.punctuation, t.squareBracket, t.brace], color: "var(--dim)" },
  ]);
  const box = { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px" };
  const looks = cm.EditorView.theme({
    "&": { border: "1px solid var(--line)", borderRadius: "6px", backgroundColor: "var(--bg)", color: "var(--text)", fontSize: "0.93rem", margin: "0.4rem 0" },
    "&.cm-focused": { outline: "3px solid var(--focus)", outlineOffset: "1px" },
    ".cm-scroller": { fontFamily: font, minHeight: "20em", maxHeight: "70vh", lineHeight: "1.5" },
    ".cm-content": { caretColor: "var(--text)", minHeight: "20em" },
    "&.cm-focused > .cm-scroller .cm-cursor, .cm-cursor": { borderLeftColor: "var(--text)" },
    ".cm-gutters": { minHeight: "20em", backgroundColor: "var(--panel)", color: "var(--dim)", borderRight: "1px solid var(--line)", borderRadius: "6px 0 0 6px" },
    ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "light-dark(#00000008, #ffffff0d)" },
    ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { backgroundColor: "light-dark(#bcd7f5, #2c4a6b)" },
    "&.cm-focused .cm-matchingBracket": { backgroundColor: "light-dark(#d5e8d0, #2e4a33)" },
    ".cm-tooltip": box, ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: font, maxHeight: "14em" }, ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--link)", color: "var(--bg)" },
    ".cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail": { color: "var(--bg)" }, ".cm-completionDetail": { color: "var(--dim)", fontStyle: "normal", marginLeft: "1em" }, ".cm-completionIcon": { display: "none" },
    ".cm-tooltip.cm-completionInfo, .cm-about": { maxWidth: "min(28rem, 80vw)", padding: "0.4rem 0.6rem", font: "14px/1.45 system-ui, sans-serif", whiteSpace: "normal" },
    ".cm-diagnostic": { font: "14px/1.45 system-ui, sans-serif", borderLeft: "4px solid var(--bad)" }, ".cm-foldPlaceholder": box,
  });

  // What is typed before the schema is there waits for it.
  const [from, of] = form.dataset.schema?.split("#") || [];
  const known = !from ? Promise.resolve() : fetch(from).then((got) => got.json()).then((is) => { schema = is; whole = of ? { $ref: "#" + of } : is; }, () => { /* nothing is offered */ });

  // In a shadow its styles are of the page's own script, which the policy allows, and in none of its elements.
  const host = document.createElement("div"), label = form.querySelector("label[for='text']");
  host.id = "code";
  area.after(host);
  const view = new cm.EditorView({
    parent: host.attachShadow({ mode: "open" }), root: host.shadowRoot, doc: area.value,
    extensions: [
      cm.lineNumbers(), cm.foldGutter(), cm.lintGutter(), cm.history(), cm.drawSelection(), cm.indentOnInput(), cm.bracketMatching(), cm.highlightActiveLine(), looks, form.id || /\.ya?ml$/.test(location.search) ? cm.yaml() : [],
      cm.syntaxHighlighting(colours), cm.autocompletion({ override: [(context) => known.then(() => complete(context))], icons: false, activateOnCompletion: (o) => o.type === "property" }), cm.hoverTooltip(hover),
      cm.keymap.of([...cm.completionKeymap, ...cm.lintKeymap, ...cm.foldKeymap, ...cm.historyKeymap, ...cm.defaultKeymap]), // Tab leaves, as it does everywhere
      cm.EditorView.contentAttributes.of({ "aria-label": label.textContent }),
      cm.EditorView.updateListener.of((u) => { if (u.docChanged) { area.value = u.state.doc.toString(); area.dispatchEvent(new Event("input", { bubbles: true })); } }),
    ],
  });
  area.hidden = true;
  label.onclick = () => view.focus();
  if (preview) { new MutationObserver(() => mark(view)).observe(preview, { childList: true }); mark(view); }
})();
