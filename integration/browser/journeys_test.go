package browser

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/domsnapshot"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// journeys are what users do with the pages of a demo.
func journeys(t *testing.T, s *site) {
	t.Run("a failure is found, read, retried and watched", func(t *testing.T) {
		b := look(t, s)
		b.goTo("/tasks")
		b.click("#search")
		b.press("state:error job:import label:env=prod" + enter)
		b.until("the failure is listed", `location.search.includes("import") && document.querySelectorAll("main tbody tr").length === 1`)
		b.click("main tbody tr a")
		b.until("its output says why", `document.querySelector("#output")?.innerText.includes("connection refused") && document.querySelector("#title .s-error")`)
		b.click("#actions details.act summary")
		b.click("#actions details[open] input[name=reason]")
		b.press("the partner is back")
		b.click("#actions details[open] button[type=submit]")
		b.until("it is another life", `!document.querySelector("#title .s-error") && document.readyState === "complete"`)
		b.do(run(`window.same = true`))
		b.until("it finishes before one's eyes", `window.same && document.querySelector("#title .s-finished") && document.querySelector("#facts").textContent.includes("the partner is back")`)
		b.until("its output goes on", `document.querySelector("#output").innerText.includes("42 orders")`)
	})
	t.Run("back, and forward again", func(t *testing.T) {
		b := look(t, s)
		b.goTo("/tasks?q=job%3Aencode")
		b.click("main tbody tr a")
		b.until("it runs", `document.querySelector("#title .s-running") && document.querySelectorAll("#facts tbody tr").length > 1`)
		b.click("#evidence summary")
		b.click("#facts tbody tr:last-child a")
		b.until("it had not started", `document.body.classList.contains("past") && document.querySelector("#title .s-pending")`)
		if ask[bool](b, `!!document.querySelector("main form[method=post]")`) {
			t.Error("the past has buttons")
		}
		birth := ask[int](b, `Number(document.documentElement.dataset.then)`)
		b.press("]")
		b.until("the next fact", fmt.Sprintf(`document.documentElement.dataset.then === "%d"`, birth+1))
		b.press("[")
		b.until("the fact before", fmt.Sprintf(`document.documentElement.dataset.then === "%d"`, birth))
		b.click(".note a")
		b.until("it runs now", `!document.body.classList.contains("past") && document.querySelector("#title .s-running")`)
		b.click("#at")
		b.press(fmt.Sprint(birth) + enter)
		b.until("it is then again", `document.body.classList.contains("past") && document.querySelector("#title .s-pending")`)
	})
	t.Run("to a time of day, and forward", func(t *testing.T) {
		b := look(t, s)
		b.goTo("/tasks?q=job%3Aencode")
		b.click("main tbody tr a")
		b.until("it has run for a while", `document.querySelector("#title .s-running") && Date.now() - new Date(document.querySelector("#facts tbody tr time").dateTime) > 2000`)
		b.click("#at")
		// In UTC, the time zone of the tab.
		b.press(ask[string](b, `new Date(Date.now() - 1000).toISOString().slice(11, 19)`) + enter)
		b.until("it is then", `document.body.classList.contains("past") && document.querySelector("#title .s-running") && location.search.includes(new Date().toISOString().slice(0, 10))`)
		then := ask[int](b, `Number(document.documentElement.dataset.then)`)
		for i := range 2 { // forward from the fact before the last is live, and this may be the last
			b.press("[")
			b.until("a fact before", fmt.Sprintf(`document.documentElement.dataset.then === "%d"`, then-1-i))
		}
		b.press("]")
		b.until("and forward", fmt.Sprintf(`document.documentElement.dataset.then === "%d"`, then-1))
		b.press(".")
		b.until("it is live", `!document.body.classList.contains("past") && document.documentElement.dataset.now`)
	})
	t.Run("the head has one line of entries", func(t *testing.T) {
		b := look(t, s)
		b.as("light", 1200, 900)
		b.goTo("/tasks")
		if tops := ask[[]float64](b, `[...document.querySelectorAll("nav[aria-label=Pages] > *")].map((el) => el.getBoundingClientRect()).map((r) => r.top + r.height / 2)`); slices.Max(tops)-slices.Min(tops) > 4 {
			t.Errorf("the middles of its name, entries and switches are at %v", tops)
		}
		if lines := ask[int](b, `new Set([...document.querySelectorAll("nav[aria-label=Pages] li")].map((el) => el.offsetTop)).size`); lines != 1 {
			t.Errorf("the entries fill %d lines", lines)
		}
	})
	t.Run("paused, along the slider, and live again", func(t *testing.T) {
		b := look(t, s)
		b.goTo("/tasks")
		b.until("it is live", `document.querySelector("#live[aria-current]") && document.documentElement.dataset.now`)
		b.click("#pause")
		b.until("it is paused", `location.search.includes("paused") && !document.querySelector("#live[aria-current]") && document.querySelector("#pause[aria-pressed=true]").textContent === "paused"`)
		end := ask[int](b, `Number(document.documentElement.dataset.now)`)
		b.click("#slider") // its middle
		b.until("it is then", `document.body.classList.contains("past") && !location.search.includes("paused")`)
		if at := ask[float64](b, `(() => { const s = document.querySelector("#slider"), begin = Number(s.min); return (Date.parse(new URLSearchParams(location.search).get("at")) - begin) / (Number(s.max) - begin); })()`); at < 0.25 || at > 0.75 {
			t.Errorf("the middle of the slider is %.2f of the time", at)
		}
		b.until("all parts of it say so", `new URLSearchParams(location.search).get("at") === document.querySelector("#at").value && Math.abs(Number(document.querySelector("#slider").value) - Date.parse(document.querySelector("#head time").dateTime)) < 10`)
		b.do(run(`document.querySelector("#slider").focus()`))
		b.press(home)
		b.until("it is the beginning", `document.documentElement.dataset.then === "1" && !document.querySelector("main tbody tr")`)
		b.click("#live")
		b.until("it is live again", `!document.body.classList.contains("past") && document.querySelector("#live[aria-current]")`)
		b.until("and goes on", fmt.Sprintf(`Number(document.querySelector("#head b").textContent.slice(1)) > %d`, end))
	})
	t.Run("a node is drained, and serves again", func(t *testing.T) {
		b := look(t, s)
		b.goTo("/nodes")
		b.click("main tbody tr:has(.s-ready) a")
		b.click("#actions details.act summary")
		b.click("#actions details[open] input[name=reason]")
		b.press("a new disk")
		b.click("#actions details[open] button[type=submit]")
		b.until("it is drained, and says why", `document.querySelector("#about").innerText.includes("a new disk") && document.querySelector("#actions").innerText.includes("Undrain")`)
		b.click("#actions details.act summary")
		b.click("#actions details[open] button[type=submit]")
		b.until("it serves", `document.querySelector("#title .s-ready") && document.querySelector("#actions").innerText.includes("Drain")`)
	})
	t.Run("a job is edited, and the difference seen", func(t *testing.T) {
		b := look(t, s)
		b.goTo("/jobs/report")
		before := ask[int](b, `document.querySelectorAll("#history details").length`)
		b.click("#actions a[href*='edit/job']")
		b.until("the editor is there", `document.querySelector("#text")?.value.includes("Figures of the hour") && document.querySelector("#code")`)
		b.do(run(inEditor(`is.focus(); is.dispatch({ selection: { anchor: 0 } })`)))
		b.press("ownr: ann" + enter)
		b.until("it says what is wrong while one types", `document.querySelector("#preview .wrong")?.innerText.includes("owner")`)
		b.do(run(inEditor(`is.dispatch({ selection: { anchor: 3 } })`)))
		b.press("e")
		b.until("it shows the difference", `!document.querySelector("#preview .wrong") && [...document.querySelectorAll("#preview tr")].some((tr) => tr.innerText.includes("owner") && tr.innerText.includes("ann"))`)
		b.click("#preview form button[type=submit]")
		b.until("it is stored", fmt.Sprintf(`document.querySelector("#title")?.innerText.includes("owner ann") && document.querySelectorAll("#history details").length === %d`, before+1))
		b.click("#history details:first-of-type summary")
		b.until("its history has the difference", `document.querySelector("#history details[open]")?.innerText.includes("ann")`)
	})
	t.Run("who may not press a button sees none", func(t *testing.T) {
		// A viewer of the log may also have it verified, and open incident files.
		const buttons = `[...document.querySelectorAll("main form[method=post]:not([action*=incidents]):not([action*='verify/do'])")].map((f) => f.action)`
		room := func(path string) string { return strings.Split(path, "/")[1] } // the first part of it
		b := look(t, s)
		pages, seen := b.pages(), 0
		for _, path := range pages {
			b.goTo(path)
			seen += ask[int](b, buttons+".length")
		}
		if seen < 10 {
			t.Errorf("an operator sees but %d buttons", seen)
		}
		viewer := lookAs(t, s, "viewer")
		led := viewer.pages()
		for _, path := range led {
			viewer.goTo(path)
			if got := ask[[]string](viewer, buttons); len(got) > 0 {
				t.Errorf("on %s a viewer sees %q", path, got)
			}
		}
		viewer.away(true)
		for _, path := range pages {
			switch room := room(path); {
			// It previews a job; there is no button to store it.
			case room == "edit" && !slices.Contains(led, path):
			case room == "bulk", room == "run":
				if status := ask[int](viewer, `fetch(`+quoted(prefix+path)+`).then((r) => r.status)`); status != 403 || slices.Contains(led, path) {
					t.Errorf("%s, which is for changes alone, answers a viewer with %d", path, status)
				}
			case !slices.ContainsFunc(led, func(p string) bool { return strings.HasPrefix(p+"/", "/"+room+"/") }):
				t.Errorf("nothing leads a viewer to pages as %s", path)
			}
		}
		viewer.found()
		viewer.away(false)
		submitter := lookAs(t, s, "submitter")
		submitter.goTo(pages[slices.IndexFunc(pages, func(p string) bool { return room(p) == "run" })])
		allowed := ask[[]string](submitter, buttons)
		if len(allowed) == 0 {
			t.Error("a submitter sees no button")
		}
		submitter.away(true)
		for _, to := range allowed {
			if status := ask[int](submitter, `fetch(`+quoted(to)+`, {method: "POST", body: new URLSearchParams()}).then((r) => r.status)`); status == 403 {
				t.Errorf("a submitter sees the button %s, and may not press it", to)
			}
		}
		submitter.found()
		submitter.away(false)
	})
	t.Run("an incident is exported, and opened again", func(t *testing.T) {
		b, dir := look(t, s), t.TempDir()
		b.do(call(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir}))
		b.goTo("/tasks?q=state%3Afinished&fold=none")
		b.click("main tbody tr a")
		b.until("a task is shown", `location.pathname.includes("/tasks/") && document.querySelector("#title")`)
		id := ask[string](b, `document.querySelector("#id").innerText`)
		b.click("#actions details:has([action*='incidents/export']) summary")
		b.click("#actions details[open] input[name=logs]")
		b.click("#actions details[open] button[type=submit]")
		b.until("its form is folded", `!document.querySelector("#actions details[open]")`)
		file := ""
		for asked := 0; file == "" && asked < mostAsked; asked++ {
			if came, err := filepath.Glob(filepath.Join(dir, "*.mri")); err == nil && len(came) > 0 { // until it is whole it is called otherwise
				file = came[0]
				break
			}
			time.Sleep(pollEvery)
		}
		if file == "" {
			t.Fatalf("nothing was downloaded; %q", b.found())
		}
		if said := s.cli(t, "incident", "show", file); !strings.Contains(said, "task "+id) || !strings.Contains(said, "batches") || !strings.Contains(said, "redacted") {
			t.Errorf("the file is not what was asked for: %s", said)
		}
		b.goTo("/incidents")
		b.do(chromedp.SetUploadFiles("input[type=file]", []string{file}))
		b.click("form[enctype] button[type=submit]")
		b.until("it is opened", `/\/incidents\/[a-z0-9]+\/$/.test(location.pathname) && document.querySelector("main h1")`)
		b.goTo(ask[string](b, `location.pathname.slice(`+fmt.Sprint(len(prefix))+`)`) + "tasks/" + id)
		b.until("the task is in it", `document.querySelector("#title .s-finished") && document.querySelector("#facts").textContent.includes("attempt.finished")`)
		b.goTo("/incidents")
		b.click("form[action$='/close'] button")
		b.until("it is closed", `document.querySelector("#h-open") && !document.querySelector("form[action$='/close']")`)
	})
	t.Run("by keyboard alone", func(t *testing.T) {
		b := look(t, s)
		b.goTo("/tasks")
		b.press("/")
		b.until("one can search", `document.activeElement.id === "search"`)
		b.press("job:backup" + enter)
		b.until("what was asked for is listed", `location.search.includes("backup") && document.querySelectorAll("main tbody tr").length > 2`)
		focused := `[...document.querySelectorAll("main tbody tr")].findIndex((tr) => tr.contains(document.activeElement))`
		for i, key := range []string{"j", "j", "k", "j"} {
			b.press(key)
			b.until(fmt.Sprintf("key %d leads to its row", i+1), fmt.Sprintf("%s === %d", focused, []int{0, 1, 0, 1}[i]))
		}
		b.press(enter)
		b.until("the task is shown", `location.pathname.includes("/tasks/") && document.querySelector("#title")`)
		b.press("[")
		b.until("it is as it was a fact ago", `document.body.classList.contains("past")`)
		then := ask[int](b, `Number(document.documentElement.dataset.then)`)
		b.press("[")
		b.until("and one more", fmt.Sprintf(`document.documentElement.dataset.then === "%d"`, then-1))
		b.press("]")
		b.until("and forward", fmt.Sprintf(`document.documentElement.dataset.then === "%d"`, then))
		b.press(".")
		b.until("it is live", `!document.body.classList.contains("past") && document.documentElement.dataset.now`)
		b.press("?")
		b.until("keys are listed", `document.querySelector("#keys").open`)
		b.press(escape)
		b.until("they are not any more", `!document.querySelector("#keys").open`)
	})
}

