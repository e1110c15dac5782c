package chaos

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/value"
)

func one(ms float64) Latency { return Latency{Count: 1, P50: ms, P99: ms, Max: ms} }

func TestMeasure(t *testing.T) {
	killed := Injected{Fault: Kill, Target: "worker-1", Began: after(10), Ended: after(22)}
	for name, c := range map[string]struct {
		tell   func(s *story)
		faults []Injected
		want   Figures
		odd    string // part of the only oddity; "" for none
	}{
		"a killed worker, taken over": {
			func(s *story) {
				s.born(1, "t")
				epoch := s.started(2, "t", "worker-1", 0)
				epoch = s.started(16.5, "t", "worker-2", epoch)
				s.finished(17, "t", epoch)
				s.joined(22.25, "worker-1")
			},
			[]Injected{killed},
			Figures{Detection: one(6500), Takeover: one(6500), Reconnect: one(250), Takeovers: 1}, "",
		},
		"a killed worker that ran nothing": {
			func(s *story) {
				s.joined(1, "worker-1")
				s.put(17, events.KindNode, "worker-1", "scheduler", node.WentOffline{Session: "worker-1"})
				s.joined(22.25, "worker-1")
			},
			[]Injected{killed}, Figures{Detection: one(7000), Reconnect: one(250)}, "",
		},
		"the scheduler is faster than any worker": {
			func(s *story) {
				s.born(1, "t")
				epoch := s.started(2, "t", "worker-1", 0)
				lost := s.put(18, events.KindChain, "t", "scheduler", task.AttemptLost{Attempt: 1, Epoch: epoch})
				s.put(18.1, events.KindOffer, "t", "scheduler", task.Queued{After: lost})
				s.finished(20, "t", s.started(19, "t", "worker-2", 0))
			},
			[]Injected{killed}, Figures{Detection: one(8000), Takeover: one(9000), LostAttempts: 1}, "",
		},
		"a link that was away too briefly to be noticed": {
			func(s *story) {
				s.born(1, "t")
				epoch := s.started(2, "t", "worker-1", 0)
				s.finished(12, "t", epoch)
				s.born(12.5, "u")
				s.finished(13, "u", s.started(12.7, "u", "worker-1", 0))
			},
			[]Injected{{Fault: Cut, Target: "worker-1", Began: after(10), Ended: after(11.5)}},
			Figures{Reconnect: one(1200)}, "",
		},
		"a long fault that nobody noticed": {
			func(s *story) { s.joined(1, "worker-1") },
			[]Injected{killed}, Figures{}, "kill of worker-1 for 12s was never noticed",
		},
		"a worker that was killed again before it was back": {
			func(s *story) {
				s.joined(1, "worker-1")
				s.put(12, events.KindNode, "worker-1", "scheduler", node.WentOffline{Session: "worker-1"})
				s.joined(30.5, "worker-1")
			},
			[]Injected{{Fault: Kill, Target: "worker-1", Began: after(10), Ended: after(15)}, {Fault: Kill, Target: "worker-1", Began: after(15.5), Ended: after(30)}},
			Figures{Detection: one(2000), Reconnect: one(500)}, "",
		},
		"nobody could, without a scheduler": {
			func(s *story) { s.joined(1, "worker-1") },
			[]Injected{killed, {Fault: Kill, Target: "scheduler-1", Began: after(9), Ended: after(30)}}, Figures{}, "",
		},
		"a worker comes back before the server does": {
			func(s *story) {
				s.joined(1, "worker-1")
				s.put(17, events.KindNode, "worker-1", "scheduler", node.WentOffline{Session: "worker-1"})
				s.joined(25.5, "worker-1")
			},
			[]Injected{killed, {Fault: Kill, Target: Server, Began: after(20), Ended: after(25)}},
			Figures{Detection: one(7000), Reconnect: one(500)}, "",
		},
		"all workers are back after the server": {
			func(s *story) {
				s.joined(1, "worker-1")
				s.joined(1, "worker-2")
				s.born(5, "t")
				s.finished(7, "t", s.started(6.25, "t", "worker-2", 0))
				s.born(7, "u")
				s.finished(9, "u", s.started(8, "u", "worker-1", 0))
			},
			[]Injected{{Fault: Kill, Target: Server, Began: after(4), Ended: after(6)}},
			Figures{Reconnect: Latency{Count: 2, P50: 250, P99: 2000, Max: 2000}}, "",
		},
		"ready is what counts where it is known": {
			func(s *story) {
				s.joined(22.25, "worker-1")
				s.put(22.75, events.KindNode, "worker-1", "worker-1", nil)
				s.records[len(s.records)-1].Fact.Type = nodeReady
			},
			[]Injected{{Fault: Kill, Target: "worker-1", Began: after(20), Ended: after(22)}},
			Figures{Reconnect: one(750)}, "",
		},
		"a worker that was restarted in order": {
			func(s *story) {
				s.put(3, events.KindNode, "worker-1", "worker-1", node.WentOffline{Session: "worker-1"})
				s.joined(4.5, "worker-1")
			},
			[]Injected{{Fault: Term, Target: "worker-1", Began: after(2), Ended: after(4)}},
			Figures{Reconnect: one(500)}, "",
		},
		"a slow link silences nobody": {
			func(s *story) { s.joined(1, "worker-1") },
			[]Injected{{Fault: Delay, Target: "worker-1", Began: after(2), Ended: after(30)}}, Figures{}, "",
		},
		"a repair by the sweep": {
			func(s *story) {
				s.born(1, "t")
				epoch := s.started(2, "t", "worker-1", 0)
				failed := s.chain(3, "t", task.AttemptFailed{Attempt: 1, Epoch: epoch, Retry: &task.RetryPlan{Attempt: 2}})
				s.put(9, events.KindOffer, "t", "scheduler", task.Queued{After: failed})
				s.put(9.1, events.KindOffer, "t", "worker-1", task.Queued{After: failed})
			},
			nil, Figures{Repairs: 1}, "a sweep placed 1 offer whose owner was killed",
		},
		"given up, late, born twice": {
			func(s *story) {
				s.born(1, "t")
				s.born(1, "t")
				s.chain(2, "t", task.AttemptLate{})
				s.chain(3, "t", task.GivenUp{Reason: value.Poison})
			},
			nil, Figures{Late: 1}, "as is promised where so many nodes were lost with it: t; 1 task born twice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s story
			c.tell(&s)
			got := Measure(s.records, c.faults, 6*time.Second)
			got.Start = Latency{} // TestStarts is about that
			odd := strings.Join(got.Odd, "; ")
			got.Odd = nil
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
			if (odd == "") != (c.odd == "") || !strings.Contains(odd, strings.Split(c.odd, "; ")[0]) || !strings.Contains(odd, c.odd[strings.LastIndex(c.odd, "; ")+1:]) {
				t.Errorf("odd: %q, want %q", odd, c.odd)
			}
		})
	}
}

