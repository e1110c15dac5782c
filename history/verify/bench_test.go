package verify_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
)

// lives makes the records of tasks that run to their ends, three for each.
func lives(b *testing.B, n int) []events.Record {
	b.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	spec := &job.Spec{Handler: "work"}
	records := make([]events.Record, 0, 1+3*n)
	add := func(kind events.Kind, place string, f events.Fact) {
		seq := uint64(len(records) + 1)
		f.ID, f.At, f.Type = fmt.Sprintf("01JNAF%020d", seq), at, events.TypeOf(f.Event)
		raw, err := events.Encode(nil, &f)
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, events.Record{Seq: seq, Stored: at, Kind: kind, Place: place, Fact: f, Raw: raw})
	}
	add(events.KindNode, "mr.node.a", events.Fact{Node: "a", Event: node.Registered{Session: "a1", Profile: node.Profile{Slots: 1, Queues: []string{"default"}}}})
	for i := range n {
		id := task.ID(fmt.Sprintf("01JNAT%020d", i))
		place, offer := "mr.task."+string(id), uint64(len(records)+1)
		add(events.KindOffer, place, events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Spec: spec, Route: "default.5"}}})
		add(events.KindChain, place, events.Fact{Task: id, Event: task.AttemptStarted{Attempt: 1, Node: "a", Session: "a1", Offer: offer}})
		add(events.KindChain, place, events.Fact{Task: id, Event: task.AttemptFinished{Attempt: 1, Epoch: offer + 1}})
	}
	return records
}

// BenchmarkAdd verifies 300,000 facts of 100,000 tasks, and reports the memory that remains in use.
func BenchmarkAdd(b *testing.B) {
	records := lives(b, 100_000)
	for b.Loop() {
		before := inUse()
		v := verify.New(verify.Config{})
		begun := time.Now()
		for i := range records {
			if err := v.Add(&records[i]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(time.Since(begun).Seconds()/float64(len(records))*1e9, "ns/fact")
		b.ReportMetric(float64(inUse()-before)/100_000, "B/task")
		if r := v.Report(time.Time{}); r.Violations > 0 {
			b.Fatalf("%+v", r.Findings)
		}
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkExport reads the same from an export.
func BenchmarkExport(b *testing.B) {
	records := lives(b, 100_000)
	var file bytes.Buffer
	w, err := events.NewExportWriter(&file, events.ExportHeader{From: 1})
	if err != nil {
		b.Fatal(err)
	}
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		begun := time.Now()
		r, err := events.NewExportReader(bytes.NewReader(file.Bytes()))
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for ; ; n++ {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(time.Since(begun).Seconds()/float64(n)*1e9, "ns/fact")
	}
}

// BenchmarkBacklog reports the memory for 100,000 waiting tasks.
func BenchmarkBacklog(b *testing.B) {
	records := lives(b, 100_000)
	for b.Loop() {
		before := inUse()
		v := verify.New(verify.Config{})
		for i := 1; i < len(records); i += 3 {
			if err := v.Add(&records[i]); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(inUse()-before)/100_000, "B/task")
		runtime.KeepAlive(v)
	}
}

// BenchmarkLimited verifies the admissions of 100,000 tasks that all wait for one limit, and
// reports the memory for a waiting task.
func BenchmarkLimited(b *testing.B) {
	const n = 100_000
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var records []events.Record
	add := func(kind events.Kind, f events.Fact) {
		f.At, f.Type = noon, events.TypeOf(f.Event)
		records = append(records, events.Record{Seq: uint64(len(records) + 1), Stored: noon, Kind: kind, Fact: f})
	}
	id := func(i int) task.ID { return task.ID(fmt.Sprintf("01JNAT%020d", i)) }
	spec := &job.Spec{Handler: "h", Concurrency: limit.Concurrencies{{Max: 1}}}
	for i := range n {
		add(events.KindHold, events.Fact{Task: id(i), Event: task.Submitted{Work: task.Work{Job: "j", Spec: spec, Route: "default.5", Holds: []string{task.HoldLimit}}}})
	}
	for i := range n {
		add(events.KindLimit, events.Fact{Scope: "job.j", By: &task.By{Seen: uint64(len(records))}, Event: task.Granted{Grants: []task.Grant{{Task: id(i), Limits: []string{"job:j"}}}}})
		add(events.KindChain, events.Fact{Task: id(i), Event: task.CancelConfirmed{}})
	}
	for b.Loop() {
		before := inUse()
		v := verify.New(verify.Config{Rules: []verify.Rule{verify.Decisions}})
		begun := time.Now()
		for i := range records {
			if i == n+n/10 {
				b.ReportMetric(float64(inUse()-before)/n, "B/task")
			}
			if err := v.Add(&records[i]); err != nil {
				b.Fatal(err)
			}
		}
		if r := v.Report(time.Time{}); r.Violations > 0 {
			b.Fatalf("%+v", r.Findings)
		}
		b.ReportMetric(time.Since(begun).Seconds()/float64(len(records))*1e9, "ns/fact")
	}
}
