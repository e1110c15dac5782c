package browser

import "testing"

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
