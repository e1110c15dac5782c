package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/output"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func known(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../examples/incidents/reconnected-old.mri")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The shelf keeps few files and drops unused ones; a user who opens many loses the one looked at
// longest ago.
func TestShelf(t *testing.T) {
	t.Parallel()
	data := known(t)
	var s Shelf
	open := func(by string, at time.Duration) string {
		t.Helper()
		f, err := s.Open("f", by, data, noon.Add(at))
		if err != nil {
			t.Fatal(err)
		}
		return f.Name
	}
	there := func(name string, at time.Duration, want bool) {
		t.Helper()
		if _, err := s.Find(name, noon.Add(at)); (err == nil) != want || err != nil && !errors.Is(err, ErrGone) {
			t.Errorf("after %v it is there: %v, want %v", at, err, want)
		}
	}
	first, second := open("ada", 0), open("ada", 1)
	open("ada", 2)
	there(first, 3, true)
	open("ada", 4)
	there(first, 5, true)
	there(second, 5, false)
	for _, by := range []string{"kim", "kim", "kim", "lea", "lea"} {
		open(by, 6)
	}
	if _, err := s.Open("f", "lea", data, noon.Add(7)); !errors.Is(err, ErrFull) {
		t.Errorf("one too many is answered with %v", err)
	}
	if n := len(s.Files(noon.Add(8))); n != Most {
		t.Errorf("%d are open, want %d", n, Most)
	}
	s.Close(first)
	there(first, 9, false)
	s.Drop(noon.Add(Keep + time.Minute))
	if n := len(s.Files(noon)); n != 0 {
		t.Errorf("%d are open long after", n)
	}
	if _, err := s.Open("f", "ada", data[:10], noon); err == nil {
		t.Error("what is no incident file is opened")
	}
}

// A file tells of each moment of its span, and of no other.
func TestAt(t *testing.T) {
	t.Parallel()
	f, err := read(known(t), incident.MaxUnpacked)
	if err != nil {
		t.Fatal(err)
	}
	const id = task.ID("01KJN7E0Z06P8RXA7D3Q5VWT2C")
	for seq, want := range map[uint64]task.State{1048188: task.Pending, 1048189: task.Running, 0: task.Cancelling} {
		world, p, err := f.At(t.Context(), view.Moment{Seq: seq})
		if err != nil {
			t.Fatal(err)
		}
		k, err := view.GetTask(t.Context(), world, id)
		if err != nil || k.State != want || seq > 0 && p.Seq != seq {
			t.Errorf("at #%d it is %v at #%d, %v; want %v", seq, k.State, p.Seq, err, want)
		}
		list, err := world.List(t.Context(), view.Query{Kind: view.Tasks, Filter: view.Filter{States: []task.State{want}}})
		if err != nil || len(list.Tasks) == 0 {
			t.Errorf("at #%d the list has %d tasks, %v", seq, len(list.Tasks), err)
		}
	}
	for _, m := range []view.Moment{{Seq: 5}, {Seq: 9_999_999}, {At: noon.AddDate(-1, 0, 0)}} {
		if _, _, err := f.At(t.Context(), m); !errors.Is(err, view.ErrQuery) {
			t.Errorf("%v is answered with %v", m, err)
		}
	}
	if len(f.folded) > maxFolded {
		t.Errorf("%d moments stay folded", len(f.folded))
	}
}

