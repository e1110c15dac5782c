package verify_test

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/schedule"
)

// An id has one birth, a key one live holder, and a derived id is born from its origin.
func TestBirths(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	work := func(handler, key string) task.Work {
		return task.Work{Spec: &job.Spec{Handler: handler, Unique: job.Unique{Key: key}}, Route: "default.5"}
	}
	type said struct {
		kind  events.Kind
		id    task.ID
		event any
	}
	const a, b = task.ID("01JNA0000000000000000BRTHA"), task.ID("01JNA0000000000000000BRTHB")
	tick, child := schedule.TaskID("s", noon), birth.ChildID(a, "x")
	ticks := func(handler string) task.Submitted {
		w := work(handler, "")
		w.Origin = task.Origin{Schedule: "s", Tick: noon, Trigger: task.TriggerSchedule}
		return task.Submitted{Work: w}
	}
	of := func(parent task.ID) task.Submitted {
		w := work("x", "")
		w.Parent = parent
		return task.Submitted{Work: w}
	}
	ended := task.Origin{Trigger: task.TriggerEnd, Tick: noon, After: a, Ended: 2}
	follows := func(job string) task.Submitted {
		w := work("x", "")
		w.Job, w.Origin = job, ended
		return task.Submitted{Work: w}
	}
	message := task.Origin{Trigger: task.TriggerMessage, Tick: noon, MadeBy: "message 7 of stream ORDERS"}
	heard := func(job string) task.Submitted {
		s := follows(job)
		s.Origin = message
		return s
	}
	byHand := ticks("x")
	byHand.Trigger = task.TriggerManual
	steps := task.Work{Spec: &job.Spec{Steps: []job.Step{{Name: "x", Spec: job.Spec{Handler: "x"}}}}, Route: "default.5"}
	claims := func(holder task.ID, before ...task.ID) said {
		return said{events.KindKey, "", birth.KeyClaimed{Holder: holder, Before: before}}
	}
	offer, hold, chain := events.KindOffer, events.KindHold, events.KindChain
	registered := said{events.KindNode, "", node.Registered{Session: "s", Profile: node.Profile{Slots: 1, Queues: []string{"default"}}}}
	for name, c := range map[string]struct {
		log   []said
		want  []verify.Rule
		what  string
		later time.Duration
	}{
		"one birth":      {log: []said{{offer, a, task.Submitted{Work: work("x", "")}}}},
		"the same again": {log: []said{{offer, a, task.Submitted{Work: work("x", "")}}, {offer, a, task.Submitted{Work: work("x", "")}}}},
		"another one": {
			log:  []said{{offer, a, task.Submitted{Work: work("x", "")}}, {offer, a, task.Submitted{Work: work("y", "")}}},
			want: []verify.Rule{verify.OneEnd}, what: "submitted again",
		},
		"another one beside the chain": {
			log:  []said{{chain, a, task.Submitted{Work: work("x", "")}}, {offer, a, task.Submitted{Work: work("y", "")}}},
			want: []verify.Rule{verify.OneEnd}, what: "submitted again",
		},
		"the second one ran": {
			log: []said{registered, {offer, a, task.Submitted{Work: work("x", "")}}, {offer, a, task.Submitted{Work: work("y", "")}},
				{chain, a, task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 3}}},
			want: []verify.Rule{verify.OneEnd, verify.OneEnd}, what: "what ran is the work of the birth at 3",
		},
		"a birth on the chain, its offer, its claim": {
			log: []said{registered, {chain, a, task.Submitted{Work: work("x", "")}}, {offer, a, task.Queued{Work: work("x", ""), Attempt: 1, After: 2}},
				{chain, a, task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 3}}, {chain, a, task.AttemptFinished{Attempt: 1, Epoch: 4}}},
		},
		"two live holders of a key": {
			log:  []said{claims(a), {offer, a, task.Submitted{Work: work("x", "/k")}}, claims(b, a), {offer, b, task.Submitted{Work: work("x", "/k")}}},
			want: []verify.Rule{verify.Limits}, what: `unique key "/k"`,
		},
		"one after the other": {
			log: []said{claims(a), {offer, a, task.Submitted{Work: work("x", "/k")}}, {chain, a, task.CancelConfirmed{}}, claims(b, a), {offer, b, task.Submitted{Work: work("x", "/k")}}},
		},
		"a key that nothing has claimed": {
			log:  []said{{offer, a, task.Submitted{Work: work("x", "/k")}}},
			want: []verify.Rule{verify.CauseFirst}, what: "which it had not claimed",
		},
		"a key that another one has claimed": {
			log:  []said{claims(b), {offer, a, task.Submitted{Work: work("x", "/k")}}},
			want: []verify.Rule{verify.CauseFirst}, what: "which it had not claimed",
		},
		"one that lives again beside another": {
			log: []said{claims(a), {offer, a, task.Submitted{Work: work("x", "/k")}}, {chain, a, task.CancelConfirmed{}}, claims(b, a), {offer, b, task.Submitted{Work: work("x", "/k")}},
				{chain, a, task.Reopened{}}},
			want: []verify.Rule{verify.Limits}, what: `unique key "/k"`,
		},
		"a tick after its decision": {
			log: []said{{events.KindTick, "", task.ScheduleAdmitted{Tick: noon, Made: tick, Trigger: task.TriggerSchedule}}, {offer, tick, ticks("x")}},
		},
		"a run by hand that counts for the overlap": {
			log:   []said{{events.KindTick, "", task.ScheduleAdmitted{Tick: noon, Made: tick, Trigger: task.TriggerManual}}, {offer, tick, byHand}},
			later: schedule.BornWithin + time.Second,
		},
		"a run by hand with the id of a tick that nobody has given one": {
			log:  []said{{offer, tick, byHand}},
			want: []verify.Rule{verify.CauseFirst}, what: "before that was given one",
		},
		"a tick before its decision": {
			log:  []said{{offer, tick, ticks("x")}, {events.KindTick, "", task.ScheduleAdmitted{Tick: noon, Made: tick, Trigger: task.TriggerSchedule}}},
			want: []verify.Rule{verify.CauseFirst}, what: "before that was given one",
		},
		"a tick that found its queue full": {
			log: []said{{events.KindTick, "", task.ScheduleAdmitted{Tick: noon, Made: tick, Trigger: task.TriggerSchedule}},
				{events.KindTick, "", task.ScheduleSkipped{Tick: noon, Reason: task.SkipFull}}},
		},
		"a tick that was admitted, without its task": {
			log:   []said{{events.KindTick, "", task.ScheduleAdmitted{Tick: noon, Made: tick, Trigger: task.TriggerSchedule}}},
			later: schedule.BornWithin + time.Second, want: []verify.Rule{verify.OneEnd}, what: "which was not made within 1m0s",
		},
		"a tick that was admitted just now": {
			log:   []said{{events.KindTick, "", task.ScheduleAdmitted{Tick: noon, Made: tick, Trigger: task.TriggerSchedule}}},
			later: schedule.BornWithin,
		},
		"a tick whose id a stranger has": {
			log: []said{{events.KindTick, "", task.ScheduleAdmitted{Tick: noon, Made: tick, Trigger: task.TriggerSchedule}},
				{events.KindTick, "", task.ScheduleSkipped{Tick: noon, Reason: task.SkipStranger, Detail: "spec.handler differs"}}},
			want: []verify.Rule{verify.OneTask}, what: "has no task of its own",
		},
		"the id of a tick without a schedule": {
			log:  []said{{offer, tick, task.Submitted{Work: work("x", "")}}},
			want: []verify.Rule{verify.CauseFirst}, what: "neither a schedule nor a parent",
		},
		"what follows from an end": {
			log: []said{{offer, a, task.Submitted{Work: work("x", "")}}, {chain, a, task.CancelConfirmed{}}, {offer, schedule.FollowingID("j", &ended), follows("j")}},
		},
		"what follows from an end, for another job": {
			log:  []said{{offer, a, task.Submitted{Work: work("x", "")}}, {chain, a, task.CancelConfirmed{}}, {offer, schedule.FollowingID("j", &ended), follows("k")}},
			want: []verify.Rule{verify.CauseFirst}, what: "has another id",
		},
		"what follows from a message": {
			log: []said{{offer, schedule.FollowingID("j", &message), heard("j")}},
		},
		"what follows from a message, for another job": {
			log:  []said{{offer, schedule.FollowingID("j", &message), heard("k")}},
			want: []verify.Rule{verify.CauseFirst}, what: "born of message 7 of stream ORDERS, and has another id",
		},
		"what follows from the end of a task that never was": {
			log:  []said{{offer, schedule.FollowingID("j", &ended), follows("j")}},
			want: []verify.Rule{verify.CauseFirst}, what: "there was no such end",
		},
		"a child of a parent that was expanded": {
			log: []said{{hold, a, task.Submitted{Work: steps}}, {chain, a, task.Expanded{Children: task.Children{Names: []string{"x"}}}}, {offer, child, of(a)}},
		},
		"a child before its parent was expanded": {
			log:  []said{{hold, a, task.Submitted{Work: steps}}, {offer, child, of(a)}, {chain, a, task.Expanded{Children: task.Children{Names: []string{"x"}}}}},
			want: []verify.Rule{verify.CauseFirst}, what: "which has not made it",
		},
		"a child that a program has asked for": {
			log: []said{registered, {offer, a, task.Submitted{Work: work("x", "")}}, {chain, a, task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 2}}, {offer, child, of(a)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := verify.New(verify.Config{Rules: []verify.Rule{verify.OneEnd, verify.Limits, verify.OneTask, verify.CauseFirst}})
			for i, s := range c.log {
				f := &events.Fact{ID: events.NewID(noon), At: noon.Add(time.Duration(i) * time.Millisecond), Task: s.id, Actor: "test"}
				switch f.Event = s.event; {
				case s.kind == events.KindNode:
					f.Node = "n"
				case s.kind == events.KindKey:
					f.Key = "/k"
				case s.id == "":
					f.Schedule = "s"
				}
				f.Type = events.TypeOf(f.Event)
				raw, err := events.Encode(nil, f)
				if err != nil {
					t.Fatal(err)
				}
				decoded, err := events.Decode(raw)
				if err != nil {
					t.Fatal(err)
				}
				if err := v.Add(&events.Record{Seq: uint64(i + 1), Stored: f.At, Kind: s.kind, Fact: decoded, Raw: raw}); err != nil {
					t.Fatal(err)
				}
			}
			found := v.Report(noon.Add(c.later)).Findings
			var rules []verify.Rule
			what := ""
			for _, f := range found {
				rules, what = append(rules, f.Rule), what+f.What+"\n"
			}
			if len(rules) != len(c.want) || len(rules) > 0 && rules[0] != c.want[0] || !strings.Contains(what, c.what) {
				t.Errorf("found %v:\n%s\nwant %v: %s", rules, what, c.want, c.what)
			}
		})
	}
}
