package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// inEditor is a script about the editor of the page, which it calls is; within is its shadow.
func inEditor(does string) string {
	return `(() => { const within = document.querySelector("#code").shadowRoot, is = CodeMirror.EditorView.findFromDOM(within.querySelector(".cm-editor")); ` + does + ` })()`
}

// holds waits for an expression about the editor to hold.
func (b *tab) holds(what, expression string) {
	b.Helper()
	b.until(what, `document.querySelector("#code") && `+inEditor("return "+expression))
}

// listed waits until fields are offered, the first of which is as wanted, for so long that a key takes it.
func (b *tab) listed(first string) {
	b.Helper()
	b.holds(first+" is offered", `((list) => { if (list?.querySelector("li .cm-completionLabel").textContent !== `+quoted(first)+`) return false; list.since ??= Date.now(); return Date.now() - list.since > 150; })(within.querySelector(".cm-tooltip-autocomplete > ul"))`)
}

// The editor knows the fields of jobs, says what they are for, marks what is wrong, and keeps what is sent in the textarea.
func TestEditor(t *testing.T) {
	s := open(t, "dev")
	b := look(t, s)
	b.goTo("/edit/job")
	b.holds("there are numbers of lines, and colours", `within.querySelector(".cm-lineNumbers")?.innerText.includes("2") && new Set([...within.querySelectorAll(".cm-line span")].map((el) => getComputedStyle(el).color)).size > 1`)
	const begun = "name: pulse\nrun: date\n"
	b.do(run(inEditor(`is.focus(); is.dispatch({ changes: { from: 0, to: is.state.doc.length, insert: ` + quoted(begun) + ` }, selection: { anchor: ` + quoted(len(begun)) + ` } })`)))
	b.press("ret")
	b.listed("retry")
	b.holds("it is said what it is for", `within.querySelector(".cm-completionInfo")?.innerText.includes("followed by another")`)
	b.press(enter)
	b.listed("max") // the first field below it
	b.press("ba")
	b.listed("backoff")
	b.press(enter)
	b.listed("exponential")
	b.press(down)
	b.holds("another can be chosen", `within.querySelector(".cm-tooltip-autocomplete li[aria-selected]").innerText === "linear"`)
	b.press(enter)
	b.holds("what is chosen is in the text that is sent", `document.querySelector("#text").value === `+quoted(begun+"retry:\n  backoff: linear"))
	b.until("it is previewed", `document.querySelector("#preview").innerText.includes("A new job, pulse")`)

	b.press(enter + "mx: 3 # ?")
	b.holds("what is wrong is marked at its line", `within.querySelector(".cm-lint-marker-error") && within.querySelector(".cm-lintRange-error")?.innerText.startsWith("mx")`)
	if ask[bool](b, `document.querySelector("#keys").open`) {
		t.Error("what is typed is taken for a command")
	}
	b.do(run(inEditor(`const at = is.state.doc.toString().indexOf("mx"); is.dispatch({ changes: { from: at, to: at + 2, insert: "max" } })`)))
	b.holds("what is right again is not marked", `!within.querySelector(".cm-lint-marker-error")`)
	b.holds("the pointer can be brought to a field", `[...within.querySelectorAll(".cm-line span")].some((el) => el.innerText === "backoff")`)
	at := ask[[]float64](b, inEditor(`const r = [...within.querySelectorAll(".cm-line span")].find((el) => el.innerText === "backoff").getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]`))
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0]+3, at[1]), chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
	b.holds("it is said what a field is for", `within.querySelector(".cm-about")?.innerText.includes("One of: exponential, linear, fixed.")`)
	b.fine("the editor")
	for _, l := range looks {
		b.as(l.scheme, l.width, l.height)
		for _, w := range append(b.layout(), b.barriers()...) {
			t.Errorf("%s: %s", l.name, w)
		}
		b.shot("editor-" + l.name)
	}
	b.as("light", 1280, 900)
	b.click("#preview form button[type=submit]")
	b.until("it is stored", `document.querySelector("#title h1")?.innerText === "pulse"`)

	// The form writes what the editor then shows.
	b.goTo("/edit/job")
	b.click("#usual summary")
	for id, text := range map[string]string{"name": "nightly", "run": "date", "when": "30 2 * * *", "retries": "2"} {
		b.click("#u-" + id)
		b.press(text)
	}
	for _, l := range looks {
		b.as(l.scheme, l.width, l.height)
		for _, w := range append(b.layout(), b.barriers()...) {
			t.Errorf("the form, %s: %s", l.name, w)
		}
		b.shot("form-" + l.name)
	}
	b.as("light", 1280, 900)
	b.click("#usual button[type=submit]")
	b.holds("the editor has the form's file, and it is previewed", `is.state.doc.toString().includes("30 2 * * *") && document.querySelector("#preview").innerText.includes("A new job, nightly")`)

	// Files of a bundle are edited in the same way.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "app.yaml"), []byte("a: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cli(t, "files", "push", dir, "--name", "app")
	b.goTo("/files")
	b.click("#f-app a")
	b.click("main a[href*='path=']")
	b.holds("its text is there", `is.state.doc.toString() === "a: 1\n"`)
	for _, l := range looks {
		b.as(l.scheme, l.width, l.height)
		for _, w := range append(b.layout(), b.barriers()...) {
			t.Errorf("files, %s: %s", l.name, w)
		}
		b.shot("files-" + l.name)
	}
	b.as("light", 1280, 900)
	b.do(run(inEditor(`is.dispatch({ changes: { from: 3, to: 4, insert: "22" } })`)))
	b.click("main form button[type=submit]")
	b.until("there is another version", `document.querySelectorAll("main section li").length === 2`)
	s.cli(t, "files", "pull", "app", filepath.Join(dir, "out"))
	if text, err := os.ReadFile(filepath.Join(dir, "out", "app.yaml")); string(text) != "a: 22\n" {
		t.Errorf("the file is %q, %v", text, err)
	}

	// A file is added, and renamed.
	b.goTo("/files/app?add")
	b.click("main input[name=to]")
	b.press("run.sh")
	b.do(run(inEditor(`is.dispatch({ changes: { from: 0, insert: "date\n" } })`)))
	for _, l := range looks {
		b.as(l.scheme, l.width, l.height)
		for _, w := range append(b.layout(), b.barriers()...) {
			t.Errorf("a new file, %s: %s", l.name, w)
		}
		b.shot("file-" + l.name)
	}
	b.as("light", 1280, 900)
	b.click("main form button[type=submit]")
	b.holds("it is there", `document.querySelector("#h-text").innerText === "run.sh" && is.state.doc.toString() === "date\n"`)
	b.click("main .act summary")
	b.click("main .act input[name=to]")
	b.press("2")
	b.click("main .act button[type=submit]")
	b.until("it has another name", `document.querySelector("#h-text").innerText.includes("2")`)

	// Schedules and calendars have their fields, too, without those that only the store sets.
	for at, fields := range map[string][]string{"schedule": {"sc", "schedule", "ev", "every"}, "calendar": {"ru", "rules", "", ""}} {
		b.goTo("/edit/" + at)
		b.holds("the editor is there", `is.state.doc.length > 0`)
		const begun = "name: pulse\n"
		b.do(run(inEditor(`is.focus(); is.dispatch({ changes: { from: 0, to: is.state.doc.length, insert: ` + quoted(begun) + ` }, selection: { anchor: ` + quoted(len(begun)) + ` } })`)))
		b.press(fields[0])
		b.listed(fields[1])
		b.press(enter)
		if fields[2] != "" {
			b.press(fields[2])
			b.listed(fields[3])
		}
		b.fine("the editor of a " + at)
	}
}
