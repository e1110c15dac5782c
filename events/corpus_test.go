package events

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"millrace/internal/testkit"
)

// logCorpus holds exports of whole logs: of a session at the command line (session), and of
// simulated histories (limited, troubled). exportCorpus holds one fact of each type, and unreadable
// messages. The tests of the read model and of verify hold the expected results for all these logs.
const (
	logCorpus    = "testdata/corpus/log"
	exportCorpus = "testdata/corpus/export"
)

// again reads and rewrites an export.
func again(written []byte) ([]byte, error) {
	r, err := NewExportReader(bytes.NewReader(written))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w, err := NewExportWriter(&b, r.Header())
	for err == nil {
		var record Record
		if record, err = r.Next(); err == nil {
			err = w.Write(&record)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	err = w.Flush()
	return b.Bytes(), err
}

// nextExport is an export as a later version may write it.
func nextExport(written []byte, version int) []byte {
	return bytes.Replace(written, fmt.Appendf(nil, `{"export":%d`, ExportVersion), fmt.Appendf(nil, `{"export":%d`, version), 1)
}

// Exported logs of earlier versions can be read, and rewritten unchanged.
func TestLogCorpus(t *testing.T) {
	testkit.Test(t, testkit.Form{Dir: logCorpus, Version: ExportVersion, Again: again, Unknown: testkit.Dropped, Next: nextExport})
	testkit.Test(t, testkit.Form{Dir: exportCorpus, Version: ExportVersion, Again: again, Unknown: testkit.Dropped, Next: nextExport,
		Today: map[string][]byte{"types.jsonl": sampleLog(t)}})
}

// sampleLog has each golden fact once, one of a future type, and an unreadable message.
func sampleLog(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewExportWriter(&b, ExportHeader{From: 1, To: 10_000, Import: Import{Hidden: 20, Lacks: 10}})
	if err != nil {
		t.Fatal(err)
	}
	r := Record{Stored: noon, Kind: KindChain, Place: "mr.x"}
	write := func(raw []byte, err error) {
		r.Seq, r.Stored, r.Raw, r.Err = r.Seq+1, r.Stored.Add(time.Second), raw, err
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	facts := golden()
	for _, typ := range Types {
		for _, name := range []string{string(typ) + ".min", string(typ)} {
			f := facts[name]
			f.ID = fmt.Sprintf("01JNA0FACT%016d", r.Seq+1)
			raw, err := Encode(nil, &f)
			if err != nil {
				t.Fatal(err)
			}
			r.Kind = kindOfFact(&f)
			write(raw, nil)
		}
	}
	r.Kind = KindChain
	write([]byte(`{"type":"task.teleported","v":1,"id":"01JNA0FACTNEW0000000000000","at":"2026-03-01T12:00:00Z","task":"01JNA0TASK0000000000000000","to":{"planet":"Mars"}}`), nil)
	for _, raw := range []string{"garbage", `{"type":"task.reopened","v":2,"id":"01JNA0FACTNEW0000000000001","at":"2026-03-01T12:00:00Z","task":"01JNA0TASK0000000000000000"}`} {
		_, err := Decode([]byte(raw))
		r.Fact = Fact{Task: sampleTask}
		write([]byte(raw), err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// kindOfFact returns the part of the log in which a fact lies.
func kindOfFact(f *Fact) Kind {
	switch f.Type {
	case TaskSubmitted, TaskQueued, TaskDue:
		return KindOffer
	case ScheduleFired:
		return KindFire
	}
	_, kind := chainOf(f)
	return kind
}

// A fact of an unknown type is skipped, and exported unchanged. A fact of a later version is not
// read as a fact, and is exported unchanged, too.
func TestExportKeepsWhatIsToCome(t *testing.T) {
	records, err := readExport(sampleLog(t))
	if err != nil {
		t.Fatal(err)
	}
	n := len(records)
	unknown, later := &records[n-3], &records[n-1]
	if unknown.Err != nil || unknown.Fact.Event != nil || unknown.Fact.Type != "task.teleported" || unknown.Fact.Task != sampleTask {
		t.Errorf("a fact of a type to come is read as %+v", unknown)
	}
	if !errors.Is(later.Err, ErrLater) || later.Fact.Event != nil || later.Fact.Task != sampleTask {
		t.Errorf("a fact of a later version is read as %+v", later)
	}
}

// Real logs of the corpus contain most types of facts, and together with the samples all.
func TestLogCorpusHasAllTypes(t *testing.T) {
	seen := map[Type]int{}
	files, err := filepath.Glob("testdata/corpus/*/v*/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		records, err := readExport(text)
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			seen[records[i].Fact.Type]++
		}
	}
	for _, typ := range Types {
		if seen[typ] == 0 {
			t.Errorf("no log of the corpus has a fact of type %s", typ)
		}
	}
	if facts := seen[TaskSubmitted]; facts < 50 || !slices.Contains(files, logCorpus+"/v1/session.jsonl") {
		t.Errorf("the logs of the corpus have %d births", facts)
	}
}
