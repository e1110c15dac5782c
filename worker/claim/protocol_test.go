package claim_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/worker/claim"
)

// The fates of an offer.
const (
	mine    = "mine"     // the task runs here, and the offer stays with the node
	notMine = "not mine" // the offer is acknowledged
	notNow  = "not now"  // the offer comes again
)

var (
	labeled = job.Spec{Place: job.Place{Labels: logtest.Selects("gpu")}}
	one     = limit.PerNodes{{Max: 1}}
	limited = job.Spec{Concurrency: limit.Concurrencies{{Max: 1, Key: "k"}}}
	breaks  = job.Spec{Breaker: &limit.Breaker{Failures: 1}}
)

// runs tells a protocol whether its node can run tasks.
func runs(can bool) func(*world, *claim.Protocol) {
	return func(_ *world, p *claim.Protocol) { p.Runs = func(*job.Spec) bool { return can } }
}

func labels(all map[string]string) func(*world, *claim.Protocol) {
	return func(_ *world, p *claim.Protocol) {
		p.Labels = func() (map[string]string, uint64) { return all, 0 }
	}
}

// Node a is handed an offer, and claims its task: every way in which that can end.
func TestClaim(t *testing.T) {
	for _, row := range []struct {
		name  string
		spec  job.Spec
		given func(w *world)                    // after the submission
		then  func(w *world, o *events.Offer)   // between delivery and claim; o is the offer
		node  func(w *world, p *claim.Protocol) // what is special about node a; after the delivery
		want  string
		after time.Duration // until it comes again, if not now
		err   string        // part of the error
		is    task.State    // of the task, by the log
		tries int           // its attempts, by the log
		reads int           // of the task's history; -1 if it does not matter
	}{
		// The task is this node's.
		{name: "a birth, delivered for the first time", want: mine, is: task.Running, tries: 1},
		{name: "a birth that comes again, for its first node died before it claimed",
			given: func(w *world) { w.next(); pass(lease) },
			want:  mine, is: task.Running, tries: 1, reads: 1},
		{name: "a task that was released", given: func(w *world) {
			w.claimedBy("b")
			w.do(task.Release{Epoch: w.task().Epoch})
			w.must(w.rec.Settle(w.Context(), ptr(w.task())))
			w.drop()
		}, want: mine, is: task.Running, tries: 2, reads: 1},
		{name: "a retry that a timer offers", spec: job.Spec{Retry: job.Retry{Max: 1}}, given: func(w *world) {
			w.claimedBy("b")
			w.do(task.Fail{Epoch: w.task().Epoch, Class: "exit"})
			w.must(w.rec.Settle(w.Context(), ptr(w.task())))
			w.drop()
			pass(time.Minute)
		}, want: mine, is: task.Running, tries: 2, reads: 1},
		{name: "a birth of the same id in another queue, which nothing has claimed",
			given: func(w *world) { w.rival("crawl"); w.drop() },
			want:  mine, is: task.Running, tries: 1, reads: -1},
		{name: "the answer to the claim is lost", then: func(w *world, _ *events.Offer) { w.faults.lost = func(uint64) {} },
			want: mine, is: task.Running, tries: 1, reads: 1},
		{name: "an attempt whose lease has ended", given: func(w *world) { w.claimedBy("b"); pass(lease) },
			want: mine, is: task.Running, tries: 2, reads: -1},
		{name: "an attempt that began after the offer was read, whose lease has ended",
			then: func(w *world, o *events.Offer) {
				w.log.Redeliver(o.Seq, true)
				w.claimedBy("b")
				pass(2 * lease)
				w.log.Redeliver(o.Seq, true)
				*o = *w.next()
			},
			want: mine, is: task.Running, tries: 2, reads: -1},
		{name: "a task that the rate of its queue has admitted", given: func(w *world) { w.admitted() },
			want: mine, is: task.Running, tries: 1, reads: 1}, // whoever has placed that offer
		{name: "a task that its limits have admitted", spec: limited, given: func(w *world) { w.place(task.AdmittedOffer(w.task(), 0)) },
			want: mine, is: task.Running, tries: 1},
		{name: "a task that its limits have admitted, and that was cancelled", spec: limited, given: func(w *world) { w.place(task.AdmittedOffer(w.task(), 0)) },
			then: func(w *world, _ *events.Offer) { w.do(task.Cancel{}) }, want: notMine, is: task.Cancelled, reads: 1},
		{name: "a task that its limits have admitted, as the log has it that lags", spec: limited, given: func(w *world) { w.place(task.AdmittedOffer(w.task(), 0)) },
			then: func(w *world, o *events.Offer) { w.faults.behind = w.task().Turn }, want: notNow, after: 20 * time.Millisecond, is: task.Pending, reads: 1},
		{name: "an attempt that the rate had admitted, whose lease has ended", given: func(w *world) { w.admitted(); w.claimedBy("b"); pass(lease) },
			want: mine, is: task.Running, tries: 2, reads: -1},
		{name: "a task that was read when its offer came", given: func(w *world) { w.next(); pass(lease) },
			then: func(w *world, o *events.Offer) { o.Read = ptr(w.task()) },
			want: mine, is: task.Running, tries: 1},
		{name: "labels that match", spec: labeled, node: labels(map[string]string{"gpu": ""}), want: mine, is: task.Running, tries: 1},

		// Not mine: there is nothing left to run under this offer.
		{name: "the task was cancelled", then: func(w *world, _ *events.Offer) { w.do(task.Cancel{}) },
			want: notMine, is: task.Cancelled, reads: 1},
		{name: "the task has finished, and its acknowledgement was lost", given: func(w *world) {
			o := w.claimedBy("b")
			w.do(task.Finish{Epoch: w.task().Epoch})
			w.log.Redeliver(o.Seq, true)
		}, want: notMine, is: task.Finished, tries: 1, reads: 1},
		{name: "a second offer of the same turn, when the first runs", given: func(w *world) {
			w.claimedBy("b")
			w.place(task.Queued{Work: w.task().Work, Attempt: 1})
		}, want: notMine, is: task.Running, tries: 1, reads: 1},
		{name: "the offer of a turn that has passed", given: func(w *world) {
			o := w.claimedBy("b")
			w.do(task.Release{Epoch: w.task().Epoch})
			w.log.Redeliver(o.Seq, true)
		}, want: notMine, is: task.Pending, tries: 1, reads: 1},
		{name: "a second birth of an id, when the first runs", given: func(w *world) { w.claimedBy("b"); w.rival("crawl") },
			want: notMine, is: task.Running, tries: 1, reads: 1},
		{name: "the first birth of an id, when the second runs", given: func(w *world) {
			w.rival("crawl")
			first := w.next()
			w.claimedBy("b")
			w.log.Redeliver(first.Seq, true)
		}, want: notMine, is: task.Running, tries: 1, reads: 1},
		{name: "a forged timer, for a turn that there never was", given: func(w *world) { w.drop(); w.fires(w.id, 77) },
			want: notMine, is: task.Pending, reads: 1},
		{name: "a forged timer, for a task that does not exist", given: func(w *world) { w.drop(); w.fires("01JNA000000000000000000009", 7) },
			want: notMine, is: task.Pending, reads: 1},
		{name: "the pending timeout has passed", spec: job.Spec{Timeout: job.Timeout{Pending: 60e9}}, then: func(*world, *events.Offer) { pass(2 * time.Minute) },
			want: notMine, is: task.Abnormal},
		{name: "the answer to the claim is lost, and the attempt was given up meanwhile", then: func(w *world, _ *events.Offer) {
			w.faults.lost = func(seq uint64) { w.do(task.Lose{Epoch: seq, Reason: "its node is offline"}) }
		}, want: notMine, is: task.Pending, tries: 1, reads: 1},
		{name: "the answer to the claim is lost, and the log loses that and the offer, and has an earlier one", given: func(w *world) {
			w.next()
			w.place(task.Queued{Work: w.task().Work, Attempt: 1})
		}, then: func(w *world, _ *events.Offer) {
			w.faults.lost = func(uint64) { w.log.Lose(2) }
		}, want: notMine, is: task.Pending, reads: -1},
		{name: "the answer to the claim is lost, and the log loses that and the offer of its limits", spec: limited, given: func(w *world) { w.place(task.AdmittedOffer(w.task(), 0)) },
			then: func(w *world, _ *events.Offer) { w.faults.lost = func(uint64) { w.log.Lose(2) } }, want: notMine, is: task.Held, reads: -1},
		{name: "an attempt that was lost while its cancel was under way", given: func(w *world) {
			w.claimedBy("b")
			w.do(task.Cancel{})
			pass(lease)
		}, want: notMine, is: task.Abnormal, tries: 1, reads: -1},
		{name: "rubbish", then: func(_ *world, o *events.Offer) { o.Fact, o.Err = read(`rubbish`) }, want: notMine, is: task.Pending},
		{name: "an offer of a type that this version does not know",
			then: func(_ *world, o *events.Offer) {
				o.Fact, o.Err = read(`{"type":"task.teleported","v":1,"id":"F","at":"2026-03-01T12:00:00Z","task":"T"}`)
			},
			want: notMine, is: task.Pending},

		// Not mine: a rule has moved the task.
		{name: "the rate of the queue has to admit it", given: func(w *world) { w.says(queue.Limit{Rate: &limit.Rate{Limit: 1}}) },
			want: notMine, is: task.Held, reads: -1},
		{name: "the rate of the queue has to admit it, and the answer to that is lost", given: func(w *world) {
			w.says(queue.Limit{Rate: &limit.Rate{Limit: 1}})
			w.faults.lost = func(uint64) {}
		}, want: notMine, is: task.Held, reads: -1},
		{name: "the window of the task is closed", spec: job.Spec{Window: "night"}, given: func(w *world) { w.calendar("night", `{"closed":"00:00-06:00"}`) },
			want: notMine, is: task.Scheduled},
		{name: "this node lacks the handler", node: runs(false), want: notMine, is: task.Pending},
		{name: "another node is preferred", spec: job.Spec{Place: job.Place{Prefer: []job.Preference{{Labels: logtest.Selects("ssd"), Weight: 1}}}}, node: func(_ *world, p *claim.Protocol) {
			p.Preferring = preferring("b", map[string]string{"ssd": ""})
		}, want: notMine, is: task.Pending},
		{name: "the breaker of the job is open", spec: breaks, given: func(w *world) { w.opens() }, want: notMine, is: task.Scheduled},
		{name: "this node has no place, and others had no place either", spec: job.Spec{PerNode: one}, given: func(w *world) {
			for range 3 {
				o := w.next()
				w.must(o.Return())
			}
		}, node: full, want: notMine, is: task.Scheduled, reads: -1},

		// Not now: the server that was asked led the log until a moment ago.
		{name: "a timer, and the log is read without its turn", spec: job.Spec{Retry: job.Retry{Max: 1}}, given: func(w *world) {
			w.claimedBy("b")
			w.do(task.Fail{Epoch: w.task().Epoch, Class: "exit"})
			w.must(w.rec.Settle(w.Context(), ptr(w.task())))
			w.drop()
			pass(time.Minute)
			w.faults.behind = w.task().Turn
		}, want: notNow, after: 20 * time.Millisecond, is: task.Pending, tries: 1, reads: 1},
		{name: "an offer, and the log is read without its turn", given: func(w *world) {
			w.claimedBy("b")
			w.do(task.Release{Epoch: w.task().Epoch})
			w.must(w.rec.Settle(w.Context(), ptr(w.task())))
			w.drop()
			w.faults.behind = w.task().Turn
		}, want: notNow, after: 20 * time.Millisecond, is: task.Pending, tries: 1, reads: 1},
		{name: "the timer of a scheduled birth, and the log is read without that", given: func(w *world) { w.drop(); w.fires(w.id, 0); w.faults.behind = 1 },
			want: notNow, after: 20 * time.Millisecond, is: task.Pending, reads: 1},
		{name: "the task was read ahead without its turn", then: func(w *world, o *events.Offer) {
			o.Read = ptr(w.task())
			o.Read.Seq = 0
		}, want: mine, is: task.Running, tries: 1},
		{name: "a forged timer that names an earlier message, again and again", given: func(w *world) { w.drop(); w.fires(w.id, w.task().Seq+1) },
			then: func(_ *world, o *events.Offer) { o.Deliveries = 9 }, want: notMine, is: task.Pending, reads: 1},

		// Not now: it comes again.
		{name: "an attempt that goes on, delivered early", given: func(w *world) { o := w.claimedBy("b"); pass(lease / 3); w.log.Redeliver(o.Seq, false) },
			want: notNow, after: lease - lease/3, is: task.Running, tries: 1, reads: -1},
		{name: "an attempt that began since the offer was read", then: func(w *world, o *events.Offer) {
			w.log.Redeliver(o.Seq, true)
			w.claimedBy("b")
			pass(time.Second)
		}, want: notNow, after: lease - time.Second, is: task.Running, tries: 1, reads: -1},
		{name: "the answer to the claim is lost, and another node has the task by then", then: func(w *world, _ *events.Offer) {
			w.faults.lost = func(seq uint64) {
				w.do(task.Lose{Epoch: seq, Reason: "its node is offline"})
				w.do(task.Claim{Node: "b", Session: "session of b", Offer: w.task().Turn + 1, After: w.task().Turn})
			}
		}, want: notNow, after: lease, is: task.Running, tries: 2, reads: 1},
		{name: "an attempt whose heartbeats cannot be read", given: func(w *world) { w.claimedBy("b"); pass(lease) },
			node: func(_ *world, p *claim.Protocol) { p.Accounts = nil },
			want: notNow, after: lease, err: "no heartbeats can be read", is: task.Running, tries: 1, reads: 1},
		{name: "the log cannot be read", given: func(w *world) { w.next(); pass(lease); w.faults.unreadable = true },
			want: notNow, after: lease, err: "the log is down", is: task.Pending, reads: 1},
		{name: "the answer to the claim is lost, and the log cannot be read", then: func(w *world, _ *events.Offer) {
			w.faults.lost, w.faults.unreadable = func(uint64) {}, true
		}, want: notNow, after: lease, err: "the log is down", is: task.Running, tries: 1, reads: 1},
		{name: "the claim is not stored", then: func(w *world, _ *events.Offer) { w.faults.refuses = true },
			want: notNow, after: lease, err: "record attempt.started: the log is down", is: task.Pending, reads: -1},
		{name: "what follows from the end of the task cannot be stored", given: func(w *world) {
			o := w.claimedBy("b")
			w.do(task.Release{Epoch: w.task().Epoch})
			w.log.Redeliver(o.Seq, false)
			w.faults.refuses = true
		}, want: notNow, after: lease, err: "settle task ", is: task.Pending, tries: 1, reads: -1},
		{name: "an offer of a later version", then: func(_ *world, o *events.Offer) { o.Fact, o.Err = read(`{"type":"task.submitted","v":2}`) },
			want: notNow, after: 20 * time.Millisecond, is: task.Pending},
		{name: "labels that this node has lost", spec: labeled, node: labels(nil), want: notNow, is: task.Pending},
		{name: "the window of the queue is closed", given: func(w *world) {
			w.calendar("night", `{"closed":"00:00-06:00"}`)
			w.says(queue.Limit{Window: ptr("night")})
		},
			want: notNow, after: 10 * time.Second, is: task.Pending},
		{name: "the window of the queue closes while the rules are asked", given: func(w *world) {
			w.calendar("night", `{"closed":"00:01-06:00"}`)
			w.says(queue.Limit{Window: ptr("night")})
		}, node: func(_ *world, p *claim.Protocol) {
			p.Runs = func(*job.Spec) bool { pass(2 * time.Minute); return true }
		}, want: notNow, is: task.Pending},
		{name: "the calendar of the task's window cannot be read", spec: job.Spec{Window: "night"}, given: func(w *world) { w.calendar("night", `{"closed":"00:00-06:00"}`) },
			node: func(_ *world, p *claim.Protocol) { p.Recorder.Log = noDefinitions{p.Recorder.Log} },
			want: notNow, after: lease, err: "ask the calendar night: the log is down", is: task.Pending},
		{name: "a node that the task names earlier may be free", spec: job.Spec{Place: job.Place{Nodes: []string{"b", "a"}}}, node: labels(map[string]string{placement.LabelNode: "a"}),
			want: notNow, is: task.Pending},
		{name: "this node has no place, and others may", spec: job.Spec{PerNode: one}, node: full, want: notNow, is: task.Pending},
		{name: "this node has no place for an attempt that was lost", spec: job.Spec{PerNode: one}, given: func(w *world) { w.claimedBy("b"); pass(lease) }, node: full,
			want: notNow, after: 40 * time.Millisecond, is: task.Running, tries: 1, reads: -1},
		{name: "this node lacks the handler of an attempt that was lost", given: func(w *world) { w.claimedBy("b"); pass(lease) }, node: runs(false),
			want: notNow, after: 40 * time.Millisecond, is: task.Running, tries: 1, reads: -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.id = w.submit(row.spec)
				if row.given != nil {
					row.given(w)
				}
				o, p := w.next(), w.node("a")
				if row.node != nil {
					row.node(w, p)
				}
				if row.then != nil {
					row.then(w, o)
				}
				w.faults.reads = 0
				var k task.Task
				got, err := p.Claim(t.Context(), o, &k)
				w.faults.unreadable, w.faults.refuses = false, false
				if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
					t.Errorf("the error is %v, want %q", err, row.err)
				}
				if reads := w.faults.reads; row.reads >= 0 && reads != row.reads {
					t.Errorf("the history was read %d times, want %d", reads, row.reads)
				}
				w.wantFate(o, got, row.want, row.after)
				is := w.task()
				if is.State != row.is || is.Attempt != row.tries {
					t.Errorf("the task is %s with attempt %d, want %s and %d", is.State, is.Attempt, row.is, row.tries)
				}
				if got && (k.State != is.State || k.Epoch != is.Epoch || k.Node != "a" || k.Attempt != is.Attempt) {
					t.Errorf("node a runs %+v, the log has %+v", k, is)
				}
				for _, f := range verify.Decided(w.log.All()) {
					t.Error(f.What)
				}
			})
		})
	}
}

