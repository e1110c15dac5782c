package pages

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// The manifest lists every foreign file, and there is no other.
func TestForeign(t *testing.T) {
	t.Parallel()
	text, err := loaded.ReadFile("foreign/manifest.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"manifest.txt": true}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if len(fields) != 6 {
			t.Fatalf("%q has not six fields", lines.Text())
		}
		listed[fields[0]] = true
		body, err := loaded.ReadFile("foreign/" + fields[0])
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != fields[5] {
			t.Errorf("%s has the digest %x, want %s", fields[0], sum, fields[5])
		}
	}
	entries, err := loaded.ReadDir("foreign")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			t.Errorf("%s is not in the manifest", e.Name())
		}
	}
}
