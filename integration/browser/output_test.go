package browser

import (
	"strings"
	"testing"
)

// Of a long output any line is there at once, by scrolling, by keys and by searching, and few of
// them are part of the page.
func TestLongOutput(t *testing.T) {
	s := open(t, "dev")
	b := look(t, s)
	id := strings.TrimSpace(s.cli(t, "run", "--", "sh", "-c", "seq 150000; echo its end is near >&2; seq 150002 300000; sleep 2; seq 300001 300100"))
	b.goTo("/tasks/" + id)
	has := func(n string) string {
		return `[...document.querySelectorAll("#output .line .t")].some((l) => l.innerText === "` + n + `" && l.getBoundingClientRect().bottom <= document.querySelector("#output").getBoundingClientRect().bottom + 1)`
	}
	b.until("it is followed to its end", has("300100"))
	if n := ask[int](b, `document.querySelectorAll("#output *").length`); n > 400 {
		t.Errorf("%d elements show it", n)
	}
	b.click("#output .window")
	b.press(home)
	b.until("the first line", has("1")+` && location.search.includes("from=1")`)
	b.do(run(`document.querySelector("#output").scrollTop = document.querySelector("#output").scrollHeight / 2`))
	b.until("the middle", `(() => { const n = Number(document.querySelector("#output .line").dataset.n); return n > 149000 && n < 151000 && !document.querySelector("#output .waiting"); })()`)
	b.click("#find")
	b.press("299999" + enter)
	b.until("what is searched", has("299999")+` && document.querySelector("#output .found").dataset.n === "299999" && location.search.includes("line=299999")`)
	b.click("#firsterror")
	b.until("the first error", has("its end is near")+` && document.querySelector("#output .found").innerText.includes("its end is near") && document.querySelector("#level").value === "" && document.querySelector("#find").value === "299999"`)
	b.click("#find")
	b.press(enter)
	b.until("what is searched next is any line", has("299999")+` && document.querySelector("#output .found").dataset.n === "299999"`)
	b.click("#times")
	b.until("lines have times", `/^\d\d:\d\d:\d\d[.,]\d{3}$/.test(document.querySelector("#output .line").dataset.clock)`)
	b.fine("a long output")
	if dir := *shots; dir != "" {
		b.as("dark", 360, 800)
		b.shot("long-output")
	}
}
