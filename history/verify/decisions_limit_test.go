package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/value"
)

// The verifier finds an admission beyond its limits, and one that misstates them.
func TestDecisionsOnLimits(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return noon.Add(d) }
	const rate, slots = "rate:j", "job:j"
	ids := []task.ID{"01JNAT00000000000000000001", "01JNAT00000000000000000002", "01JNAT00000000000000000003"}
	grants := func(which ...int) (all []task.Grant) {
		for _, n := range which {
			all = append(all, task.Grant{Task: ids[n-1], Limits: []string{slots, rate}})
		}
		return all
	}
	left := func(at time.Time) map[string]time.Time { return map[string]time.Time{rate: at} }
	type said struct {
		at   time.Duration
		of   task.ID // "" for an admission
		what any
	}
	failed := func(again time.Duration) task.AttemptFailed {
		return task.AttemptFailed{Attempt: 1, Epoch: 5, Class: value.Task, RetryAfter: value.Duration(again)}
	}
	ran := []said{{0, "", task.Granted{Grants: grants(1), Rates: left(after(time.Second))}}, {0, ids[0], task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 1}}}
	// Three tasks of a job wait. Two may run, and one may start each second.
	for name, c := range map[string]struct {
		log   []said
		wrong string // of the last admission
	}{
		"one by one":                 {[]said{{0, "", task.Granted{Grants: grants(1), Rates: left(after(time.Second))}}, {time.Second, "", task.Granted{Grants: grants(2), Rates: left(after(2 * time.Second))}}}, ""},
		"two at once":                {[]said{{0, "", task.Granted{Grants: grants(1, 2), Rates: left(after(2 * time.Second))}}}, "2 are admitted by rate:j"},
		"too early":                  {[]said{{0, "", task.Granted{Grants: grants(1), Rates: left(after(time.Second))}}, {999 * time.Millisecond, "", task.Granted{Grants: grants(2), Rates: left(after(2 * time.Second))}}}, "and it opens at 2026-03-01T12:00:01Z"},
		"too little is left":         {[]said{{0, "", task.Granted{Grants: grants(1), Rates: left(after(2 * time.Second))}}}, "should be until 2026-03-01T12:00:01Z"},
		"too much is left":           {[]said{{0, "", task.Granted{Grants: grants(1), Rates: left(noon)}}}, "should be until 2026-03-01T12:00:01Z"},
		"nothing is said of that":    {[]said{{0, "", task.Granted{Grants: grants(1)}}}, "does not say what is left"},
		"more is taken from nothing": {[]said{{0, "", task.Granted{Rates: left(after(time.Minute))}}}, "is used up until"},
		"more than may run": {[]said{{0, "", task.Granted{Grants: grants(1), Rates: left(after(time.Second))}}, {time.Second, "", task.Granted{Grants: grants(2), Rates: left(after(2 * time.Second))}},
			{2 * time.Second, "", task.Granted{Grants: grants(3), Rates: left(after(3 * time.Second))}}}, "by all that was known at 5, no more than 0 are admitted"},
		"one has ended meanwhile": {[]said{{0, "", task.Granted{Grants: grants(1), Rates: left(after(time.Second))}}, {time.Second, "", task.Granted{Grants: grants(2), Rates: left(after(2 * time.Second))}},
			{2 * time.Second, ids[0], task.CancelConfirmed{}}, {2 * time.Second, "", task.Granted{Grants: grants(3), Rates: left(after(3 * time.Second))}}}, ""},
		"other limits":    {[]said{{0, "", task.Granted{Grants: []task.Grant{{Task: ids[0], Limits: []string{slots}}}}}}, "the task stands under rate:j"},
		"a rate of none":  {[]said{{0, "", task.Granted{Grants: []task.Grant{{Task: ids[0], Limits: []string{slots, rate, "rate:queue:q#7"}, Rated: 7}}, Rates: left(after(time.Second))}}}, "no event at 7 has set that"},
		"a later turn":    {[]said{{0, "", task.Granted{Grants: []task.Grant{{Task: ids[0], Turn: 7, Limits: []string{slots, rate}}}}}}, "no turn of the task had begun at 7"},
		"nobody":          {[]said{{0, "", task.Granted{Grants: []task.Grant{{Task: "01JNAT00000000000000000009", Limits: []string{slots}}}}}}, "no such task"},
		"a pause":         {append(ran, said{time.Second, ids[0], failed(time.Minute)}, said{2 * time.Second, "", task.Granted{Rates: left(after(61 * time.Second))}}), ""},
		"another pause":   {append(ran, said{time.Second, ids[0], failed(time.Minute)}, said{2 * time.Second, "", task.Granted{Rates: left(after(62 * time.Second))}}), "is used up until"},
		"another chain":   {[]said{{0, "", task.Granted{Rates: map[string]time.Time{"rate:other": after(time.Second)}}}}, "which another chain counts"},
		"not known yet":   {append(ran, said{time.Second, ids[0], failed(time.Minute)}, said{2 * time.Second, "", task.Granted{Grants: grants(2), Rates: left(after(3 * time.Second))}}), ""},
		"after the pause": {append(ran, said{time.Second, ids[0], failed(time.Minute)}, said{61 * time.Second, "", task.Granted{Grants: grants(2), Rates: left(after(62 * time.Second))}}), ""},
		"during the pause": {append(ran, said{time.Second, ids[0], failed(time.Minute)}, said{2 * time.Second, "", task.Granted{Rates: left(after(61 * time.Second))}},
			said{60 * time.Second, "", task.Granted{Grants: grants(2), Rates: left(after(62 * time.Second))}}), "and it opens at 2026-03-01T12:01:01Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log []events.Record
			add := func(kind events.Kind, at time.Time, f events.Fact) {
				f.At, f.Type, f.ID = at, events.TypeOf(f.Event), events.NewID(at)
				log = append(log, events.Record{Seq: uint64(len(log) + 1), Stored: at, Kind: kind, Fact: f})
			}
			for _, id := range ids {
				spec := &job.Spec{Handler: "h", Concurrency: limit.Concurrencies{{Max: 2}}, Rate: limit.Rates{{Limit: 1}}}
				add(events.KindHold, noon, events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Job: "j", Spec: spec, Route: "default.5", Holds: []string{task.HoldLimit}}}})
			}
			for _, s := range c.log {
				f := events.Fact{Task: s.of}
				if s.of == "" {
					f.Scope, f.Event, f.By = "job.j", s.what.(task.Granted), &task.By{Seen: uint64(len(log))}
					add(events.KindLimit, noon.Add(s.at), f)
					continue
				}
				f.Event = s.what.(task.Event)
				add(events.KindChain, noon.Add(s.at), f)
			}
			found := verify.Decided(log)
			switch {
			case c.wrong == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case c.wrong != "" && (len(found) != 1 || !strings.Contains(found[0].What, c.wrong) || found[0].Seqs[len(found[0].Seqs)-1] != uint64(len(log))):
				t.Errorf("found %+v, want one with %q", found, c.wrong)
			}
		})
	}
}

