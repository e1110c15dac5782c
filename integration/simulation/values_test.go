package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/events"
	"millrace/history/verify"
	"millrace/history/whatif"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// values are results, and what comes with signals: of every kind, and some that are hard to pass on.
// The last is none.
var values = []string{
	`[]`, `["one"]`, `[1,{"two":[2]},null]`, `[[[]]]`, `{}`, `{"a":1,"a":2}`, `0`, `-1.50e+01`, `12345678901234567890`,
	`""`, `"b failed (error/exit: 3); "`, "\"\xff\xfe\"", `"\ud800 \u003c\u2028"`, `true`, `null`, "{ \"spaced\" :\n1 }", nested, huge, larger, ``,
}

// Two of the larger ones do not fit into what a task is told.
var (
	nested = strings.Repeat("[", 500) + strings.Repeat("]", 500)
	huge   = `"` + strings.Repeat("<é", 10<<10) + `"`
	larger = `["` + strings.Repeat("x", 40<<10) + `"]`
)

// messages are what failures say.
var messages = []string{
	"", "no", "a failed (error/task: b failed (error/task: no))", "…", strings.Repeat("é", 200), strings.Repeat("x", 240), strings.Repeat("y: ", 100),
	" spaced\tand\r\nbroken ", "\xffbytes\xfe", "\x00unchanged", "\xffunchanged", "~1f0a", "😀😀",
}

func oneOf[T any](h *history, all []T) T { return all[h.policies.IntN(len(all))] }

// valued makes the task a graph whose steps read what others leave: as needs, as a list, and beside
// a signal. Clients meddle only with single steps, for an actor makes one call at a time.
func (h *history) valued(s *birth.Submission) {
	step := func(name string, needs ...job.StepNeed) job.Step {
		return job.Step{Name: name, Needs: needs, Spec: job.Spec{Handler: "work", Retry: job.Retry{Max: h.policies.IntN(2), On: oneOf(h, [][]string{nil, {"exit=3"}, {value.Task}})}}}
	}
	end := func(name string) job.StepNeed { return job.StepNeed{Step: name, When: job.WhenEnd} }
	list, listed, told := step("list", end("a")), step("given"), step("aa", end("a"), end("list"))
	list.Each, listed.Each = &job.Each{Result: "a"}, &job.Each{Param: "list"}
	told.Signal = &job.Signal{Name: oneOf(h, []string{"go", "a"}), Timeout: value.Duration(ackWait), OnTimeout: oneOf(h, job.SignalPolicies)}
	s.Spec = &job.Spec{Steps: []job.Step{step("a"), list, listed, told, step("b", end("a"), end("given"), end("aa"))}}
	s.Params = map[string]json.RawMessage{"list": json.RawMessage(oneOf(h, values[:4]))}
	if other := oneOf(h, values); other != "" {
		s.Params["other"] = json.RawMessage(other)
	}
}

// signal gives a task the signal that it waits for.
func (c *client) signal(id task.ID) {
	data := json.RawMessage(oneOf(c.h, values))
	c.insist(func() error {
		ctx := context.Background()
		t, err := c.rec.Load(ctx, id)
		if err != nil {
			return err
		}
		if t.Signal() == nil {
			return nil
		}
		inputs, err := t.Awaiting().Inputs(c.name, data, nil)
		if err != nil {
			panic(err) // the simulation wrote it
		}
		t, _, err = c.rec.Do(ctx, t, task.Unhold{Hold: task.HoldSignal, Reason: "a whim", Inputs: inputs})
		if errors.Is(err, task.ErrNotHeld) {
			return nil
		}
		if err != nil {
			return err
		}
		return c.rec.Settle(ctx, &t)
	})
}

// Whatever tasks leave and are told, and however they fail, each decision that read it is made again
// from the log as it was: in the live log, in an export of it, and in an import of a redacted file.
// Under their own settings no what-if finds a difference.
func TestSimulationOfValues(t *testing.T) {
	var lists, signals, unlisted atomic.Int64
	each(max(*historiesFlag/20, 1), func(seed uint64) bool {
		h := play(t, *firstFlag+seed, variant{families: true, values: true, length: longFamilies.length})
		h.report(t)
		exported := ofExport(t, h.records)
		for name, r := range map[string]*verify.Report{"the log": h.whole(t), "its export": verified(t, h, verify.Config{Settled: true}, exported)} {
			for _, f := range r.Findings {
				t.Errorf("seed %d of values, %s: %v: task %s, %v: %s", seed, name, f.Rule, f.Task, f.Seqs, f.What)
			}
		}
		h.importedVerifies(t)
		j := whatif.New(whatif.Config{Settings: bounds, Margin: margin})
		for i := range exported {
			if err := j.Add(&exported[i]); err != nil {
				t.Fatal(err)
			}
		}
		if r := j.Report(); len(r.Mistakes) > 0 || len(r.Changes) > 0 {
			t.Errorf("seed %d of values: what-if finds %+v %+v", seed, r.Mistakes, r.Changes)
		}
		for i := range h.records {
			switch e := h.records[i].Fact.Event.(type) {
			case task.Expanded:
				lists.Add(1)
			case task.Unheld:
				if e.Hold == task.HoldSignal {
					signals.Add(1)
				}
			case task.GivenUp:
				if strings.Contains(e.Detail, "is not a list") {
					unlisted.Add(1)
				}
			}
		}
		return !t.Failed()
	})
	t.Logf("%d lists and graphs, %d results that are no lists, %d signals", lists.Load(), unlisted.Load(), signals.Load())
	if *historiesFlag >= many && (lists.Load() == 0 || unlisted.Load() == 0 || signals.Load() == 0) {
		t.Error("one of these never happened")
	}
}

// ofExport returns records as a reader of their export has them.
func ofExport(t *testing.T, records []events.Record) (read []events.Record) {
	t.Helper()
	var text bytes.Buffer
	w, err := events.NewExportWriter(&text, events.ExportHeader{})
	for i := 0; err == nil && i < len(records); i++ {
		err = w.Write(&records[i])
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		t.Fatal(err)
	}
	log, err := events.NewExportReader(&text)
	for err == nil {
		var r events.Record
		if r, err = log.Next(); err == nil {
			read = append(read, r)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(fmt.Errorf("read what was exported: %w", err))
	}
	return read
}
