package browser

import (
	"strings"
	"testing"
)

// A demo has all that there is to see, and is looked at as people do.
func TestDemo(t *testing.T) {
	s := open(t, "demo", "--keep")
	t.Run("pictures", func(t *testing.T) { docPictures(t, s) })
	t.Run("pages", func(t *testing.T) { allPages(t, s) })
	t.Run("without a script", func(t *testing.T) { sameWithoutScript(t, s) })
	t.Run("journeys", func(t *testing.T) { journeys(t, s) })
}

// All pages can be read by everyone, in light, in dark and on a telephone, in the present and in
// the past, and load nothing from elsewhere.
func allPages(t *testing.T, s *site) {
	b := look(t, s)
	light := map[string]float64{}
	for _, path := range b.pages() {
		for _, at := range []string{"", "?at=60"} {
			where := path + at
			b.goTo(where)
			if at != "" && !ask[bool](b, `document.body.classList.contains("past")`) {
				b.found() // its subject did not exist then
				continue
			}
			for _, l := range looks {
				b.as(l.scheme, l.width, l.height)
				for _, w := range append(b.layout(), b.barriers()...) {
					b.Errorf("%s, %s: %s", where, l.name, w)
				}
				picture, _ := b.shot(called(where) + "-" + l.name)
				share, ground := ink(picture)
				if share < 0.002 {
					b.Errorf("%s, %s: the picture is empty: %.4f of it is not background", where, l.name, share)
				}
				light[l.name] = ground
			}
			if light["dark"] > 0.3 || light["light"] < 0.7 {
				b.Errorf("%s: dark is %.2f light, light %.2f", where, light["dark"], light["light"])
			}
			b.fine(where)
		}
	}
}

// The checks that the other tests rely on find planted mistakes.
func TestFindsWhatIsWrong(t *testing.T) {
	s := open(t, "dev")
	b := look(t, s)
	b.as("light", 360, 740)
	for _, c := range []struct{ what, does, want string }{
		{"an element that is too wide", `p.textContent = "wide"; p.style.width = "500px"`, "reaches from"},
		{"texts over each other", `p.textContent = "under"; q.textContent = "over"; q.style.marginTop = "-2.4em"`, "lie over each other"},
		{"a page without a heading", `document.querySelector("h1").remove()`, "no heading"},
		{"an error in the console", `console.error("broken")`, "broken"},
		{"a style in the page", `p.setAttribute("style", "color: red")`, "forbidden by the policy: style-src-attr"},
		{"a picture from elsewhere", `p.innerHTML = "<img alt='' src='http://127.0.0.2:9/x.png'>"`, "forbidden by the policy: img-src"},
		{"a picture without words", `p.innerHTML = "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>"`, "image-alt"},
	} {
		b.goTo("/")
		b.do(run(`(() => { const p = document.createElement("p"), q = document.createElement("p"); document.querySelector("main").append(p, q); ` + c.does + ` })()`))
		found := append(b.layout(), b.barriers()...)
		b.do(run(`new Promise((done) => setTimeout(done))`))
		if found = append(found, b.found()...); !strings.Contains(strings.Join(found, "\n"), c.want) {
			t.Errorf("%s is not found: %q", c.what, found)
		}
	}
}
