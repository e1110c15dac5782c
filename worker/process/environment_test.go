//go:build linux

package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millrace/task/value"
)

// TestEnvFileErrorsHoldNoText: text that cannot be parsed may be a password. The error names only
// file and line.
func TestEnvFileErrorsHoldNoText(t *testing.T) {
	for _, c := range []struct {
		text, line string
	}{
		{"DB_PASSWORD hunter2\nAPI_KEY=sk_live_123456\n", "line 1 "},
		{"A=1\n# note\n\nB='x\nhunter2'\nC=2\n", "line 5 "},
		{"A=1\nexport DB_PASSWORD=hunter2\nAPI_KEY=sk_live_123456\n", "line 2 "},
		{"A=1\n=hunter2\n", "line 2 "},
		{"A=hunter2\x00\nB=1\n", "line 1 "},
		{strings.Repeat("A=1\n", 5000) + "hunter2\n" + strings.Repeat("B=2\n", 5000), "line 5001 "},
		{strings.Repeat("hunter2=1\n", maxEnvFile/10+1), "more than"},
	} {
		name := filepath.Join(t.TempDir(), "app.env")
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readEnvFile(name, nil)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), c.line) {
			t.Errorf("%.40q is refused with %v, want %s", c.text, err, c.line)
			continue
		}
		for _, word := range []string{"hunter2", "PASSWORD", "sk_live"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%.40q: the error tells %s: %v", c.text, word, err)
			}
		}
	}
	name := filepath.Join(t.TempDir(), "good.env")
	if err := os.WriteFile(name, []byte("A=1\nHASH=$2y$10$f\\n\nB=\"tab\\there\" # $A\nC='x'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readEnvFile(name, nil)
	want := []value.Pair{{Name: "A", Value: "1"}, {Name: "HASH", Value: "$2y$10$f\\n"}, {Name: "B", Value: "\"tab\\there\" # $A"}, {Name: "C", Value: "'x'"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if note := quoted("good.env", got); !strings.HasPrefix(note, "the quotes around C in good.env are part of the value") {
		t.Errorf("the note is %q", note)
	}
}

// TestVariablesOnce: programs that take the first of several values, and those that take the last,
// see the same.
