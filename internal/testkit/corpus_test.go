package testkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// letter is a form with two versions: the first used the name "txt".
type letter struct {
	V    int    `json:"v"`
	Text string `json:"text"`
	More string `json:"more,omitempty"`
}

func write(l letter) []byte {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

// readUpTo reads letters of all versions up to one, and writes them as that one.
func readUpTo(version int) func([]byte) ([]byte, error) {
	return func(written []byte) ([]byte, error) {
		var l struct {
			letter
			Old string `json:"txt"`
		}
		if err := json.Unmarshal(written, &l); err != nil {
			return nil, err
		}
		if l.V > version {
			return nil, fmt.Errorf("it is of version %d, this reads up to %d", l.V, version)
		}
		if l.V < 2 && version > 1 {
			l.Text = l.Old
		}
		if version == 1 {
			return []byte(fmt.Sprintf("{\"v\":1,\"txt\":%q}\n", l.Old)), nil
		}
		l.V = version
		return write(l.letter), nil
	}
}

func next(written []byte, version int) []byte {
	return []byte(strings.Replace(string(written), `"v":`+fmt.Sprint(version-1), `"v":`+fmt.Sprint(version), 1))
}

// A form through its life: it is written, gets a field, gets a version, is damaged.
func TestLifeOfAForm(t *testing.T) {
	dir := t.TempDir()
	first := Form{Dir: dir, Version: 1, Today: map[string][]byte{"a.json": []byte("{\"v\":1,\"txt\":\"hello\"}\n")}, Again: readUpTo(1), Unknown: Dropped, Next: next}
	second := Form{Dir: dir, Version: 2, Today: map[string][]byte{"a.json": write(letter{V: 2, Text: "hello"})}, Again: readUpTo(2), Unknown: Dropped, Next: next}
	more := second
	more.Today = map[string][]byte{"a.json": write(letter{V: 2, Text: "hello", More: "you"})}

	find(t, first, "v1 is empty", "go test -corpus")
	grow(t, first)
	find(t, first)
	find(t, second, "v2 is empty", "a.json.read", "no a.json in", "make the version 3")
	grow(t, second)
	find(t, second)
	find(t, first, "v2 is there, but version 1 is written")
	find(t, more, "no a.json in", "a field more")
	grow(t, more)
	find(t, more)
	for name, want := range map[string]string{
		"v1/a.json": `{"v":1,"txt":"hello"}`, "v1/a.json.read": `{"v":2,"text":"hello"}`,
		"v2/a.json": `{"v":2,"text":"hello"}`, "v2/a.2.json": `{"v":2,"text":"hello","more":"you"}`,
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(text) != want+"\n" {
			t.Errorf("%s is %q, %v; want %s", name, text, err, want)
		}
	}
	latest, err := Latest(dir, 2, "a.json")
	if err != nil || string(latest) != string(more.Today["a.json"]) {
		t.Errorf("the latest is %s, %v", latest, err)
	}

	for name, c := range map[string]struct {
		spoil func(f *Form)
		want  []string
	}{
		"an older version is read in another way": {func(f *Form) {
			f.Again = func(written []byte) ([]byte, error) {
				again, err := readUpTo(2)(written)
				return []byte(strings.Replace(string(again), "hello\"}", "HELLO\"}", 1)), err
			}
		}, []string{"v1/a.json: what is read of it: line 1 is now", "v2/a.json: written again: line 1 is now", "HELLO", "leave ", "make the version 3"}},
		"it cannot be read": {func(f *Form) {
			f.Again = func([]byte) ([]byte, error) { return nil, errors.New("what is this") }
		}, []string{"what is this", "cannot be read any more"}},
		"what was written is not any more": {func(f *Form) { f.Today = map[string][]byte{} }, []string{"nothing is written as a.json", "nothing is written as a.2.json"}},
		"an unknown field is passed over":  {func(f *Form) { f.Unknown = Kept }, []string{"is to be kept"}},
		"an unknown field is not refused":  {func(f *Form) { f.Unknown = Refused }, []string{"is to be refused"}},
		"a later version is read":          {func(f *Form) { f.Again = readUpTo(3) }, []string{"not refused though it is of version 3"}},
		"a refusal does not say what could be read": {func(f *Form) {
			f.Again = func(written []byte) ([]byte, error) {
				if strings.Contains(string(written), `"v":3`) {
					return nil, errors.New("version 3 is too new")
				}
				return readUpTo(2)(written)
			}
		}, []string{"does not name version 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := more
			c.spoil(&f)
			find(t, f, c.want...)
		})
	}
}

// No request overwrites a file.
func TestNothingIsWrittenOver(t *testing.T) {
	dir := t.TempDir()
	f := Form{Dir: dir, Version: 1, Today: map[string][]byte{"a.txt": []byte("1")}, Results: true, Again: func(b []byte) ([]byte, error) { return append(b, '!'), nil }}
	grow(t, f)
	f.Today = map[string][]byte{"a.txt": []byte("2")}
	f.Again = func(b []byte) ([]byte, error) { return append(b, '?'), nil }
	grow(t, f)
	for name, want := range map[string]string{"a.txt": "1", "a.txt.read": "1!", "a.2.txt": "2", "a.2.txt.read": "2?"} {
		if text, err := os.ReadFile(filepath.Join(dir, "v1", name)); err != nil || string(text) != want {
			t.Errorf("%s is %q, %v; want %q", name, text, err, want)
		}
	}
	find(t, f, "what is read of it: line 1 is now", "1?")
}

func TestUnknownFields(t *testing.T) {
	for given, want := range map[string]string{
		"{}":                    `{"a_field_to_come":{"a":[1]}}`,
		"{\"a\":1}\n{\"b\":{}}": `{"a":1,"a_field_to_come":{"a":[1]}}` + "\n" + `{"b":{},"a_field_to_come":{"a":[1]}}`,
		"text":                  "text",
	} {
		if got := string(later([]byte(given))); got != want {
			t.Errorf("%s became %s, want %s", given, got, want)
		}
	}
}

func grow(t *testing.T, f Form) {
	t.Helper()
	if err := f.add(); err != nil {
		t.Fatal(err)
	}
}

// find expects all of the words in the faults, and no fault without words.
func find(t *testing.T, f Form, want ...string) {
	t.Helper()
	problems, err := f.problems()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(problems, "\n")
	if len(want) == 0 && all != "" {
		t.Errorf("found\n%s", all)
	}
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("did not find %q in\n%s", w, all)
		}
	}
}
