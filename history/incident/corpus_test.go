package incident

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"millrace/events"
	"millrace/internal/testkit"
	"millrace/task/value"
)

const fileCorpus = "testdata/corpus/incident"

// Incident files of every version open, and give what they have always given. A fold of their facts
// is compared by package projections.
func TestCorpus(t *testing.T) {
	testkit.Test(t, testkit.Form{
		Dir: fileCorpus, Version: Version, Results: true, Again: reading,
		Today: map[string][]byte{
			"whole.mri":  asStored(t, "whole.mri", written(t, "session", nil)),
			"hidden.mri": asStored(t, "hidden.mri", written(t, "troubled", NewRedactor([]byte("the corpus")))),
		},
		Next: func(written []byte, version int) []byte {
			written[12] = byte(version)
			fixSum(written)
			return written
		},
	})
}

// Fields that a reader does not know are passed over, in every line of a file.
func TestCorpusWithUnknownFields(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(fileCorpus, "v*", "*.mri"))
	if err != nil || len(names) < 2 {
		t.Fatalf("the corpus: %v, %v", names, err)
	}
	for _, name := range names {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := reading(file)
		if err != nil {
			t.Fatal(err)
		}
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		var later []byte
		err = blocks(file, func(b Block, lines []byte) {
			lines = bytes.ReplaceAll(lines, []byte("}\n"), []byte(`,"a_field_to_come":{"a":[1]}}`+"\n"))
			later = appendBlock(later, enc, b, lines)
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := reading(later); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: with unknown fields another thing is read, or %v", name, err)
		}
	}
}

// written returns what is written today of a log of the corpus of facts: with output, with notes
// that were added later, and with a manifest in which every field is set. The redactor may be nil.
func written(t *testing.T, log string, redactor *Redactor) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../events/testdata/corpus/log/v1", log+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := Manifest{
		Millrace: "v0", Made: at, Around: "#7", Why: "I-1", From: Point{1, at}, To: Point{1000, at}, Left: 1, Tasks: 2, AllOf: 3, Outputs: true, Raw: redactor == nil,
		Rules: []string{"a rule"}, AckWait: "30s", Settings: map[string]string{"beat": "2s"}, Details: json.RawMessage(`{"seed":1}`),
	}
	if redactor == nil {
		m.Hidden, m.ResultsLeft = 5, 1
	}
	if of := reflect.ValueOf(m); redactor == nil {
		for i := range of.NumField() {
			switch name := of.Type().Field(i).Name; name {
			case "Incident", "Facts", "Output", "Results", "Needs": // four are counted, and no version needs anything
			default:
				if of.Field(i).IsZero() {
					t.Errorf("the manifest of the example lacks %s", name)
				}
			}
		}
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := events.NewExportReader(bytes.NewReader(text))
	for err == nil {
		var record events.Record
		if record, err = r.Next(); err == nil && redactor != nil {
			record, err = redactor.Fact(&record)
		}
		if err == nil {
			err = w.Fact(&record)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	l := Lines{Seq: 3, Stored: at, Subject: "mr.tasklog.x", Body: []byte(`{"n":1}`)}
	err = w.Output(&l)
	if body := []byte(`"a result"`); err == nil && redactor == nil {
		err = w.Result(Result{Task: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Digest: value.Digest(body), Body: body})
	}
	if err := errors.Join(err, w.Close(nil)); err != nil {
		t.Fatal(err)
	}
	f, err := Open(b.Bytes())
	if err == nil {
		err = Append(&b, f, []Note{{Name: "first", Seq: 7, Time: at, Text: "is this the cause?", By: "kim", Made: at}, {Name: "bare"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// blocks passes the lines of each block of a whole file to each.
func blocks(file []byte, each func(b Block, lines []byte)) error {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer dec.Close()
	for len(file) > 0 {
		h, ok := readHead(file)
		if !ok {
			return errCut
		}
		lines, err := h.lines(file, dec)
		if err != nil {
			return err
		}
		each(h.Block, lines)
		file = file[headSize+int(h.packed):]
	}
	return nil
}

// unpacked returns the blocks of a file with their lines.
func unpacked(t *testing.T, file []byte) (text []byte) {
	t.Helper()
	if err := blocks(file, func(b Block, lines []byte) { text = append(fmt.Appendf(text, "%+v\n", b), lines...) }); err != nil {
		t.Fatal(err)
	}
	return text
}

// asStored returns the file of the corpus that was written under a name, if it holds the same. The
// packed form may change with the version of the library, which is no change of the form.
func asStored(t *testing.T, name string, written []byte) []byte {
	t.Helper()
	if stored, err := testkit.Latest(fileCorpus, Version, name); err == nil && bytes.Equal(unpacked(t, stored), unpacked(t, written)) {
		return stored
	}
	return written
}

// reading returns everything that is read of a file, as lines.
func reading(file []byte) ([]byte, error) {
	f, err := Open(file)
	if err != nil {
		return nil, err
	}
	var b []byte
	line := func(what string, of any) {
		text, problem := json.Marshal(of)
		b, err = fmt.Appendf(b, "%s %s\n", what, text), errors.Join(err, problem)
	}
	line("manifest", f.Manifest)
	for _, block := range f.Blocks {
		line("block", block)
	}
	for _, n := range f.Notes {
		line("note", n)
	}
	for _, m := range f.Missing {
		line("missing", m)
	}
	for r, problem := range f.Whole() {
		b, err = events.AppendLine(append(b, "fact "...), &r), errors.Join(err, problem)
	}
	for l, problem := range f.Output() {
		line("output", l)
		err = errors.Join(err, problem)
	}
	for _, digest := range slices.Sorted(maps.Keys(f.results)) {
		line("result", Result{Digest: digest, Body: f.results[digest]})
	}
	return b, err
}
