package process

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millrace/ipc"
	"millrace/task"
	"millrace/task/job"
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

// TestRedactLinesTogether: lines that come together are redacted as they would have been one by
// one, and stay as many.
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

func TestRedactor(t *testing.T) {
	if r := newRedactor([]string{"", "abc"}); r != nil || r.line("abc") != "abc" {
		t.Error("short values are looked for")
	}
	r := newRedactor([]string{`pa"ss<word>`, "line one of a key\nline two of a key\nab\n", "12345"})
	for given, want := range map[string]string{
		`connect with pa"ss<word>!`: "connect with [secret]!",
		"line two of a key":         "[secret]",
		"ab":                        "ab",
		"nothing":                   "nothing",
	} {
		if got := r.line(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
	for given, want := range map[string]string{
		`{"a":"x pa\"ss<word>"}`:         `{"a":"x [secret]"}`,
		`{"a":"pa\"ss\u003cword\u003e"}`: `{"a":"[secret]"}`,
		`{"a":"12345"}`:                  `{"a":"[secret]"}`,
		`{"a":1}`:                        `{"a":1}`,
	} {
		if got, ok := r.payload([]byte(given)); !ok || string(got) != want {
			t.Errorf("%s becomes %s, %v; want %s", given, got, ok, want)
		}
	}
	if got, ok := r.payload([]byte(`{"a":12345}`)); ok {
		t.Errorf("a secret as a number becomes %s", got)
	}
}

// The program alone gets the text of the file that a secret parameter names: the task itself stays
// as it was.
func TestOpenParams(t *testing.T) {
	file := secretFile(t, "pa\"ssword\n")
	named, _ := json.Marshal(map[string]any{"token": job.Secret{File: file}, "plain": job.Secret{File: file}, "n": 1})
	k := &task.Task{Work: task.Work{Params: named, Secrets: []string{"token", "missing"}, Spec: &job.Spec{Run: &job.Run{}}}}
	params, secrets, err := openParams(k, "", nil)
	plain, _ := json.Marshal(job.Secret{File: file})
	if want := `{"n":1,"plain":` + string(plain) + `,"token":"pa\"ssword"}`; err != nil || string(params) != want || !slices.Equal(secrets, []string{`pa"ssword`}) {
		t.Errorf("it is told %s, secrets %q, %v; want %s", params, secrets, err, want)
	}
	if string(k.Params) != string(named) {
		t.Errorf("the task has %s", k.Params)
	}
	if known := knownSecrets(k, "", nil); !slices.Equal(known, secrets) {
		t.Errorf("known are %q", known)
	}
	k.Params = json.RawMessage(`{"token":{"file":"/no/such/file"}}`)
	if _, _, err := openParams(k, "", nil); err == nil || !strings.Contains(err.Error(), "parameter token: open /no/such/file") {
		t.Errorf("without the file: %v", err)
	}
}