// The verifier finds an admission out of order in its line, and a refusal although the limit had a
// place.
func TestDecisionsOnWhoGoes(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const a, b, c, d = task.ID("01JNAT00000000000000000001"), task.ID("01JNAT00000000000000000002"), task.ID("01JNAT00000000000000000003"), task.ID("01JNAT00000000000000000004")
	birth := func(max, priority int, due time.Time) task.Submitted {
		spec := &job.Spec{Handler: "h", Concurrency: limit.Concurrencies{{Max: max, OnLimit: limit.Skip}}}
		return task.Submitted{Work: task.Work{Job: "j", Spec: spec, Route: placement.QueueRoute("default", priority), Holds: []string{task.HoldLimit}}, Due: due}
	}
	held := birth(2, 5, time.Time{})
	type said struct {
		of   task.ID // "" for an admission
		what any
		seen uint64
	}
	admits := func(seen uint64, ids ...task.ID) said {
		var g task.Granted
		for _, id := range ids {
			g.Grants = append(g.Grants, task.Grant{Task: id, Limits: []string{"job:j"}})
		}
		return said{"", g, seen}
	}
	born := func(id task.ID) said { return said{id, held, 0} }
	bearsOut := func(id task.ID, seen uint64) said {
		return said{"", task.Granted{Refused: []task.ID{id}}, seen}
	}
	refused := func(id task.ID, seen uint64) said {
		return said{id, task.CancelConfirmed{Code: value.Limit, Reason: "no place under job:j"}, seen}
	}
	cut := func(s said) said {
		return said{"", cutOff{s.what.(task.Granted)}, s.seen}
	}
	// B and c find a under way. d has its own place and that of b.
	makePlace := func() []said {
		young := birth(1, 5, time.Time{})
		young.Spec.Concurrency[0].OnLimit = limit.CancelOld
		return []said{born(a), admits(1, a), born(b), born(c), {d, young, 0}}
	}
	gone := func(id task.ID, seen uint64) said {
		return said{id, task.CancelConfirmed{Reason: "task " + string(d) + " takes its place under job:j"}, seen}
	}
	admitsAnd := func(seen uint64, stopped ...task.ID) said {
		return said{"", task.Granted{Grants: []task.Grant{{Task: b, Limits: []string{"job:j"}}}, Refused: stopped}, seen}
	}
	// Two tasks of the job may be under way.
	for name, of := range map[string]struct {
		log   []said
		wrong string
	}{
		"in order":                       {[]said{born(a), admits(1, a), born(b), admits(3, b)}, ""},
		"the younger first":              {[]said{born(a), born(b), admits(2, b)}, "by all that was known at 2, task " + string(a) + " goes before it"},
		"one where two can go":           {[]said{born(a), born(b), admits(2, a)}, "by all that was known at 2, the task is admitted too"},
		"one where two can go, and more": {[]said{born(a), born(b), cut(admits(2, a))}, ""},
		"both at once":                   {[]said{born(a), born(b), admits(2, a, b)}, ""},
		"both at once, in another order": {[]said{born(a), born(b), admits(2, b, a)}, "goes before it"},
		"the older was not known":        {[]said{born(b), born(a), admits(1, b)}, ""},
		"the older has ended":            {[]said{born(a), born(b), {a, task.CancelConfirmed{}, 0}, admits(3, b)}, ""},
		"the more urgent first":          {[]said{{a, birth(1, 5, time.Time{}), 0}, {b, birth(1, 9, time.Time{}), 0}, admits(2, b)}, ""},
		"the less urgent first":          {[]said{{a, birth(1, 5, time.Time{}), 0}, {b, birth(1, 9, time.Time{}), 0}, admits(2, a)}, "goes before it"},
		"the older is not due":           {[]said{{a, birth(2, 5, noon.Add(time.Hour)), 0}, born(b), admits(2, b)}, ""},
		"the lines in order":             {[]said{{a, birth(1, 5, time.Time{}), 0}, born(b), admits(2, a, b)}, ""},
		"the lines in another order":     {[]said{{a, birth(1, 5, time.Time{}), 0}, born(b), admits(2, b, a)}, "task " + string(a) + " goes before it"},
		"another line":                   {[]said{{a, birth(1, 5, time.Time{}), 0}, born(b), admits(2, b)}, "task " + string(a) + " goes before it"},
		"a line that has no place":       {[]said{born(a), admits(1, a), {b, birth(1, 5, time.Time{}), 0}, born(c), admits(4, c)}, ""},
		"behind one that was not known":  {[]said{born(b), born(c), born(a), admits(2, c)}, "task " + string(b) + " goes before it"},
		"it does not say what it knew":   {[]said{born(a), admits(0, a)}, "it does not say up to where tasks were known"},
		"refused without a place":        {[]said{born(a), born(b), born(c), admits(3, a, b), refused(c, 4), bearsOut(c, 4)}, ""},
		"refused by something else":      {[]said{born(a), admits(1, a), born(b), born(c), refused(c, 4), {"", task.Granted{Grants: []task.Grant{{Task: b, Limits: []string{"job:j"}}}, Refused: []task.ID{c}}, 3}}, "it was stopped by all that was known at 4, and not at 3"},
		"refused where one has a place":  {[]said{born(a), admits(1, a), born(c), refused(c, 3), bearsOut(c, 3)}, "by all that was known at 3, the task is admitted too"},
		"refused and admitted":           {[]said{born(a), admits(1, a), born(c), refused(c, 3), {"", task.Granted{Grants: []task.Grant{{Task: c, Limits: []string{"job:j"}}}, Refused: []task.ID{c}}, 3}}, "had a place by all that was known at 3"},
		"refused for one beside it":      {[]said{born(a), admits(1, a), born(b), born(c), refused(c, 4), {"", task.Granted{Grants: []task.Grant{{Task: b, Limits: []string{"job:j"}}}, Refused: []task.ID{c}}, 4}}, ""},
		"refused for one that goes":      {append(makePlace(), []said{refused(c, 5), gone(a, 5), gone(b, 5), admitsAnd(5, c, a, b)}...), ""},
		"another one makes place":        {append(makePlace(), []said{refused(c, 5), gone(a, 5), gone(d, 5), admitsAnd(5, c, a, d)}...), "it has to make place under job:j too"},
		"one more makes place":           {append(makePlace(), []said{refused(c, 5), gone(a, 5), gone(b, 5), gone(d, 5), admitsAnd(5, c, a, b, d)}...), "it does not have to make place under job:j"},
		"it makes place for another":     {append(makePlace(), []said{refused(c, 5), gone(a, 5), {b, task.CancelConfirmed{Reason: "task " + string(c) + " takes its place under job:j"}, 5}, admitsAnd(5, c, a, b)}...), "and should be because"},
		"it had gone by itself":          {append(makePlace(), []said{{a, task.CancelConfirmed{}, 0}, refused(c, 5), gone(b, 5), admitsAnd(5, c, b)}...), ""},
		"it makes place for nobody":      {append(makePlace(), []said{gone(a, 5), born("01JNAT00000000000000000005")}...), "no limit.granted on the chain of that names it"},
		"nobody says so":                 {append(makePlace(), admitsAnd(5, a)), "it names a task that no event before it refuses"},
		"refused by nobody":              {[]said{born(a), born(b), born(c), admits(3, a, b), refused(c, 4), born("01JNAT00000000000000000004")}, "no limit.granted on the chain of that names it"},
		"a place is free meanwhile":      {[]said{born(a), born(b), born(c), admits(3, a, b), {a, task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 1}, 0}, {a, task.AttemptFinished{Attempt: 1, Epoch: 5}, 0}, refused(c, 5), bearsOut(c, 5)}, ""},
		"a place was known to be free":   {[]said{born(a), born(b), born(c), admits(3, a, b), {a, task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 1}, 0}, {a, task.AttemptFinished{Attempt: 1, Epoch: 5}, 0}, refused(c, 6), bearsOut(c, 6)}, "by all that was known at 6, the task is admitted too"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log []events.Record
			for _, s := range of.log {
				r := events.Record{Seq: uint64(len(log) + 1), Stored: noon, Kind: events.KindChain, Fact: events.Fact{At: noon, ID: events.NewID(noon), Task: s.of}}
				switch e := s.what.(type) {
				case task.Granted:
					r.Kind, r.Fact.Scope, r.Fact.Event, r.Fact.By = events.KindLimit, "job.j", e, &task.By{Seen: s.seen}
				case cutOff:
					r.Kind, r.Fact.Scope, r.Fact.Event, r.Fact.By = events.KindLimit, "job.j", e.Granted, &task.By{Seen: s.seen, Cut: true}
				case task.Submitted:
					r.Kind, r.Fact.Event = events.KindHold, e
				default:
					if r.Fact.Event = e; s.seen > 0 {
						r.Fact.By = &task.By{Rule: task.RuleLimit, Limit: "job:j", Seen: s.seen}
					}
				}
				r.Fact.Type = events.TypeOf(r.Fact.Event)
				log = append(log, r)
			}
			found := verify.Decided(log)
			switch {
			case of.wrong == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case of.wrong != "" && (len(found) != 1 || !strings.Contains(found[0].What, of.wrong)):
				t.Errorf("found %+v, want one with %q", found, of.wrong)
			}
		})
	}
}

