package browser

import (
	"slices"
	"strconv"
	"testing"
)

// A user completes a query by keys, cancels the tasks that it chooses at once, and runs a job by
// its form.
func TestManyTasks(t *testing.T) {
	s := open(t, "dev")
	b := look(t, s)
	for range 3 {
		s.cli(t, "run", "--queue", "nobody", "--label", "env=prod", "--", "true")
	}
	b.goTo("/tasks")
	b.click("#search")
	b.press("label:e")
	b.until("a label is offered", `document.querySelector("#suggestions li")?.innerText === "label:env=prod"`)
	b.fine("the offers")
	b.shot("offers")
	b.press(down + enter)
	b.until("it is taken", `document.querySelector("#search").value === "label:env=prod " && document.querySelector("#suggestions").hidden`)
	b.press(enter)
	b.until("they are listed", `location.search.includes("env") && document.querySelectorAll("main tbody tr").length === 3`)
	b.click("main tbody tr input[type=checkbox]")
	b.until("one is chosen", `document.querySelector("#chosen").innerText === "1 selected"`)
	s.cli(t, "run", "--queue", "nobody", "--label", "env=prod", "--", "true")
	b.until("it stays chosen when the list is drawn anew", `document.querySelector(".more") && document.querySelectorAll("main tbody input:checked").length === 1`)
	b.shot("chosen")
	b.click("#selection button[type=submit]")
	b.until("it is counted", `document.querySelector("main").innerText.includes("This would affect 1")`)
	b.fine("a bulk")
	b.shot("bulk")
	b.click("form.bulk button[type=submit]")
	b.until("it is done", `document.querySelector("main").innerText.includes("1 task: done")`)
	for _, as := range looks {
		b.as(as.scheme, as.width, as.height)
		b.goTo("/tasks")
		b.until("all are listed", `document.querySelectorAll("main tbody tr").length === 4`)
		if wrong := append(b.layout(), b.barriers()...); len(wrong) > 0 {
			t.Errorf("the list, %s: %q", as.name, wrong)
		}
	}
}

// On a telephone the lists of tasks show state, id and subject of each without scrolling sideways,
// and what scrolls nevertheless can be scrolled with the keys.
func TestTasksOnATelephone(t *testing.T) {
	s := open(t, "dev")
	b := look(t, s)
	s.cli(t, "run", "--queue", "nobody", "--label", "env=prod", "--", "echo", "a command of some length, which has to be cut somewhere")
	s.cli(t, "run", "--node", "nowhere", "--no-node", "fail", "--", "true")
	b.as("light", 360, 740)
	b.goTo("/dead")
	b.until("the dead letter is listed", `(document.querySelector("main tbody tr") || location.reload(), !!document.querySelector("main tbody tr"))`)
	for _, path := range append(b.pages(), "/dead", "/tasks") {
		b.goTo(path)
		for _, wrong := range ask[[]string](b, `(() => {
			const wrong = [], seen = (el) => { const r = el.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth + 1 && r.width > 0; };
			for (const el of document.querySelectorAll("main .scroll"))
				if (el.checkVisibility() && el.scrollWidth > el.clientWidth + 1 && el.tabIndex < 0) wrong.push("what scrolls has no tab stop: " + el.innerText.slice(0, 40));
			for (const row of document.querySelectorAll("main tbody tr")) {
				const id = row.querySelector('td a[href*="tasks/"]'), state = row.querySelector(".state");
				if (!id || !state || !row.checkVisibility()) continue;
				for (const el of [id, state]) if (!seen(el)) wrong.push("a task's " + (el === id ? "id" : "state") + " is not seen without scrolling: " + row.innerText.slice(0, 60));
			}
			return wrong; })()`) {
			t.Errorf("%s: %s", path, wrong)
		}
	}
	for path, rows := range map[string]int{"/tasks": 2, "/dead": 1} {
		b.goTo(path)
		if got := ask[[]int](b, `[document.querySelectorAll("main table.list tbody tr").length, ...[...document.querySelectorAll("main .scroll:has(.list)")].map((el) => el.scrollWidth - el.clientWidth)]`); len(got) != 2 || got[0] != rows || got[1] > 1 {
			t.Errorf("%s: rows, and how much wider the list is than the window: %v, want %d rows", path, got, rows)
		}
		b.shot("telephone" + called(path))
	}
}