// clock is a time, which a script shows in the zone of the browser, with a date where the server
// leaves it out; and how long ago that was.
var clock = regexp.MustCompile(`^((\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d( UTC)?|\((in )?\d+[a-z]+.*\)|live|paused?)$`)

// sameWithoutScript compares the text of pages with that in a browser that runs no script. Both get
// the same answer, because output printed until some moment may reach the server after that moment.
func sameWithoutScript(t *testing.T, s *site) {
	b := look(t, s)
	b.as("light", 1280, 900)
	pages := b.pages()
	s.kept.Store(&answers{of: map[string]*httptest.ResponseRecorder{}})
	defer s.kept.Store(nil)
	for _, path := range pages {
		b.goTo(path)
		now := ask[string](b, `document.documentElement.dataset.now || ""`)
		if now == "" {
			continue // it has no moment
		}
		path += "?at=" + now // else it changes meanwhile
		b.goTo(path)
		b.do(run(`for (const el of document.querySelectorAll(".js")) el.remove()`))
		with := b.texts()
		long := ask[bool](b, `!!document.querySelector("#output.virtual")`)
		b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
		b.goTo(path)
		without := b.texts()
		b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: false}))
		// A script shows as much of the output as has room, the end first.
		if n := len(with.output); long && n > 0 && n < len(without.output) {
			without.output = without.output[len(without.output)-n:]
			with.where, without.where = upTo.ReplaceAllString(with.where, "lines to"), upTo.ReplaceAllString(without.where, "lines to")
		}
		if !reflect.DeepEqual(with, without) {
			t.Errorf("%s\nsays with a script %q\nand without %q", path, with, without)
		}
		if len(without.all) < 10 {
			t.Errorf("%s says but %q", path, without)
		}
	}
}