// Of two schedulers one has a clock that is behind. Its admissions are judged by its own time, whatever the other has decided before.
func TestAdmissionsByAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const ahead, behind = 2 * time.Second, time.Second
	const a, b, c = task.ID("01JNAT00000000000000000001"), task.ID("01JNAT00000000000000000002"), task.ID("01JNAT00000000000000000003")
	for name, of := range map[string]struct {
		admitted task.ID
		wrong    string
	}{
		"one that is due by it":      {b, ""},
		"one that is not due by now": {c, "by all that was known at 4, task " + string(b) + " goes before it"},
	} {
		var log []events.Record
		add := func(kind events.Kind, at time.Duration, f events.Fact) {
			f.At, f.Type, f.ID = noon.Add(at), events.TypeOf(f.Event), events.NewID(noon)
			log = append(log, events.Record{Seq: uint64(len(log) + 1), Stored: noon.Add(ahead), Kind: kind, Fact: f})
		}
		birth := func(id task.ID, name string, priority int, due time.Duration) {
			e := task.Submitted{Work: task.Work{Job: name, Spec: &job.Spec{Handler: "h", Concurrency: limit.Concurrencies{{Max: 1}}}, Route: placement.QueueRoute("default", priority), Holds: []string{task.HoldLimit}}}
			if due > 0 {
				e.Due = noon.Add(due)
			}
			add(events.KindHold, 0, events.Fact{Task: id, Event: e})
		}
		admits := func(at time.Duration, id task.ID, name string) {
			g := task.Granted{Grants: []task.Grant{{Task: id, Limits: []string{"job:" + name}}}}
			add(events.KindLimit, at, events.Fact{Scope: limit.Scope("job." + name), By: &task.By{Seen: uint64(len(log))}, Event: g})
		}
		birth(a, "j", 5, 0)
		birth(b, "k", 5, 0)
		birth(c, "k", 9, behind+ahead/4)
		admits(ahead, a, "j")
		admits(behind, of.admitted, "k")
		r := allJudged(t, log)
		if (of.wrong == "") != (len(r.Findings) == 0) || len(r.Findings) > 0 && !strings.Contains(r.Findings[0].What, of.wrong) {
			t.Errorf("%s: found %+v, want %q", name, r.Findings, of.wrong)
		}
	}
}

