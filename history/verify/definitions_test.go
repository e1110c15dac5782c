package verify

import (
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
)

var defNoon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// defLog is a log of definitions and of facts that name them, an hour apart.
type defLog struct {
	records []events.Record
}

func (l *defLog) add(f events.Fact) {
	seq := uint64(len(l.records) + 1)
	at := defNoon.Add(time.Duration(seq) * time.Hour)
	f.ID, f.At, f.Type = events.NewID(at), at, events.TypeOf(f.Event)
	kind := events.KindDefinition
	switch f.Event.(type) {
	case task.Submitted:
		kind = events.KindOffer
	case task.ScheduleAdmitted, task.ScheduleSkipped:
		kind = events.KindTick
	}
	l.records = append(l.records, events.Record{Seq: seq, Stored: at, Kind: kind, Fact: f})
}

func applied(revision uint64, text string) task.Edition {
	return task.Edition{Revision: revision, Text: []byte(text), Digest: task.DigestOf([]byte(text))}
}

func (l *defLog) job(name string, revision uint64, text string) {
	l.add(events.Fact{Def: task.Named(task.DefJob, name), Event: task.DefinitionApplied{Edition: applied(revision, text)}})
}

func (l *defLog) born(id task.ID, name string, revision uint64) {
	l.add(events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Job: name, Revision: revision,
		Spec: &job.Spec{Handler: "x"}, Route: placement.QueueRoute(placement.DefaultQueue, placement.DefaultPriority)}}})
}

// findings returns in words what a log violates of causes and copies.
func (l *defLog) findings(t *testing.T, cfg Config, copies map[task.Def]task.Copied) string {
	t.Helper()
	cfg.Rules = []Rule{CauseFirst, ReadModel}
	v := New(cfg)
	for i := range l.records {
		if l.records[i].Seq < cfg.From {
			continue
		}
		if err := v.Add(&l.records[i]); err != nil {
			t.Fatal(err)
		}
	}
	for key, c := range copies {
		v.Copy(key, c)
	}
	if copies != nil {
		v.CopiesEnd()
	}
	var all []string
	for _, f := range v.Report(time.Time{}).Findings {
		all = append(all, f.What)
		if slices.Contains(f.Seqs, 0) {
			t.Errorf("%s: its evidence is %v, and no message has the sequence 0", f.What, f.Seqs)
		}
	}
	return strings.Join(all, "\n")
}

func TestRevisionsThatAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		write func(l *defLog)
		want  string // part of the findings; "" for none
	}{
		"as it should be": {func(l *defLog) {
			l.job("j", 1, `{"n":1}`)
			l.born("01JD6Z8V3M0QK4T7W2X9Y5ABCD", "j", 1)
			l.job("j", 2, `{"n":2}`)
			l.born("01JD6Z8V3M0QK4T7W2X9Y5ABCE", "j", 1) // read before the change
			l.born("01JD6Z8V3M0QK4T7W2X9Y5ABCF", "j", 2)
			l.add(events.Fact{Def: "job.j", Event: task.DefinitionRemoved{Revision: 3}})
			l.born("01JD6Z8V3M0QK4T7W2X9Y5ABCG", "j", 2)
			l.born("01JD6Z8V3M0QK4T7W2X9Y5ABCH", "", 0)
		}, ""},
		"a revision to come": {func(l *defLog) {
			l.job("j", 1, `{"n":1}`)
			l.born("01JD6Z8V3M0QK4T7W2X9Y5ABCD", "j", 2)
			l.job("j", 2, `{"n":2}`)
		}, "it names revision 2 of job j, which is not there"},
		"a removal": {func(l *defLog) {
			l.job("j", 1, `{"n":1}`)
			l.add(events.Fact{Def: "job.j", Event: task.DefinitionRemoved{Revision: 2}})
			l.born("01JD6Z8V3M0QK4T7W2X9Y5ABCD", "j", 2)
		}, "it names revision 2 of job j"},
		"a job of another name": {func(l *defLog) {
			l.job("j", 1, `{"n":1}`)
			l.born("01JD6Z8V3M0QK4T7W2X9Y5ABCD", "k", 1)
		}, "revision 1 of job k"},
		"a tick of no schedule": {func(l *defLog) {
			l.job("s", 1, `{"n":1}`)
			l.add(events.Fact{Schedule: "s", Event: task.ScheduleSkipped{Revision: 1, Tick: defNoon, Reason: task.SkipMissed}})
		}, "revision 1 of schedule s"},
		"a tick": {func(l *defLog) {
			l.add(events.Fact{Def: "schedule.s", Event: task.DefinitionApplied{Edition: applied(1, `{}`)}})
			l.add(events.Fact{Def: "schedule.s", Event: task.SchedulePaused{Edition: applied(2, `{"paused":{}}`)}})
			l.add(events.Fact{Schedule: "s", Event: task.ScheduleSkipped{Revision: 2, Tick: defNoon, Reason: task.SkipMissed}})
		}, ""},
		"a change left out": {func(l *defLog) {
			l.job("j", 1, `{"n":1}`)
			l.job("j", 3, `{"n":3}`)
		}, "a change of job j: it has revision 3 and follows 1"},
		"a changed byte": {func(l *defLog) {
			l.job("j", 1, `{"n":1}`)
			l.records[0].Fact.Event = task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: []byte(`{"n":2}`), Digest: task.DigestOf([]byte(`{"n":1}`))}}
		}, "its digest is"},
	} {
		t.Run(name, func(t *testing.T) {
			var l defLog
			c.write(&l)
			if got := l.findings(t, Config{}, nil); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
			if strings.HasPrefix(name, "a ") && c.want != "" && len(l.records) > 1 {
				// A part of a log proves nothing about earlier facts.
				if got := l.findings(t, Config{From: uint64(len(l.records))}, nil); got != "" {
					t.Errorf("in the last fact alone is found %q", got)
				}
			}
		})
	}
}

