package crawler

import (
	"net/url"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"http://h":                  "http://h/",
		"HTTP://Example.COM:80/A":   "http://example.com/A",
		"https://h:443/":            "https://h/",
		"https://h:80/":             "https://h:80/",
		"http://h:/":                "http://h/",
		"http://[::1]:80/":          "http://[::1]/",
		"http://u:p@h/a":            "http://h/a",
		"http://h/a#b":              "http://h/a",
		"http://h/a?":               "http://h/a",
		"http://h?q":                "http://h/?q",
		"http://h/a/./b/../c":       "http://h/a/c",
		"http://h/a/%2e%2E/b":       "http://h/b",
		"http://h/../..":            "http://h/",
		"http://h/%7euser/%c3%BC/ü": "http://h/~user/%C3%BC/%C3%BC",
		"http://h/a%2fb":            "http://h/a%2Fb",
		"http://h/a b?c d\"e":       "http://h/a%20b?c%20d%22e",
		"http://h/?b=2&a=1":         "http://h/?b=2&a=1", // the order may mean something
		"http://h/?100%":            "http://h/?100%25",
		"mailto:a@b":                "",
		"http:a":                    "",
		"ftp://h/":                  "",
		"/a":                        "",
		"http://":                   "",
		"http://:80/":               "",
		"http://h/" + strings.Repeat("a", maxAddress): "",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if c, ok := canonical(u); ok {
			got = c.String()
		}
		if got != want {
			t.Errorf("canonical(%.60q) is %q, want %q", in, got, want)
		}
	}
}

// FuzzCanonical checks that a server can be asked for a canonical address, and that canonical
// leaves it unchanged.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"http://h/%2e./a?%zz%2%41#x", "http://H:80//a/../b", "https://[::1]:1/;,", "http://h/%00?\x7f", "http://ü/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		once, ok := canonical(u)
		if !ok {
			return
		}
		again, err := url.Parse(once.String())
		if err != nil {
			t.Fatalf("%q becomes %q: %v", s, once, err)
		}
		twice, ok := canonical(again)
		if !ok || twice.String() != once.String() {
			t.Fatalf("%q becomes %q and then %q", s, once, twice)
		}
	})
}