// allJudged makes all decisions of a log again.
func allJudged(t *testing.T, log []events.Record) *verify.Report {
	t.Helper()
	v := verify.New(verify.Config{Rules: []verify.Rule{verify.Decisions}})
	for i := range log {
		if err := v.Add(&log[i]); err != nil {
			t.Fatal(err)
		}
	}
	r := v.Report(time.Time{})
	for _, rule := range r.Rules {
		if rule.Unjudged > 0 {
			t.Errorf("of %d decisions %d are not judged", rule.Checked, rule.Unjudged)
		}
	}
	return r
}

// A scheduler that lags far behind another one has its admissions judged all the same.
func TestAdmissionsFromFarBehind(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	id := func(i int) task.ID { return task.ID(fmt.Sprintf("01JNAT%020d", i)) }
	var log []events.Record
	passed := uint64(0)
	add := func(kind events.Kind, f events.Fact) {
		f.At, f.Type, f.ID = noon, events.TypeOf(f.Event), events.NewID(noon)
		log = append(log, events.Record{Seq: passed + uint64(len(log)+1), Stored: noon, Kind: kind, Fact: f})
	}
	birth := func(i int, name string) {
		spec := &job.Spec{Handler: "h", Concurrency: limit.Concurrencies{{Max: 1}}}
		add(events.KindHold, events.Fact{Task: id(i), Event: task.Submitted{Work: task.Work{Job: name, Spec: spec, Route: "default.5", Holds: []string{task.HoldLimit}}}})
	}
	admits := func(seen uint64, i int, name string) {
		add(events.KindLimit, events.Fact{Scope: limit.Scope("job." + name), By: &task.By{Seen: seen}, Event: task.Granted{Grants: []task.Grant{{Task: id(i), Limits: []string{"job:" + name}}}}})
	}
	birth(1, "j")
	birth(2, "k")
	birth(3, "k")            // which goes behind that
	more := func(n uint64) { // of which nothing follows
		passed += n
		add(events.KindOffer, events.Fact{Task: id(int(passed)), Event: task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "h"}, Route: "default.5"}}})
	}
	more(30_000)
	admits(log[len(log)-1].Seq, 1, "j")
	more(30_000)
	before, then := slices.Clone(log), passed
	for next, wrong := range map[int]string{2: "", 3: "task " + string(id(2)) + " goes before it"} {
		log, passed = slices.Clone(before), then
		admits(3, next, "k")
		more(80_000)
		if found := allJudged(t, log).Findings; (wrong == "") != (len(found) == 0) || len(found) > 0 && !strings.Contains(found[0].What, wrong) {
			t.Errorf("task %d is admitted: found %+v, want %q", next, found, wrong)
		}
	}
}

// cutOff is an admission that left more to the next one.
type cutOff struct{ task.Granted }