// upTo matches the first line number in the text that says which lines of an output are shown.
var upTo = regexp.MustCompile(`^lines [\d,]+ to`)

// shownTexts are the texts that a page shows.
type shownTexts struct {
	all []string
	// output are the shown lines of a task's output, and where says which lines these are.
	output []string
	where  string
}

// texts returns the texts of the page as it is laid out, except times. It runs no script.
func (b *tab) texts() (is shownTexts) {
	b.Helper()
	snapshot := get(b, func(ctx context.Context, t *chromedp.Target) (domsnapshot.CaptureSnapshotResult, error) {
		return cdp.Call(ctx, t, domsnapshot.CaptureSnapshot, domsnapshot.CaptureSnapshotParams{ComputedStyles: []string{}})
	})
	of := snapshot.Documents[0]
	for i, at := range of.Layout.Text {
		if at < 0 {
			continue
		}
		text := strings.TrimSpace(snapshot.Strings[at])
		if text == "" || clock.MatchString(text) {
			continue
		}
		switch within(&snapshot, int(of.Layout.NodeIndex[i]), "output", "where") {
		case "output":
			is.output = append(is.output, text)
		case "where":
			is.where = text
		default:
			is.all = append(is.all, text)
		}
	}
	return is
}

// within is which of these ids the nearest element has that has one of them, of a node of the
// document and those around it; "" for none.
func within(snapshot *domsnapshot.CaptureSnapshotResult, node int, ids ...string) string {
	nodes := snapshot.Documents[0].Nodes
	for ; node >= 0; node = int(nodes.ParentIndex[node]) {
		attributes := nodes.Attributes[node]
		for i := 0; i+1 < len(attributes); i += 2 {
			if name, value := attributes[i], attributes[i+1]; name >= 0 && value >= 0 && snapshot.Strings[name] == "id" && slices.Contains(ids, snapshot.Strings[value]) {
				return snapshot.Strings[value]
			}
		}
	}
	return ""
}

