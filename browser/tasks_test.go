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
