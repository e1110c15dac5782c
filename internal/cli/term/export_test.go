package term

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func given(all ...string) Records {
	return func(each func([]byte) error) error {
		for _, r := range all {
			if err := each([]byte(r)); err != nil {
				return err
			}
		}
		return nil
	}
}

func quiet(int) {}

func written(t *testing.T, kind Kind, r Records) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := Write(&b, kind, Source{Records: r}, quiet); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWrite(t *testing.T) {
	r := given(`{"url":"a","n":1}`, `{"n":2.50,"url":"b,\n\"c\"","more":{"x": [1, 2]}}`, `{"url":null}`, `7`, `"text"`)
	if got, want := written(t, JSONL, given("{\n \"a\": \"<b>\"\n}", `1`)), "{\"a\":\"<b>\"}\n1\n"; got != want {
		t.Errorf("JSONL is %q, want %q", got, want)
	}
	rows, err := csv.NewReader(strings.NewReader(written(t, CSV, r))).ReadAll()
	if got, want := fmt.Sprintf("%q", rows), `[["url" "n" "more" "value"] ["a" "1" "" ""] ["b,\n\"c\"" "2.50" "{\"x\":[1,2]}" ""] ["" "" "" ""] ["" "" "" "7"] ["" "" "" "text"]]`; err != nil || got != want {
		t.Errorf("CSV is %s, %v; want %s", got, err, want)
	}
	if got := written(t, CSV, given()); got != "" {
		t.Errorf("without records there is %q", got)
	}
	var b bytes.Buffer
	known := Source{Records: given(), Known: func() ([]string, error) { return []string{"url", "n"}, nil }}
	if _, err := Write(&b, CSV, known, quiet); err != nil || b.String() != "url,n\n" {
		t.Errorf("without records whose fields are known there is %q, %v", b.String(), err)
	}
	for _, c := range []struct {
		r    Records
		want string
	}{{given(), "[\n]\n"}, {given(`{"a": 1}`), "[\n{\"a\":1}\n]\n"}, {given(`{"a": 1}`, `"x"`), "[\n{\"a\":1},\n\"x\"\n]\n"}} {
		if got := written(t, JSON, c.r); got != c.want {
			t.Errorf("the array is %q, want %q", got, c.want)
		}
	}
}

// A table has a bounded number of columns, and its cells can be made harmless.
func TestWriteTable(t *testing.T) {
	var b bytes.Buffer
	s := Source{Records: given(`{"=a":"+1"}`, `{"b":2}`), Most: 2, Cells: func(cells []string) []string {
		for i := range cells {
			cells[i] = "'" + cells[i]
		}
		return cells
	}}
	if _, err := Write(&b, CSV, s, quiet); err != nil || b.String() != "'=a,'b\n'+1,'\n','2\n" {
		t.Errorf("the table is %q, %v", b.String(), err)
	}
	b.Reset()
	s.Most = 1
	if n, err := Write(&b, CSV, s, quiet); !errors.Is(err, ErrWide) || n > 0 || b.Len() > 0 {
		t.Errorf("a table that is too wide: %d, %q, %v", n, b.String(), err)
	}
}

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       Kind
	}{{"", "-", JSONL}, {"", "x.CSV", CSV}, {"", "x.json", JSON}, {"", "x.jsonl", JSONL}, {"jsonl", "x.csv", JSONL}, {"csv", "-", CSV}} {
		if got := KindOf(c.name, c.file); got != c.want {
			t.Errorf("%q of %q is %d, want %d", c.name, c.file, got, c.want)
		}
	}
}

// TestResume: wherever the writing of a file was cut off, it is completed.
func TestResume(t *testing.T) {
	r := given(`{"a":"1\n2","b":"x"}`, `{"a":"\"q\"","b":null}`, `{"b":"päpp"}`, `{"c":3}`)
	for _, kind := range []Kind{JSONL, CSV} {
		want := written(t, kind, r)
		name := filepath.Join(t.TempDir(), "file")
		for cut := range len(want) + 1 {
			if err := os.WriteFile(name, []byte(want[:cut]), 0o600); err != nil {
				t.Fatal(err)
			}
			n, err := resume(t, name, kind, r)
			got, _ := os.ReadFile(name)
			if err != nil || n != 4 || string(got) != want {
				t.Fatalf("kind %d, cut at byte %d: %q, %d, %v; want %q", kind, cut, got, n, err, want)
			}
		}
	}
}

func TestResumeOfSomethingElse(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		file string
	}{
		{JSONL, "{\"a\":2}\n"},
		{JSONL, "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n"},
		{CSV, "b\n1\n"},
		{CSV, "a\n2\n"},
		{CSV, "a\n1\n2\n3\n"},
	} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := resume(t, name, c.kind, given(`{"a":1}`, `{"a":2}`))
		if got, _ := os.ReadFile(name); !errors.Is(err, ErrOther) || string(got) != c.file {
			t.Errorf("%q became %q, %v", c.file, got, err)
		}
	}
}

func resume(t *testing.T, name string, kind Kind, r Records) (int, error) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return Resume(f, kind, Source{Records: r}, quiet)
}