// hostile are texts that others may have written.
var hostile = []string{
	`<script>window.taken=1</script><img src=x onerror="window.taken=1">`, `"><a href="javascript:window.taken=1">x</a>`, "' onmouseover='window.taken=1", "{{.Data}}",
	"a\x1b[31mred\x1b]8;;http://evil.example\aon\x1b]8;;\a", "x\r\ndata: forged\r\n\r\nx", "right\u202Eto left\u2066", `hx-get="/x" hx-on:click="window.taken=1"`,
	"</title></textarea></template></style>", strings.Repeat("w", 10_000), "a/b?c#d%2fe", "\u2028line", strings.Repeat("\u0301", 200) + "a",
}

// Whatever texts others have written, no page obeys them, grows wider for them, or lays them over
// other texts.
func TestHostileTexts(t *testing.T) {
	s := open(t, "dev")
	for _, text := range hostile {
		label := text[:min(len(text), 60)]
		label = strings.ToValidUTF8(strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1
			}
			return r
		}, label), "")
		s.cli(t, "run", "--messages", "open", "--label", "k="+label, "-p", "p="+quoted(text), "--", "sh", "-c", `printf '%s\n' "$1"; printf '{"type":"INSERT_DATA","payload":{"r":%s}}\n' "$2"; printf '{"type":"ERROR","payload":{"message":%s}}\n' "$2"; exit 1`, text, text, quoted(text))
	}
	for i, text := range hostile {
		file := filepath.Join(t.TempDir(), "job.json")
		its := fmt.Sprintf(`{"name": "hostile-%d", "title": %[2]s, "description": %[2]s, "owner": %[2]s, "group": %[2]s, "labels": {"k": %[2]s}, "params": [{"name": "p", "title": %[2]s, "description": %[2]s, "default": %[2]s}], "run": {"argv": ["echo", %[2]s]}}`, i, quoted(text))
		if err := os.WriteFile(file, []byte(its), 0o600); err != nil {
			t.Fatal(err)
		}
		s.cli(t, "job", "apply", "-f", file)
	}
	s.cli(t, "queue", "pause", "low", "--reason", hostile[0])
	s.cli(t, "task", "wait", strings.Fields(s.cli(t, "run", "--", "true"))[0])
	file := filepath.Join(t.TempDir(), "raw.mri")
	s.cli(t, "incident", "export", "--around", "-1s", "--window", "1h", "--logs", "--keep-params", file)
	b := look(t, s)
	b.goTo("/incidents")
	b.do(chromedp.SetUploadFiles("input[type=file]", []string{file}))
	b.click("form[enctype] button[type=submit]")
	b.until("the file is opened", `/\/incidents\/[a-z0-9]+\/$/.test(location.pathname) && document.querySelector("main h1")`)
	opened := ask[string](b, `location.pathname.slice(`+fmt.Sprint(len(prefix))+`)`)
	all := append(b.pages(), "/tasks?q="+"%22%3Cscript%3Ewindow.taken%3D1%3C%2Fscript%3E")
	for i := range hostile {
		all = append(all, fmt.Sprintf("/jobs/hostile-%d", i), fmt.Sprintf("%sjobs/hostile-%d", opened, i))
	}
	for _, path := range []string{"", "tasks", "jobs", "nodes", "queues", "events", "dead", "schedules", "steps"} {
		all = append(all, opened+path)
	}
	for _, path := range all {
		b.goTo(path)
		for _, l := range looks {
			b.as(l.scheme, l.width, l.height)
			for _, w := range b.layout() {
				b.Errorf("%s, %s: %s", path, l.name, w)
			}
		}
		if ask[bool](b, `!!window.taken`) {
			t.Errorf("%s does what a text says", path)
		}
		b.fine(path)
	}
}