func TestCopiesAreCompared(t *testing.T) {
	ours := func(revision uint64, text string) task.Copied {
		return task.Copied{There: true, Text: []byte(text), Revision: revision}
	}
	good := map[task.Def]task.Copied{"job.a": ours(2, `{"a":2}`), "job.gone": {There: true, Revision: 2}, "schedule.a": ours(1, `{"s":1}`)}
	with := func(key task.Def, c *task.Copied) map[task.Def]task.Copied {
		all := map[task.Def]task.Copied{}
		for k, v := range good {
			all[k] = v
		}
		delete(all, key)
		if c != nil {
			all[key] = *c
		}
		return all
	}
	copied := func(c task.Copied) *task.Copied { return &c }
	for name, c := range map[string]struct {
		copies map[task.Def]task.Copied
		want   string
	}{
		"as they should be": {good, ""},
		"missing":           {with("job.a", nil), "job.a, is missing"},
		"removed":           {with("schedule.a", &task.Copied{There: true}), "schedule.a, was removed"},
		"changed":           {with("job.a", copied(ours(2, `{"a":3}`))), "job.a, differs"},
		"late for hours":    {with("job.a", copied(ours(1, `{"a":1}`))), "job.a, differs"},
		"moved on":          {with("job.a", copied(ours(3, `{"a":3}`))), ""},
		"back":              {with("job.gone", copied(ours(0, `{}`))), "job.gone, differs"},
		"nobody's":          {with("job.b", copied(ours(0, `{}`))), "job.b, is of no definition"},
		"of a lost log":     {with("job.b", copied(ours(3, `{}`))), ""},
		"no key of ours":    {with("x", copied(ours(0, `{}`))), "x, is of no definition"},
		"removed before":    {with("job.never", &task.Copied{There: true}), ""},
	} {
		var l defLog
		l.job("a", 1, `{"a":1}`)
		l.job("a", 2, `{"a":2}`)
		l.job("gone", 1, `{}`)
		l.add(events.Fact{Def: "job.gone", Event: task.DefinitionRemoved{Revision: 2}})
		l.add(events.Fact{Def: "schedule.a", Event: task.DefinitionApplied{Edition: applied(1, `{"s":1}`)}})
		l.born("01JD6Z8V3M0QK4T7W2X9Y5ABCD", "", 0)
		if got := l.findings(t, Config{}, c.copies); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
	var l defLog
	l.job("a", 1, `{"a":1}`)
	if got := l.findings(t, Config{}, map[task.Def]task.Copied{}); got != "" {
		t.Errorf("a copy that may be on its way: found %q", got)
	}
}