func TestStarts(t *testing.T) {
	var s story
	s.born(1, "t")
	epoch := s.started(1.5, "t", "worker-1", 0)
	s.started(9, "t", "worker-2", epoch) // not its first
	s.put(1, events.KindHold, "u", "chaos", task.Submitted{Due: after(5)})
	s.started(7, "u", "worker-1", 0)
	s.born(2, "never")
	if got, want := Measure(s.records, nil, time.Second).Start, (Latency{Count: 2, P50: 500, P99: 2000, Max: 2000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestLatencies(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i)*time.Millisecond)
	}
	if got, want := latencyOf(all), (Latency{Count: 200, P50: 100, P99: 198, Max: 200}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := latencyOf(nil); got != (Latency{}) {
		t.Errorf("%+v of nothing", got)
	}
}

func TestJudge(t *testing.T) {
	var s story
	s.born(1, "good")
	s.finished(2, "good", s.started(1, "good", "worker-1", 0))
	s.born(1, "twice")
	epoch := s.started(2, "twice", "worker-1", 0)
	s.finished(3, "twice", epoch)
	s.finished(4, "twice", epoch)
	s.born(1, "reopened")
	s.finished(2, "reopened", s.started(1, "reopened", "worker-1", 0))
	s.chain(3, "reopened", task.Reopened{})
	s.finished(5, "reopened", s.started(4, "reopened", "worker-1", 0))
	s.born(1, "retried")
	epoch = s.started(2, "retried", "worker-1", 0)
	s.chain(3, "retried", task.AttemptFailed{Epoch: epoch, Retry: &task.RetryPlan{Attempt: 2}})
	s.born(1, "cancelled")
	s.chain(2, "cancelled", task.CancelConfirmed{})

	j := count(s.records, []task.ID{"good", "twice", "gone"})
	want := Judgement{
		Tasks: 5, Lost: []task.ID{"gone"}, Duplicated: []task.ID{"twice"}, Stuck: []task.ID{"retried"},
		States: map[task.State]int{task.Finished: 3, task.Retrying: 1, task.Cancelled: 1},
		Broken: []string{
			"1 acknowledged submissions are not in the log: gone", "1 tasks have two accepted ends: twice", "1 tasks have not ended: retried",
		},
	}
	if !reflect.DeepEqual(j, want) {
		t.Errorf("%+v\nwant %+v", j, want)
	}

	// The promises are those of package verify: it need only be asked.
	j = judge(s.records, nil, []task.ID{"gone"}, duties.Settings{})
	all := strings.Join(j.Broken, "\n")
	for _, rule := range []string{"I-2: retried", "I-3: twice", "I-9: gone"} {
		if !strings.Contains(all, rule) {
			t.Errorf("no word of %q:\n%s", rule, all)
		}
	}
	var good story
	good.put(0, events.KindNode, "worker-1", "", node.Registered{Session: "s", Profile: node.Profile{Slots: 1, Queues: []string{"default"}}})
	offer := good.born(1, "good")
	epoch = good.chain(2, "good", task.AttemptStarted{Attempt: 1, Node: "worker-1", Session: "s", Offer: offer})
	good.finished(3, "good", epoch)
	row := events.FoldTask("good", good.records)
	if j := judge(good.records, []task.Task{row}, []task.ID{"good"}, duties.Settings{}); len(j.Broken)+len(j.Odd) > 0 || j.Tasks != 1 {
		t.Errorf("%+v of a good log", j)
	}
	row.State = task.Error
	if j := judge(good.records, []task.Task{row}, nil, duties.Settings{}); len(j.Broken) != 1 || !strings.HasPrefix(j.Broken[0], "I-8: good") {
		t.Errorf("%v of a wrong row", j.Broken)
	}
}