// Rows stay where they are while someone points at them, and can be read when they have left the
// list.
func TestRowsStay(t *testing.T) {
	s := open(t, "dev")
	s.cli(t, "queue", "pause", "default")
	for range 4 {
		s.cli(t, "run", "--", "true")
	}
	b := look(t, s)
	for _, path := range []string{"/tasks?q=state%3Apending", "/tasks"} {
		b.goTo(path)
		const rows = `[...document.querySelectorAll("main tbody tr")].map((tr) => tr.id + " " + tr.getBoundingClientRect().top)`
		b.until("all are listed", `document.querySelectorAll("main tbody tr").length > 3`)
		b.point("main tbody tr:nth-child(3) a")
		before := ask[[]string](b, rows)
		third := strings.TrimPrefix(strings.Fields(before[2])[0], "t-")
		s.cli(t, "run", "--", "true")
		s.cli(t, "run", "--", "true")
		b.until("new ones wait", `document.querySelector(".more")?.innerText.includes("2 new")`)
		s.cli(t, "task", "cancel", third)
		gone := `document.getElementById("t-` + third + `")`
		b.until("one has changed or left", gone+`.innerText.includes("cancelled") || `+gone+`.dataset.gone !== undefined`)
		if after := ask[[]string](b, rows); !slices.Equal(after, before) {
			t.Errorf("%s\nhad the rows %q,\nand then %q", path, before, after)
		}
		for _, l := range looks {
			b.as(l.scheme, l.width, l.height)
			for _, w := range append(b.layout(), b.barriers()...) {
				t.Errorf("%s, %s: %s", path, l.name, w)
			}
		}
		b.as("light", 1280, 900)
		b.click(".more a")
		b.until("the new ones are listed", fmt.Sprintf(`!document.querySelector(".more")?.innerText && document.querySelectorAll("main tbody tr").length !== %d`, len(before)))

		let := b.hold("main tbody tr:nth-child(3) a") // a click takes a while, and the list is drawn meanwhile
		s.cli(t, "run", "--", "true")
		b.until("one more waits", `document.querySelector(".more")?.innerText.includes("1 new")`)
		let()
		b.until("the click leads on", `location.pathname.includes("/tasks/")`)
	}
}

