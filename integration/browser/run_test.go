package browser

import (
	"os"
	"path/filepath"
	"testing"
)

// pipeline is a job with a list, a failure after a good run, a long way around a step, and a handler.
const pipeline = `name: etl
params: {sites: [eu-west, us-east, ap-east]}
steps:
  - name: fetch
    run: echo "the pages are here"
  - name: parse
    needs: [fetch]
    run: echo "parsed"; sleep 0.3
  - name: transform
    needs: [parse]
    each: {param: sites}
    run: |
      echo "begin $MILLRACE_ITEM"
      if [ "$MILLRACE_ITEM" = ap-east ]; then echo "no such region" >&2; exit 3; fi
  - name: load
    needs: [transform, fetch]
    run: echo "loaded"
on:
  failure:
    run: echo "somebody is told"
`

// The page of a run says since when it is bad, shows its steps, and what the failed one has printed beside them.
func TestRunPage(t *testing.T) {
	s := open(t, "dev")
	b := look(t, s)
	file := filepath.Join(t.TempDir(), "etl.yaml")
	if err := os.WriteFile(file, []byte(pipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	s.cli(t, "job", "apply", file)
	s.cli(t, "run", "--wait", "--param", `sites=["eu-west"]`, "etl")
	s.cli(t, "run", "etl")
	b.goTo("/tasks?q=job%3Aetl+is%3Aroot+state%3Aerror")
	b.until("it has failed", `(document.querySelector("main tbody tr") || location.reload(), !!document.querySelector("main tbody tr"))`)
	b.click("main tbody tr td a")
	b.until("it says when it was good last", `document.querySelector("#headline")?.innerText.match(/^failed after .* last good .* compare$/)`)
	for _, as := range looks {
		b.as(as.scheme, as.width, as.height)
		b.until("all steps are there", `document.querySelectorAll("#graph g").length > 8 || innerWidth < 500`)
		if wrong := append(b.layout(), b.barriers()...); len(wrong) > 0 {
			t.Errorf("the run, %s: %q", as.name, wrong)
		}
		b.shot("run-" + as.name)
		if list := ask[bool](b, `document.querySelector("#graph .phone").checkVisibility()`); list != (as.width < 500) {
			t.Errorf("%s: a list is shown: %v", as.name, list)
		}
	}
	b.as("light", 1280, 900)
	b.until("the failed step's output is there", `document.querySelector("#printed h2").innerText.includes("ap-east") && document.querySelector("#output").innerText.includes("no such region")`)
	b.click("#graph g:nth-of-type(2) a")
	b.until("a click chooses another", `location.search.includes("step=") && document.querySelector("#graph .chosen")?.textContent.includes("fetch") && document.querySelector("#output").innerText.includes("the pages are here")`)
	b.click("#graph g:nth-of-type(4) a .name")
	b.until("a list has what all of it has printed", `document.querySelector("#graph .chosen")?.textContent.includes("transform") && document.querySelectorAll("#output .line .by").length === 4`)
	b.click(`#printed .pager a[href*="step=all"]`)
	b.until("all stand in the order of time", `(() => { const by = [...document.querySelectorAll("#output .line .by")].map((el) => el.innerText), at = [...document.querySelectorAll("#output .line")].map((el) => el.dataset.clock);
		return by[0]?.includes("fetch") && by.at(-1).includes("on-failure") && by.some((name) => name.includes("us-east")) && at.every((t, i) => /^\d\d:\d\d:\d\d\.\d{3}$/.test(t) && (!i || at[i - 1] <= t)); })()`)
	if wrong := append(b.layout(), b.barriers()...); len(wrong) > 0 {
		t.Errorf("all of its output: %q", wrong)
	}
	b.shot("run-all-steps")
	b.click("#evidence summary")
	b.until("its facts are there", `document.querySelector("#facts").checkVisibility() && document.querySelector("#facts").innerText.includes("task.concluded")`)
	b.click("#headline a[href*=compare]")
	b.until("it is compared with the last good run", `document.querySelector("main").innerText.includes("the last good run")`)
}
