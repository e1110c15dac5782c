package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/ipc"
)

func TestReadSecret(t *testing.T) {
	for text, want := range map[string]string{"s3cr\n": "s3cr", "long enough\r\n": "long enough", "": "", "\n": ""} {
		if got, err := readSecret(secretFile(t, text), nil); got != want || err != nil {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
	}
	for text, why := range map[string]string{"123\n": "3 of the 4 bytes", "a\x00bcd": "zero byte", strings.Repeat("x", 40<<10): "more than"} {
		if got, err := readSecret(secretFile(t, text), nil); err == nil || !strings.Contains(err.Error(), why) || got != "" || strings.Contains(err.Error(), strings.TrimSpace(text)+" ") {
			t.Errorf("%.10q is read as %.10q, %v", text, got, err)
		}
	}
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestRedactLinesTogether: lines that come together are redacted as they would have been one by one,
// and stay as many.
func TestRedactLinesTogether(t *testing.T) {
	r := newRedactor([]string{"se\ncret", "-----BEGIN KEY-----\nabcdefgh\n", "four"})
	for _, text := range []string{"", "\n", "a\n\nb", "xse\ncretx", "-----BEGIN KEY-----\nabcdefgh\n", "fourfour\n\nfour", "\nfour\n"} {
		var want []string
		for line := range strings.SplitSeq(text, "\n") {
			want = append(want, string(r.lines(ipc.Line{Text: []byte(line)}).Text))
		}
		got := r.lines(ipc.Line{Text: []byte(text), Several: len(want)})
		if string(got.Text) != strings.Join(want, "\n") || got.Several != len(want) {
			t.Errorf("%q becomes %q, want %q", text, got.Text, want)
		}
	}
}