// wantFate checks what has become of an offer.
func (w *world) wantFate(o *events.Offer, got bool, want string, after time.Duration) {
	w.Helper()
	if got != (want == mine) {
		w.Errorf("the claim returns %v, want %s", got, want)
	}
	is := notMine
	for _, l := range w.log.Leases() {
		if l.Seq != o.Seq {
			continue
		}
		if is = notNow; got {
			is = mine
		}
		if is == notNow && l.Left != after {
			w.Errorf("the offer comes again in %v, want %v", l.Left, after)
		}
	}
	if is != want {
		w.Errorf("the offer is %s, want %s", is, want)
	}
}

// An attempt reports how it ended: what the log then has, and what becomes of the offer.
func TestReport(t *testing.T) {
	for _, row := range []struct {
		name  string
		given func(w *world, k task.Task, o *events.Offer) // before the report
		acked bool
		err   error
		is    task.State
		late  int // facts that keep a report as evidence
	}{
		{name: "it is the first to know", acked: true, is: task.Finished},
		{name: "the answer is lost", given: func(w *world, _ task.Task, _ *events.Offer) { w.faults.lost = func(uint64) {} },
			acked: true, is: task.Finished},
		{name: "the answer is lost, and the log loses that and the claim, and has an end in its place", given: func(w *world, _ task.Task, _ *events.Offer) {
			w.faults.lost = func(uint64) { w.log.Lose(2); w.do(task.Cancel{}) }
		}, err: task.ErrFenced, is: task.Cancelled, late: 1},
		{name: "the log was restored from before the claim, and has gone on", given: func(w *world, _ task.Task, _ *events.Offer) {
			w.log.Lose(1)
			w.submit(job.Spec{})
			w.do(task.Cancel{})
		}, err: claim.ErrNoAttempt, is: task.Cancelled},
		{name: "it has reported this before", given: func(w *world, k task.Task, _ *events.Offer) { w.do(task.Finish{Epoch: k.Epoch}) },
			acked: true, is: task.Finished},
		{name: "a cancel came first", given: func(w *world, _ task.Task, _ *events.Offer) { w.do(task.Cancel{}) },
			acked: true, is: task.Finished},
		{name: "it was given up", given: func(w *world, k task.Task, _ *events.Offer) {
			w.do(task.Lose{Epoch: k.Epoch, Reason: "its node is offline"})
		},
			err: task.ErrFenced, is: task.Pending, late: 1},
		{name: "another node has the task", given: func(w *world, _ task.Task, o *events.Offer) {
			pass(lease)
			w.log.Redeliver(o.Seq, false)
			w.claimedBy("b")
		}, err: task.ErrFenced, is: task.Running, late: 1},
		{name: "the log cannot be written", given: func(w *world, _ task.Task, _ *events.Offer) { w.faults.refuses = true },
			err: errDown, is: task.Running},
		{name: "it was given up, and the log cannot be read", given: func(w *world, k task.Task, _ *events.Offer) {
			w.do(task.Lose{Epoch: k.Epoch, Reason: "its node is offline"})
			w.faults.unreadable = true
		}, err: errDown, is: task.Pending},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.id = w.submit(job.Spec{})
				o, p := w.next(), w.node("a")
				var k task.Task
				if mine, err := p.Claim(t.Context(), o, &k); !mine || err != nil {
					t.Fatal(err)
				}
				if row.given != nil {
					row.given(w, k, o)
				}
				err := p.Report(t.Context(), &k, o, task.Finish{Epoch: k.Epoch})
				w.faults.unreadable, w.faults.refuses = false, false
				if !errors.Is(err, row.err) {
					t.Errorf("the error is %v, want %v", err, row.err)
				}
				if is := w.task(); is.State != row.is {
					t.Errorf("the task is %s, want %s", is.State, row.is)
				}
				acked, late := true, 0
				for _, l := range w.log.Leases() {
					acked = acked && l.Seq != o.Seq
				}
				for _, r := range w.log.All() {
					if _, ok := r.Fact.Event.(task.AttemptLate); ok {
						late++
					}
				}
				if acked != row.acked || late != row.late {
					t.Errorf("acknowledged %v, want %v; %d late reports, want %d", acked, row.acked, late, row.late)
				}
				if errors.Is(row.err, errDown) { // it may be told again
					if err := p.Report(t.Context(), &k, o, task.Finish{Epoch: k.Epoch}); err != nil && !errors.Is(err, task.ErrFenced) {
						t.Errorf("told again: %v", err)
					}
				}
			})
		})
	}
}

