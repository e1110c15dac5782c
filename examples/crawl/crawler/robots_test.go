package crawler

import (
	"strings"
	"testing"
)

func TestParseRobots(t *testing.T) {
	for _, c := range []struct {
		name, text string
		closed     string // of the paths /a, /b, /c
	}{
		{"empty", "", ""},
		{"all", "User-agent: *\nDisallow: /", "abc"},
		{"nothing", "User-agent: *\nDisallow:", ""},
		{"case, spaces, comments, CRLF, BOM", "\uFEFFUSER-AGENT : * # all\r\n\r\n disallow:/a#b\r\n", "a"},
		{"others", "User-agent: Other\nDisallow: /", ""},
		{"two agents, one group", "User-agent: Other\nUser-agent: *\nDisallow: /a", "a"},
		{"two groups", "User-agent: *\nDisallow: /a\nUser-agent: Other\nDisallow: /b", "a"},
		{"one agent, two groups", "User-agent: *\nDisallow: /a\nUser-agent: x\nDisallow: /c\nUser-agent: *\nDisallow: /b", "ab"},
		{"by name", "User-agent: *\nDisallow: /\nUser-agent: millracecrawl/2.0\nDisallow: /b", "b"},
		{"by name, all open", "User-agent: *\nDisallow: /\nUser-agent: MillraceCrawl\nDisallow:", ""},
		{"a name that only begins alike", "User-agent: *\nDisallow: /a\nUser-agent: MillraceCrawler\nDisallow: /", "a"},
		{"sitemap within a group", "User-agent: *\nSitemap: http://h/s.xml\nDisallow: /a", "a"},
		{"rules before any group", "Disallow: /\nUser-agent: *\nDisallow: /c", "c"},
		{"longest wins", "User-agent: *\nAllow: /a\nDisallow: /\n", "bc"},
		{"allow wins a tie", "User-agent: *\nDisallow: /a\nAllow: /a", ""},
		{"escapes", "User-agent: *\nDisallow: /%61", "a"},
	} {
		rules := parseRobots(c.text, agent)
		closed := ""
		for _, path := range []string{"a", "b", "c"} {
			if !rules.allows("/" + path) {
				closed += path
			}
		}
		if closed != c.closed {
			t.Errorf("%s: %q are closed, want %q", c.name, closed, c.closed)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/fish", "/fish.html", true},
		{"/fish", "/Fish", false},
		{"/fish/", "/fish", false},
		{"/fish$", "/fish", true},
		{"/fish$", "/fishes", false},
		{"/*.php", "/x/a.php?b", true},
		{"/*.php", "/a.txt", false},
		{"/*.php$", "/a.php", true},
		{"/*.php$", "/a.php.php", true},
		{"/*.php$", "/a.php5", false},
		{"/a*b*c", "/axxbxxc", true},
		{"/a*b*c", "/acb", false},
		{"*/x", "/a/x/b", true},
		{"/a*", "/a", true},
		{"/a*$", "/abc", true},
		{"/ab*b$", "/ab", false},
		{"/$", "/", true},
		{"/$", "/a", false},
		{"fish", "/fish", false},
		{strings.Repeat("*a", 1000) + "b", "/" + strings.Repeat("a", 2000), false},
	} {
		if got := matches(c.pattern, c.path); got != c.want {
			t.Errorf("matches(%.20q, %.20q) is %v, want %v", c.pattern, c.path, got, c.want)
		}
	}
}