// A page that is open while the server stops says so, and continues by itself when the server is
// back.
func TestUnplugged(t *testing.T) {
	s := open(t, "dev")
	s.cli(t, "run", "--", "true")
	b := look(t, s)
	b.goTo("/")
	b.until("it counts", `document.querySelector("#counts").innerText.includes("1 all")`)
	b.do(run(`window.same = true`))
	b.away(true)
	s.stop(t)
	b.until("it says that it is cut off", `document.querySelector("#said").innerText.includes("as of #")`)
	s.start(t, "dev")
	s.cli(t, "run", "--", "true")
	b.until("it goes on", `window.same && document.querySelector("#said").innerText === "" && document.querySelector("#counts").innerText.includes("2 all")`)
	b.away(false)
}

// A server that hangs keeps its connections, and says nothing. A page notices, and goes on when the server does.
func TestHangs(t *testing.T) {
	s := open(t, "dev")
	s.cli(t, "run", "--", "true")
	b := look(t, s)
	b.goTo("/")
	b.until("it counts", `document.querySelector("#counts").innerText.includes("1 all") && document.querySelector("#live[aria-current]")`)
	b.do(run(`window.same = true`))
	b.away(true)
	if err := s.server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.until("it says that there is no word", `document.querySelector("#said.late").innerText.includes("No word from the server since") && !document.querySelector("#live[aria-current]")`)
	if dir := *shots; dir != "" {
		b.as("light", 1280, 900)
		b.shot("hangs")
	}
	if err := s.server.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.until("it goes on", `window.same && document.querySelector("#said").innerText === "" && document.querySelector("#live[aria-current]")`)
	b.away(false)
}

