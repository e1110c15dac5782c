package task

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestDefinition(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var d Definition
	put := func(seq uint64, text string) {
		t.Helper()
		next, err := d.Next([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		e := DefinitionApplied{Edition: next}
		if err := d.Follows(e); err != nil {
			t.Fatal(err)
		}
		d = EvolveDefinition(d, seq, at, "ada", e)
	}
	if d.Exists() || d.Says(nil) {
		t.Errorf("a definition that never was: %+v", d)
	}
	put(7, `{"n":1}`)
	put(9, `{"n":2}`)
	if old := (Definition{Edition: Edition{Text: []byte(`{"shell":"a \u0026\u0026 b"}`)}}); !old.Says([]byte(`{"shell":"a && b"}`)) {
		t.Error("what an earlier version stored is another definition")
	}
	if d.Revision != 2 || d.Head != 9 || !d.Exists() || !d.Says([]byte(`{"n":2}`)) || d.Says([]byte(`{"n":1}`)) || d.Actor != "ada" || !d.Changed.Equal(at) {
		t.Errorf("after two changes: %+v", d)
	}
	d = EvolveDefinition(d, 11, at, "bob", DefinitionRemoved{Revision: 3})
	if d.Exists() || d.Revision != 3 || d.Head != 11 {
		t.Errorf("removed: %+v", d)
	}
	put(13, `{"n":4}`)
	if d.Revision != 4 {
		t.Errorf("defined again at revision %d, want 4: numbers are not used twice", d.Revision)
	}
	if _, err := d.Next([]byte(strings.Repeat("x", MaxDefinition+1))); !errors.Is(err, ErrLongDefinition) || !strings.Contains(err.Error(), "files") {
		t.Errorf("too long: %v", err)
	}
	if _, err := d.Next([]byte(strings.Repeat("x", MaxDefinition))); err != nil {
		t.Errorf("as long as may be: %v", err)
	}
}

func TestWhatFollowsInADefinition(t *testing.T) {
	was := Definition{Edition: Edition{Revision: 2, Text: []byte(`{}`), Digest: DigestOf([]byte(`{}`))}}
	gone := Definition{Edition: Edition{Revision: 3}}
	text := []byte(`{"n":1}`)
	for name, c := range map[string]struct {
		was   Definition
		e     DefinitionEvent
		wrong string
	}{
		"a change":              {was, DefinitionApplied{Edition: Edition{3, DigestOf(text), text}}, ""},
		"a pause":               {was, SchedulePaused{Edition: Edition{3, DigestOf(text), text}}, ""},
		"a removal":             {was, DefinitionRemoved{Revision: 3}, ""},
		"after a removal":       {gone, DefinitionApplied{Edition: Edition{4, DigestOf(text), text}}, ""},
		"a revision left out":   {was, DefinitionApplied{Edition: Edition{4, DigestOf(text), text}}, "follows 2"},
		"a revision once more":  {was, DefinitionApplied{Edition: Edition{2, DigestOf(text), text}}, "follows 2"},
		"another text":          {was, DefinitionApplied{Edition: Edition{3, DigestOf([]byte(`{}`)), text}}, "digest"},
		"a removal of nothing":  {gone, DefinitionRemoved{Revision: 4}, "not there"},
		"a definition of empty": {gone, DefinitionApplied{Edition: Edition{Revision: 4}}, "not there"},
	} {
		err := c.was.Follows(c.e)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
	}
}