// Rows that new tasks push to the next page stay as they were: they have not left the list. Names are not
// broken at their hyphens.
func TestRowsOfTheNextPage(t *testing.T) {
	s := open(t, "dev", "--name", "crawler-with-a-name-2", "--queues", "other")
	b := look(t, s)
	s.cli(t, "run", "--queue", "other", "--", "true")
	for range 50 {
		s.cli(t, "run", "--queue", "nobody", "--", "true")
	}
	b.goTo("/tasks")
	b.until("a page is listed", `document.querySelectorAll("#rows tbody tr").length === 50 && document.querySelector("a[rel=next]")`)
	for range 3 {
		s.cli(t, "run", "--queue", "nobody", "--", "true")
	}
	b.until("new ones wait", `document.querySelector("#rows-more").innerText.includes("3 new")`)
	if gone := ask[int](b, `document.querySelectorAll("#rows [data-gone]").length`); gone != 0 {
		t.Errorf("%d rows look as if they had left the list", gone)
	}
	b.goTo("/tasks?q=queue%3Aother&col=state&col=node&col=queue&col=what&col=labels&col=params&col=submitted&col=ended")
	list := ask[string](b, `document.querySelector("#rows tbody a").pathname`)
	for _, path := range []string{"/nodes", list[len(prefix):], "/tasks?q=queue%3Aother&col=state&col=node&col=queue&col=what&col=labels&col=params&col=submitted&col=ended"} {
		for _, as := range looks[:2] {
			b.as(as.scheme, as.width, as.height)
			b.goTo(path)
			if lines := ask[[]int](b, `(() => { const all = []; const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
				for (let n = walk.nextNode(); n; n = walk.nextNode()) if (n.data.trim() === "crawler-with-a-name-2" && n.parentElement.checkVisibility()) { const r = document.createRange(); r.selectNode(n); all.push(new Set([...r.getClientRects()].map((of) => Math.round(of.top))).size); }
				return all; })()`); len(lines) == 0 || max(lines[0], lines[len(lines)-1]) > 1 {
				t.Errorf("%s: the name of the node stands on %v lines", path, lines)
			}
		}
	}
}

// Many runs of a schedule are one row, which counts those that end while one reads; a run that is seen stays in its place.
func TestRunsInOneRow(t *testing.T) {
	s := open(t, "dev")
	b := look(t, s)
	s.cli(t, "schedule", "add", "pulse", "--every", "1s", "--", "/bin/sh", "-c", "sleep 0.5")
	b.goTo("/tasks")
	b.until("runs are in one row, and one goes on", `document.querySelector("#f-schedule-pulse-0") && document.querySelector("#rows tr[id^='t-'] .s-running") || (document.readyState === "complete" && location.reload())`)
	const state = `document.querySelector("#rows tbody tr[id^='t-']").innerText`
	runs := ask[string](b, `document.querySelector("#f-schedule-pulse-0 a").innerText`)
	b.until("it has ended where it was", state+`.includes("finished")`)
	b.until("it is counted", `document.querySelector("#f-schedule-pulse-0 a").innerText !== `+strconv.Quote(runs))
	if gone := ask[int](b, `document.querySelectorAll("#rows [data-gone]").length`); gone != 0 {
		t.Errorf("%d rows look as if they had left the list", gone)
	}
	for _, width := range []int64{360, 768, 1280, 1600} {
		for _, scheme := range []string{"light", "dark"} {
			b.as(scheme, width, 900)
			if wrong := append(b.layout(), b.barriers()...); len(wrong) > 0 {
				t.Errorf("the list, %s, %d: %q", scheme, width, wrong)
			}
		}
	}
	b.as("light", 1280, 900)
	b.click("#f-schedule-pulse-0 a")
	b.until("its runs are listed", `location.search.includes("schedule%3Apulse") && document.querySelectorAll("#rows tbody tr[id^='t-']").length > 4 && !document.querySelector("#rows tr[id^='f-']")`)
}

