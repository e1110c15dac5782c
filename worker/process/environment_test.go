//go:build linux

package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEnvFileErrorsHoldNoText: text that cannot be parsed may be a password. The error names only
// file and line.
func TestEnvFileErrorsHoldNoText(t *testing.T) {
	for _, c := range []struct {
		text, line string
	}{
		{"DB_PASSWORD hunter2\nAPI_KEY=sk_live_123456\n", "line 1 "},
		{"A=1\n# note\n\nB='x\ny'\nDB-PASSWORD=hunter2\nC=2\n", "line 6 "},
		{"A=1\nDB_PASSWORD=\"hunter2\nAPI_KEY=sk_live_123456\n", "line 2 "},
		{"A=1\n=hunter2\n", "line 2 "},
		{"A=hunter2\x00\nB=1\n", "line 1 "},
		{"A=\"x\" hunter2 sk_live_123456\nB=1", "line 1 "},
		{strings.Repeat("A=1\n", 5000) + "hunter2\n" + strings.Repeat("B=2\n", 5000), "line 5001 "},
		{strings.Repeat("hunter2=1\n", maxEnvFile/10+1), "more than"},
	} {
		name := filepath.Join(t.TempDir(), "app.env")
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readEnvFile(nil, name, nil)
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
	if err := os.WriteFile(name, []byte("A=1\nexport B=\"two\nlines $A\" # note\nC: yaml\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readEnvFile(nil, name, nil)
	slices.Sort(got)
	if want := []string{"A=1", "B=two\nlines 1", "C=yaml"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// TestVariablesOnce: programs that take the first of several values, and those that take the last,
// see the same.
