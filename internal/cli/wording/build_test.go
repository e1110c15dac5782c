package wording

import (
	"os"
	"strings"
	"testing"
)

// A build of which nothing is known says which release it comes before, and tells itself from others.
func TestUnknownBuild(t *testing.T) {
	if b := ThisBuild(); b.Version == "" || strings.Contains(b.Version, "devel") {
		t.Errorf("the version is %q", b.Version)
	}
	if d := Digest(); len(d) != 12 || d != Digest() {
		t.Errorf("the digest of this program is %q", d)
	}
	text, err := os.ReadFile("../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if release := strings.TrimSuffix(strings.TrimPrefix(unreleased, "v"), "-dev"); !strings.Contains(string(text), "## Unreleased: "+release+"\n") {
		t.Errorf("CHANGELOG.md has no unreleased version %s", release)
	}
}