// A list is narrowed by a click, kept as a view, and left by the palette; what was done can be taken back at once.
func TestNarrowPinUndo(t *testing.T) {
	s := open(t, "dev")
	b := look(t, s)
	s.cli(t, "run", "--queue", "nobody", "--", "true")
	s.cli(t, "run", "--queue", "nobody-else", "--", "true")
	b.goTo("/tasks")
	b.click(`#facets a[href*="nobody-else"]`)
	b.until("it is narrowed", `document.querySelectorAll("#rows tbody tr").length === 1 && document.querySelector("#facets [aria-current]").innerText.includes("nobody-else")`)
	b.click("#pin")
	b.goTo("/tasks")
	b.click(`#pinned a`)
	b.until("the view is there again", `document.querySelectorAll("#rows tbody tr").length === 1 && document.querySelector("#pin").innerText === "unpin this view"`)
	for _, as := range append(slices.Clone(looks), struct {
		name, scheme  string
		width, height int64
	}{"wide", "light", 1600, 900}) {
		b.as(as.scheme, as.width, as.height)
		if wrong := append(b.layout(), b.barriers()...); len(wrong) > 0 {
			t.Errorf("the list, %s: %q", as.name, wrong)
		}
		b.shot("facets-" + as.name)
	}
	b.as("light", 1280, 900)
	const ctrlK = `document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true, cancelable: true }))`
	b.do(run(ctrlK))
	b.until("the palette is open", `document.querySelector("#palette").open && document.activeElement.id === "noun"`)
	b.press("que")
	b.until("it has the page", `document.querySelector("#palette [aria-selected=true]").innerText === "Queues"`)
	if wrong := append(b.layout(), b.barriers()...); len(wrong) > 0 {
		t.Errorf("the palette: %q", wrong)
	}
	b.shot("palette")
	b.press(enter)
	// What a button opens lies over the page: nothing moves, nothing cuts it off, and keys close it.
	const pause, places = `#q-nobody details.act:has([action*="queue.pause"]) summary`, `[...document.querySelectorAll("main :is(th, td, h2, summary)")].map((el) => { const r = el.getBoundingClientRect(); return [r.x, r.y, r.width]; }).join()`
	for _, l := range looks {
		b.as(l.scheme, l.width, l.height)
		before := ask[string](b, places)
		b.click(pause)
		b.until("all of the form is on top", `(() => {
			const at = [...document.querySelectorAll("#q-nobody details[open] :is(p, label, button)")].map((el) => [el, el.getBoundingClientRect()]);
			return at.length > 2 && at.every(([el, r]) => r.left >= 0 && r.right <= innerWidth && el.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)));
		})()`)
		if now := ask[string](b, places); now != before {
			t.Errorf("%s: opening a form moves %s to %s", l.name, before, now)
		}
		if wrong := b.barriers(); len(wrong) > 0 {
			t.Errorf("an open form, %s: %q", l.name, wrong)
		}
		b.shot("act-" + l.name)
		b.click("#q-nobody details[open] input[name=reason]")
		b.press("x" + escape)
		b.until("it is closed, and the button has the focus", `!document.querySelector("details[open]") && document.activeElement.matches("#q-nobody summary")`)
	}
	b.as("light", 1280, 900)
	b.click(`#q-nobody-else details.act summary`)
	b.click(pause)
	b.until("the other one is closed", `document.querySelectorAll("details[open]").length === 1`)
	b.click("#q-nobody details[open] button[type=submit]")
	b.until("it is paused, and that can be taken back", `document.querySelector("#did")?.innerText.includes("nobody") && document.querySelector("#q-nobody").innerText.includes("paused") && !location.search.includes("did")`)
	if wrong := append(b.layout(), b.barriers()...); len(wrong) > 0 {
		t.Errorf("the undo: %q", wrong)
	}
	b.shot("undo")
	b.click("#did button")
	b.until("it is taken back", `document.querySelector("#q-nobody") && !document.querySelector("#q-nobody").innerText.includes("paused") && document.querySelector("#did").innerText.includes("Resume")`)
}
