package events

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDropped(t *testing.T) {
	t.Parallel()
	const begins = `{"type":"task.submitted","v":1,"id":"01JD6Z8V3M0QK4T7W2X9Y5ABCD","at":"2026-03-01T12:00:00Z","task":"01JD6Z8V3M0QK4T7W2X9Y5ABCE"`
	for name, c := range map[string]struct {
		rest string
		want []string
	}{
		"nothing":          {`,"route":"default.5","spec":{"run":{"argv":["true"]}}}`, nil},
		"another order":    {`,"spec":{"run":{"argv":["true"]}},"route":"default.5"}`, nil},
		"an unknown field": {`,"route":"default.5","spec":{"run":{"argv":["true"]}},"colour":"red"}`, []string{"colour"}},
		"one within":       {`,"route":"default.5","spec":{"run":{"argv":["true"]},"retry":{"max":1,"moon":[1]}}}`, []string{"spec.retry.moon"}},
		"in a list":        {`,"route":"default.5","spec":{"steps":[{"name":"a","run":{"argv":["true"]},"moon":1}]}}`, []string{"spec.steps.moon"}},
		"none of value":    {`,"route":"default.5","spec":{"run":{"argv":["true"]},"moon":{"a":[],"b":"","c":0,"d":false,"e":null}}}`, nil},
	} {
		fact, err := Decode([]byte(begins + c.rest))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := Dropped(&Record{Fact: fact, Raw: []byte(begins + c.rest)})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// What this version and all before it have written is read without loss.
func TestNothingIsDropped(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/corpus/*/v*/*.json*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		r := &Record{Raw: bytes.TrimSpace(text)}
		lines := func() error { return io.EOF }
		if filepath.Ext(name) == ".jsonl" {
			in, err := NewExportReader(bytes.NewReader(text))
			if err != nil {
				t.Fatal(name, err)
			}
			lines = func() (err error) { *r, err = in.Next(); return err }
			err = lines()
			if err != nil {
				t.Fatal(name, err)
			}
		} else if r.Fact, err = Decode(r.Raw); err != nil {
			t.Fatal(name, err)
		}
		for err = nil; err == nil; err = lines() {
			if !r.Readable() { // a fact of a future type
				continue
			}
			if lost, err := Dropped(r); err != nil || len(lost) > 0 {
				t.Errorf("%s: %s at #%d drops %q, %v", name, r.Fact.Type, r.Seq, lost, err)
			}
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
