package value

import (
	"slices"
	"strings"
	"testing"
)

// TestPairs: what stands in the file is what is read.
func TestPairs(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Pair
		err  string
	}{
		{text: ""},
		{text: "\n  # note\n#A=1\n\t\r\n"},
		{text: "A=1\nB=\n", want: []Pair{{"A", "1"}, {"B", ""}}},
		{text: "A=1\r\nB=2\r\nC=3", want: []Pair{{"A", "1"}, {"B", "2"}, {"C", "3"}}},
		{text: "A=1\rB=2\nC=3\r", want: []Pair{{"A", "1\rB=2"}, {"C", "3\r"}}},
		{text: "\ufeffA=1\n", want: []Pair{{"A", "1"}}},
		{text: "HASH=$2y$10$fbdLV2U3Y98\nPASS=bm%q^lkq$D-$wOs\nHOMEDIR=$HOME/x\nT=${A:-b}$(id)`id`", want: []Pair{
			{"HASH", "$2y$10$fbdLV2U3Y98"}, {"PASS", "bm%q^lkq$D-$wOs"}, {"HOMEDIR", "$HOME/x"}, {"T", "${A:-b}$(id)`id`"}}},
		{text: `TABBED="tab\there"` + "\n" + `P=C:\new\table\` + "\nQ='it''s'", want: []Pair{{"TABBED", `"tab\there"`}, {"P", `C:\new\table\`}, {"Q", "'it''s'"}}},
		{text: "  A= two words # no note  \nB==\nA=3", want: []Pair{{"A", " two words # no note  "}, {"B", "="}, {"A", "3"}}},
		{text: "a.b-c=ü", want: []Pair{{"a.b-c", "ü"}}},
		{text: "A=1\nexport B=hunter2\n", err: "line 2 begins with export"},
		{text: "A=1\n\nB = hunter2\n", err: "line 3 cannot"},
		{text: "A: hunter2\n", err: "line 1 cannot"},
		{text: "A=1\n=hunter2\n", err: "line 2 cannot"},
		{text: "A=-----BEGIN\nhunter2\n", err: "line 2 cannot"},
		{text: "A=1\nB=hunter2\x00\n", err: "line 2 holds a zero byte"},
	} {
		got, err := Pairs(c.text)
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.err) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q is refused with %v, want %s", c.text, err, c.err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q is %q, %v, want %q", c.text, got, err, c.want)
		}
	}
}
