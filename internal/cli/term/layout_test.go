package term

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text    string
		n, most int
		want    []string
	}{
		{"", 5, 0, []string{""}},
		{"as it is", 0, 0, []string{"as it is"}},
		{"a few words here", 8, 0, []string{"a few", "words", "here"}},
		{"a few words here", 8, 2, []string{"a few", "words…"}},
		{"incomprehensible words", 8, 0, []string{"incompre", "hensible", "words"}},
		{"incomprehensible", 8, 1, []string{"incompr…"}},
		{"größer als größtes", 8, 0, []string{"größer", "als", "größtes"}},
		{"two  spaces", 5, 0, []string{"two", "space", "s"}},
	} {
		if got := wrap(c.text, c.n, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d, %d lines: %q, want %q", c.text, c.n, c.most, got, c.want)
		}
	}
}

// Whatever a table holds, no line of it is wider than the terminal, down to 60 columns.
func TestTablesFit(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		text := func(most int) string {
			return strings.TrimSpace(strings.Repeat("wörd ", r.IntN(most/5+1)) + strings.Repeat("x", r.IntN(most)))
		}
		tab := Table{Header: []string{"ID", "STATE", "WHAT", "QUEUE", "MESSAGE"}, Spare: []string{"QUEUE"}, Foot: []string{text(200)}}
		for range 1 + r.IntN(5) {
			tab.Add(Plain("9Y5ABCD"), Plain(text(17)), Plain(text(60)), Plain(text(20)), Plain(text(300)))
		}
		for _, bound := range []int{60, 80, 110, 200} {
			var b bytes.Buffer
			if err := tab.Write(&b, bound, false); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > bound {
					t.Fatalf("seed %d: a line of %d columns in %d:\n%s", seed, n, bound, b.String())
				}
			}
			if strings.Count(b.String(), "9Y5ABCD") != len(tab.Rows) {
				t.Fatalf("seed %d: not every row is there whole in %d columns:\n%s", seed, bound, b.String())
			}
		}
	}
}

// A column that is to stay whole is cut last.
func TestWholeColumns(t *testing.T) {
	next := "2026-12-01 03:00:00 +01:00 (in 2d13h)"
	table := Table{Header: []string{"SCHEDULE", "WHEN", "NEXT", "RUNS"}, Spare: []string{"RUNS"}, Whole: []string{"NEXT"}}
	table.Add(Plain("nightly-backup-of-everything"), Plain("30 2 * * mon-fri"), Plain(next), Plain(strings.Repeat("command ", 10)))
	for width, whole := range map[int]bool{120: true, 100: true, 90: true} {
		var b strings.Builder
		if err := table.Write(&b, width, false); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), next) != whole {
			t.Errorf("at %d columns:\n%s", width, b.String())
		}
	}
}