// The output of a task is numbered across all attempts, also when lines came twice or out of order;
// lines from after the moment are absent.
func TestPrintout(t *testing.T) {
	t.Parallel()
	batch := func(attempt int, epoch uint64, n int, texts ...string) incident.Lines {
		b := output.Lines{Attempt: attempt, Epoch: epoch}
		for i, text := range texts {
			b.Lines = append(b.Lines, output.Line{N: n + i, At: noon.Add(time.Duration(attempt) * time.Minute), Stream: output.Stdout, Text: text})
		}
		body, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return incident.Lines{Body: body}
	}
	f := &File{printed: map[task.ID][]incident.Lines{"t": {
		batch(2, 9, 1, "again", "done"), batch(1, 5, 1, "one", "two"), batch(1, 5, 2, "two", "Three"), {Body: []byte("torn")},
	}}}
	texts := func(lines []client.NumberedLine) (all []string) {
		for _, l := range lines {
			all = append(all, fmt.Sprint(l.Number, " ", l.Text))
		}
		return all
	}
	for until, want := range map[time.Time]int{{}: 5, noon.Add(time.Minute): 3, noon: 0} {
		if p, err := f.Printout(t.Context(), "t", until); err != nil || p.Lines != want {
			t.Errorf("until %v it has %d lines, %v; want %d", until, p.Lines, err, want)
		}
	}
	p, err := f.Printout(t.Context(), "t", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, most int
		want       []string
	}{
		{2, 3, []string{"2 two", "3 Three", "4 again"}}, {0, 1, []string{"1 one"}}, {5, 9, []string{"5 done"}}, {6, 9, nil}, {99, 1, nil},
	} {
		if _, lines, err := p.Window(t.Context(), c.from, c.most); err != nil || !slices.Equal(texts(lines), c.want) {
			t.Errorf("from %d on it has %q, %v; want %q", c.from, texts(lines), err, c.want)
		}
	}
	for _, c := range []struct {
		from, most int
		back       bool
		text       string
		want       []string
		reached    int
	}{
		{1, 9, false, "o", []string{"1 one", "2 two", "5 done"}, 5}, {1, 1, false, "THREE", []string{"3 Three"}, 3}, {4, 1, true, "t", []string{"3 Three"}, 3},
		{1, 1, true, "x", nil, 1}, {6, 1, false, "o", nil, 5},
	} {
		hits, reached, err := p.Search(t.Context(), c.from, c.most, c.back, output.Match{Text: c.text})
		if err != nil || !slices.Equal(texts(hits), c.want) || reached != c.reached {
			t.Errorf("%+v finds %q up to %d, %v", c, texts(hits), reached, err)
		}
	}
}