// A task that is given back until a time waits as one that is due later, and has failed at nothing.
func TestSnooze(t *testing.T) {
	for name, row := range map[string]struct {
		given func(w *world, k task.Task) // before the report
		is    task.State
	}{
		"it is the first to know": {is: task.Scheduled},
		"its process has died behind the first fact": {given: func(w *world, k task.Task) {
			w.do(task.Release{Epoch: k.Epoch})
		}, is: task.Scheduled},
		"the answer is lost":  {given: func(w *world, _ task.Task) { w.faults.lost = func(uint64) {} }, is: task.Scheduled},
		"a cancel came first": {given: func(w *world, _ task.Task) { w.do(task.Cancel{}) }, is: task.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.id = w.submit(job.Spec{})
				o, p := w.next(), w.node("a")
				var k task.Task
				if mine, err := p.Claim(t.Context(), o, &k); !mine || err != nil {
					t.Fatal(err)
				}
				if row.given != nil {
					row.given(w, k)
				}
				until := time.Now().Add(time.Hour)
				w.must(p.Report(t.Context(), &k, o, task.Release{Epoch: k.Epoch, Reason: "not yet", Until: until}))
				is := w.task()
				if is.State != row.is || is.Failures != 0 || is.Losses != 0 {
					t.Fatalf("the task is %s with %d failures, want %s", is.State, is.Failures, row.is)
				}
				if row.is != task.Scheduled {
					return
				}
				if !is.Due.Equal(until) || is.Message != "not yet" || w.offers.Try() != nil {
					t.Errorf("it is due at %v, for %q, and may be offered now", is.Due, is.Message)
				}
				pass(time.Hour)
				w.claimedBy("b")
				if is := w.task(); is.Attempt != 2 || is.Node != "b" {
					t.Errorf("then attempt %d runs on %s", is.Attempt, is.Node)
				}
			})
		})
	}
}
