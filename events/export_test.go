package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func readExport(text []byte) ([]Record, error) {
	r, err := NewExportReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var all []Record
	for {
		record, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		}
		all = append(all, record)
	}
}

func writeExport(t testing.TB, records []Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewExportWriter(&b, ExportHeader{From: 1})
	for i := range records {
		err = errors.Join(err, w.Write(&records[i]))
	}
	if err := errors.Join(err, w.Flush()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// exported are records of all kinds, and messages that are not facts.
func exported(t testing.TB) []Record {
	t.Helper()
	var records []Record
	add := func(kind Kind, raw []byte, about Fact, problem error) {
		r := Record{Seq: uint64(len(records)*2 + 1), Stored: time.Unix(int64(len(records)), 5).UTC(), Kind: kind, Place: "mr.x", Raw: raw, Fact: about, Err: problem}
		records = append(records, r)
	}
	for _, raw := range corpusFacts(t) {
		f, err := Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		kind := KindChain
		if f.Node != "" {
			kind = KindNode
		}
		add(kind, raw, f, nil)
		add(kind, bytes.TrimSpace(raw), f, nil)
	}
	about := Fact{Task: "01JNAT00000000000000000001"}
	for _, raw := range [][]byte{{}, []byte("garbage"), {0xff, '\n', 0}, []byte(`{"type":`), []byte("[]"), []byte("{}"), bytes.Repeat([]byte("x"), 200_000)} {
		_, err := Decode(raw)
		add(KindOffer, raw, about, err)
	}
	add(KindHold, records[0].Raw, about, errors.New("it lies in the \"wrong\" place"))
	add(KindOther, []byte(`{"any":"timer"}`), Fact{}, nil)
	return records
}

// An exported record reads back equal, to the byte.
func TestExport(t *testing.T) {
	want := exported(t)
	got, err := readExport(writeExport(t, want))
	if err != nil || len(got) != len(want) {
		t.Fatalf("read %d of %d records: %v", len(got), len(want), err)
	}
	for i := range want {
		g, w := got[i], want[i]
		if (g.Err == nil) != (w.Err == nil) || g.Err != nil && g.Err.Error() != w.Err.Error() {
			t.Errorf("sequence %d: the error is %v, want %v", w.Seq, g.Err, w.Err)
		}
		g.Err, w.Err = nil, nil
		if len(w.Raw) == 0 {
			g.Raw, w.Raw = nil, nil
		}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("it was\n%+v\nand is read as\n%+v", w, g)
		}
	}
}

func TestExportReaderRefuses(t *testing.T) {
	const good = `{"seq":3,"kind":"other","subject":"x","body":{}}` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"garbage":          {good + "\n\ngarbage\n", "line 4 of the export: it is no line of an export"},
		"garbage at first": {"garbage\n", "line 1"},
		"a cut line":       {good + good[:20], "line 2"},
		"another order":    {good + good, "line 2 of the export: sequence 3 comes after 3"},
		"no sequence":      {`{"kind":"other"}`, "seq or kind is missing"},
		"no kind":          {`{"seq":1}`, "seq or kind is missing"},
		"another kind":     {`{"seq":1,"kind":"smoke"}`, `the kind is "smoke", want one of`},
		"a later version":  {`{"export":2}`, "use a newer millrace"},
		"version zero":     {`{"export":0}`, "version 0"},
		"another header":   {`{"export":1,"from":-1}`, "line 1"},
		"a bad time":       {`{"seq":1,"kind":"chain","stored":"noon"}`, "line 1"},
		"bad bytes":        {`{"seq":1,"kind":"chain","bytes":"*"}`, "line 1"},
		"what tail prints": {`{"seq":1,"stored":"2026-03-01T12:00:00Z","subject":"mr.task.x","fact":{}}`, "`millrace events export` writes them"},
	} {
		_, err := readExport([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, c.want)
		}
	}
	for _, text := range []string{"", "\n\n", `{"export":1}`, good, "\n" + good} {
		if _, err := readExport([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What is wrong with a line is said in plain words.
func TestExportReaderSpeaksPlainly(t *testing.T) {
	const line = `{"seq":3,"stored":"2026-03-01T12:00:00Z","kind":"chain","subject":"mr.task.x","body":{"type":"attempt.started","v":1,"at":"2026-03-01T12:00:00Z","task":"x","attempt":1,"offer":2,"by":{"ends":[7]}}}`
	for _, was := range []string{`3`, `"2026-03-01T12:00:00Z"`, `"chain"`, `"mr.task.x"`, `"attempt.started"`, `1`, `"x"`, `2,`, `7`} {
		for _, is := range []string{`"-5s"`, `-1`, `1e40`, `99999999999999999999`, `true`, `null`, `{}`, `[[]]`, `"2026-13-45T99:00:00Z"`, `1.5`} {
			if strings.HasSuffix(was, ",") {
				is += ","
			}
			records, err := readExport([]byte(strings.Replace(line, ":"+was, ":"+is, 1)))
			for _, r := range records {
				err = errors.Join(err, r.Err)
			}
			for _, word := range []string{"strconv", "json: ", "parsing", "cannot unmarshal", "Go ", "time.", "int64"} {
				if err != nil && strings.Contains(err.Error(), word) {
					t.Errorf("%s in place of %s: %v", is, was, err)
				}
			}
		}
	}
}

// A file is either refused, or gives records that can be written and read back equal.
func FuzzExportReader(f *testing.F) {
	f.Add(writeExport(f, exported(f)[:6]))
	f.Add([]byte(`{"seq":1,"kind":"chain","task":"x","error":"no","bytes":"AA=="}` + "\n" + `{"seq":2,"kind":"node","body":{}}`))
	f.Add([]byte("\n{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, err := readExport(text)
		if err != nil {
			return
		}
		second, err := readExport(writeExport(t, first))
		if err != nil || len(second) != len(first) {
			t.Fatalf("read %d records, and after writing them %d: %v", len(first), len(second), err)
		}
		for i := range first {
			a, b := &first[i], &second[i]
			if a.Seq != b.Seq || a.Kind != b.Kind || !bytes.Equal(a.Raw, b.Raw) || (a.Err == nil) != (b.Err == nil) || a.Fact.ID != b.Fact.ID {
				t.Fatalf("it was\n%+v\nand is read as\n%+v", a, b)
			}
		}
	})
}

// An invalid line can be skipped. An unreadable file ends the reading.
func TestExportReaderSkips(t *testing.T) {
	line := func(seq int) string {
		return fmt.Sprintf(`{"seq":%d,"kind":"other","subject":"x","body":{}}`+"\n", seq)
	}
	r, err := NewExportReader(strings.NewReader("garbage\n" + line(3) + line(2) + line(5) + line(6)[:20]))
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	left := 0
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			seqs = append(seqs, record.Seq)
		} else if left++; !r.Skip() {
			t.Fatal(err)
		}
	}
	if !slices.Equal(seqs, []uint64{3, 5}) || left != 3 || r.Skip() {
		t.Errorf("read %v, and left out %d lines", seqs, left)
	}
}