// Steps begin anew wherever they are asked for, so that an address is enough; only moves are done.
func TestStep(t *testing.T) {
	t.Parallel()
	f, err := read(known(t), incident.MaxUnpacked)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		w     Where
		seq   uint64
		wrong bool
	}{
		"there":              {Where{At: 1048189}, 1048189, false},
		"two forward":        {Where{At: 1048187, Do: []string{"s", "s"}}, 1048189, false},
		"back":               {Where{At: 1048189, Do: []string{"S"}}, 1048188, false},
		"no place":           {Where{At: 7}, 0, false},
		"of a task":          {Where{At: 1048188, Of: "task 01KJN7E0Z06P8RXA7D3Q5VWT2C", Do: []string{"n"}}, 1048189, false},
		"of none":            {Where{At: 1048188, Of: "task x"}, 1048188, true},
		"a breakpoint":       {Where{At: 1048186, Breaks: []string{" ", "state cancelling"}, Do: []string{"c"}}, 1048194, false},
		"the same, from far": {Where{At: 1048192, Breaks: []string{"state cancelling"}, Do: []string{"c"}}, 1048194, false},
		"no breakpoint":      {Where{At: 1048188, Do: []string{"c"}}, 1048188, true},
		"no move":            {Where{At: 1048188, Do: []string{"m x"}}, 1048188, true},
		"too many":           {Where{At: 1048188, Breaks: []string{"late", "late", "late", "late", "late", "late", "late", "late", "late"}}, 1048188, true},
	} {
		seen, err := f.Step(t.Context(), c.w, view.Rules{Task: duties.Settings{StartDeadline: time.Hour, AckWait: time.Minute}}, time.Minute)
		if err != nil || seen.Seq != c.seq || (seen.Wrong != "") != c.wrong {
			t.Errorf("%s: it stands at #%d, wrong is %q, %v; want #%d", what, seen.Seq, seen.Wrong, err, c.seq)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := f.Step(ended, Where{At: 1048188, Breaks: []string{"late"}}, view.Rules{}, 0); err == nil {
		t.Error("who is gone is answered")
	}
}

// What a file takes, with all moments that may be folded and somebody who steps through it, is about what is
// said of it, whatever its facts are.
func TestMemoryOfAFile(t *testing.T) {
	first, err := read(known(t), mostMemoryOfOne)
	if err != nil {
		t.Fatal(err)
	}
	birth := first.records[slices.IndexFunc(first.records, func(r events.Record) bool { return r.Fact.Type == "task.submitted" })]
	const n = 5000
	write := func(fact func(i int) events.Record) []byte {
		t.Helper()
		var b bytes.Buffer
		w, err := incident.NewWriter(&b, incident.Manifest{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			r := fact(i)
			r.Seq, r.Stored = uint64(i+1), noon.Add(time.Duration(i)*time.Millisecond) // small
			if err := w.Fact(&r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(func(*incident.Manifest) {}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc) // as much as there is memory
	}
	for name, fact := range map[string]func(i int) events.Record{
		"tiny":     func(int) events.Record { return events.Record{Place: "x", Raw: []byte("{}")} },
		"one task": func(int) events.Record { return birth },
		"own tasks": func(i int) events.Record {
			r, id := birth, fmt.Sprintf("01KJN7E0Z06P8RXA%010d", i)
			r.Raw = bytes.ReplaceAll(r.Raw, []byte(birth.Fact.Task), []byte(id))
			r.Place = "mr.queue.@b.5." + id
			return r
		},
	} {
		data := write(fact)
		before := heap()
		f, err := read(data, mostMemoryOfOne)
		if err != nil {
			t.Fatal(name, err)
		}
		for i := range maxFolded {
			if _, _, err := f.At(t.Context(), view.Moment{Seq: uint64(n - i)}); err != nil { // positive
				t.Fatal(name, err)
			}
		}
		if _, err := f.Step(t.Context(), Where{At: n / 2, Do: []string{"s"}}, view.Rules{Task: duties.Settings{StartDeadline: time.Hour, AckWait: time.Minute}}, time.Minute); err != nil {
			t.Fatal(name, err)
		}
		if took := heap() - before; took > 3*f.takes/2 || took < f.takes/3 {
			t.Errorf("%s: it takes %d KiB, and %d are counted", name, took>>10, f.takes>>10)
		}
		runtime.KeepAlive(f)
	}
}

// Open files are bounded by what they hold in memory: a caller's own make room for a further one, those of others
// do not.
func TestShelfIsBoundedByMemory(t *testing.T) {
	t.Parallel()
	data := known(t)
	one, err := read(data, mostMemoryOfOne)
	if err != nil {
		t.Fatal(err)
	}
	s := Shelf{mostOfOne: 2 * one.takes, most: 3*one.takes + 1}
	open := func(by string) error {
		_, err := s.Open("f", by, data, noon)
		return err
	}
	for _, by := range []string{"ada", "ada", "ada", "kim"} {
		if err := open(by); err != nil {
			t.Fatal(by, err)
		}
	}
	if n := len(s.Files(noon)); n != 3 {
		t.Errorf("%d files are open, want 2 of ada and 1 of kim", n)
	}
	if err := open("lea"); !errors.Is(err, ErrFull) {
		t.Errorf("one beyond the memory of all is answered with %v", err)
	}
	if err := open("ada"); err != nil { // in the place of one of her own
		t.Error(err)
	}
	if s.mostOfOne = one.takes - 1; !errors.Is(open("ada"), incident.ErrLarge) {
		t.Error("one beyond the memory of a caller is opened")
	}
}

// Short batches of output count as what they take, not as what they are in the file.
func TestMemoryOfOutput(t *testing.T) {
	const batches = 100_000
	var b bytes.Buffer
	w, err := incident.NewWriter(&b, incident.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Fact(&events.Record{Seq: 1, Kind: events.KindOther, Place: "mr.x", Raw: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	for i := range batches {
		if err := w.Output(&incident.Lines{Seq: uint64(i) + 1, Body: []byte("0")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := read(b.Bytes(), batches*ofLine); !errors.Is(err, incident.ErrLarge) {
		t.Errorf("within %d MiB: %v", batches*ofLine>>20, err)
	}
	if _, err := read(b.Bytes(), 2*batches*ofLine); err != nil {
		t.Error(err)
	}
}
