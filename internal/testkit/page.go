package testkit

import (
	"os"
	"strings"
	"testing"
)

// Reference compares what stands on a page between the marks of a name with what the program says
// of itself; go test -update writes it.
func Reference(t *testing.T, page, name, want string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), "<!-- begin "+name+":")
	mark, rest, marked := strings.Cut(rest, "-->\n")
	got, after, ended := strings.Cut(rest, "<!-- end "+name+" -->")
	if !begun || !marked || !ended {
		t.Fatalf("%s has no place for %s", page, name)
	}
	if *Update {
		text := before + "<!-- begin " + name + ":" + mark + "-->\n" + want + "<!-- end " + name + " -->" + after
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != want {
		t.Errorf("%s says of %s\n%s\nand the program\n%s\nrun this test with -update", page, name, got, want)
	}
}