// Pages and rows are reached by keys.
func TestRowsByKeys(t *testing.T) {
	s := open(t, "dev")
	for range 3 {
		s.cli(t, "run", "--", "true")
	}
	b := look(t, s)
	b.goTo("/")
	b.press("gt")
	b.until("the list of tasks", `document.querySelectorAll("#rows tbody tr").length === 3`)
	b.press("jx")
	b.until("the first row is selected", `document.querySelector("#rows tbody tr input").checked && document.querySelector("#chosen").innerText === "1 selected" && document.querySelector("#allrows").indeterminate`)
	b.click("#allrows")
	b.until("all rows are", `document.querySelector("#chosen").innerText === "3 selected"`)
	b.do(run(`document.querySelector("#rows tbody tr input").focus()`))
	b.press(enter)
	b.until("the row is open", `document.documentElement.dataset.page === "task"`)
	b.press(":")
	b.until("a page is asked for", `document.activeElement.id === "noun"`)
	b.press("no" + enter)
	b.until("the page of nodes", `document.documentElement.dataset.page === "nodes"`)
	if width := ask[string](b, `document.querySelector("#span").value = "1", document.querySelector("#span").dispatchEvent(new Event("change")), String(Number(document.querySelector("#slider").max) - Number(document.querySelector("#slider").min) <= 3600e3)`); width != "true" {
		t.Error("the slider is wider than its span")
	}
}
