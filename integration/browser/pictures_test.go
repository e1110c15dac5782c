package browser

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var pictures = flag.String("pictures", "", "a directory to which the pictures of the README are written")

// mostBytes is how large a picture of the README may be.
const mostBytes = 150_000

// The pictures of the README can be made at any time, and are small.
func readmePictures(t *testing.T, s *site) {
	b := look(t, s)
	for _, p := range []struct {
		name, path, scheme string
		height             int64
		shown              string
	}{
		{"overview", "/", "light", 680, `document.querySelectorAll("#running tbody tr").length > 2 && document.querySelectorAll("#failed tbody tr").length > 2 && [...document.querySelectorAll(".plot")].every((p) => p.dataset.seconds)`},
		{"task", "/tasks?q=job%3Aencode", "dark", 800, `document.querySelectorAll("#output .line").length > 8`},
	} {
		b.as(p.scheme, 1200, p.height)
		b.goTo(p.path)
		if p.name == "task" {
			b.click("main tbody tr a")
		}
		b.until("it shows what it is for", p.shown)
		if seconds := ask[[]int](b, `[...document.querySelectorAll(".plot")].map((p) => Number(p.dataset.seconds))`); slices.ContainsFunc(seconds, func(n int) bool { return n < 60 || n > 2000 }) {
			t.Errorf("the plots of the page %s show %d s, want some minutes", p.name, seconds)
		}
		if *pictures != "" && p.name == "overview" {
			b.until("the plots have something to show", `document.querySelectorAll("#points tbody tr").length > 8`)
		}
		b.do(run(`window.scrollTo(0, 0)`))
		_, text := b.shot("readme-" + p.name)
		if len(text) > mostBytes {
			t.Errorf("the picture of the page %s has %d bytes, want at most %d", p.name, len(text), mostBytes)
		}
		if *pictures == "" {
			continue
		}
		if err := os.MkdirAll(*pictures, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*pictures, p.name+".png"), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
