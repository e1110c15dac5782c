package claim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/worker/claim"
)

// lease is how long the log waits for news of an offer that it has handed out.
const lease = 30 * time.Second

// world is a log in a bubble of synctest, with one task and the queues that its offers come by.
type world struct {
	*testing.T
	log    *events.Memory
	rec    *events.Recorder
	offers *events.MemoryOffers
	id     task.ID
	faults faults
}

// faults is a log that fails as a row of the table wants.
type faults struct {
	*events.Memory
	// unreadable histories and refuses writes.
	unreadable, refuses bool
	// lost is called once, when a write was stored; its answer is lost.
	lost func(seq uint64)
	// behind, if set, is the first sequence that is missing in what is read.
	behind uint64
	// reads counts how often the history of a task is read.
	reads int
}

var errDown = errors.New("the log is down")

func (f *faults) Append(ctx context.Context, fact *events.Fact, last uint64) (uint64, error) {
	if f.refuses {
		return 0, errDown
	}
	seq, err := f.Memory.Append(ctx, fact, last)
	if lost := f.lost; lost != nil && err == nil {
		f.lost = nil
		lost(seq)
		return 0, fmt.Errorf("%w: the connection was lost", events.ErrUnknown)
	}
	return seq, err
}

func (f *faults) Place(ctx context.Context, fact *events.Fact) (uint64, error) {
	if f.refuses {
		return 0, errDown
	}
	return f.Memory.Place(ctx, fact)
}

func (f *faults) Task(ctx context.Context, id task.ID) ([]events.Record, error) {
	if f.reads++; f.unreadable {
		return nil, errDown
	}
	records, err := f.Memory.Task(ctx, id)
	if f.behind > 0 {
		records = slices.DeleteFunc(slices.Clone(records), func(r events.Record) bool { return r.Seq >= f.behind })
	}
	return records, err
}

func (f *faults) Beginning(ctx context.Context, id task.ID, to uint64) ([]events.Record, error) {
	if f.unreadable {
		return nil, errDown
	}
	if f.behind > 0 && to >= f.behind {
		return nil, nil
	}
	return f.Memory.Beginning(ctx, id, to)
}

// newWorld returns a world without a task.
func newWorld(t *testing.T) *world {
	log := events.NewMemory(time.Now, lease)
	w := &world{T: t, log: log, rec: &events.Recorder{Log: log, Actor: "test", Now: time.Now, NewID: events.NewID}, faults: faults{Memory: log}}
	offers, err := log.Offers(t.Context(), []string{"default", "crawl"})
	if err != nil {
		t.Fatal(err)
	}
	w.offers = offers.(*events.MemoryOffers)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// submit makes a task of a job, as the desk does, and serves its route.
func (w *world) submit(spec job.Spec) task.ID {
	w.Helper()
	if spec.Handler == "" {
		spec.Handler = "h"
	}
	born, err := birth.Of(birth.Submission{Job: "j"}, &job.Job{Name: "j", Spec: spec}, 1, time.Now())
	w.must(err)
	id := task.ID(events.NewID(time.Now()))
	_, err = w.rec.Submit(w.Context(), id, born)
	w.must(err)
	w.must(w.offers.Also(w.Context(), []string{born.Route.Queue()}))
	return id
}

// do records a command on the world's task.
func (w *world) do(c task.Command) {
	w.Helper()
	_, _, err := w.rec.Do(w.Context(), w.task(), c)
	w.must(err)
}

func (w *world) task() task.Task {
	w.Helper()
	t, err := w.rec.Load(w.Context(), w.id)
	w.must(err)
	return t
}

// place makes the log offer the world's task once more, by any event.
func (w *world) place(e task.Event) {
	w.Helper()
	_, err := w.log.Place(w.Context(), w.rec.Fact(w.id, e))
	w.must(err)
}

// next takes the offer that the log hands out next.
func (w *world) next() *events.Offer {
	w.Helper()
	o := w.offers.Try()
	if o == nil {
		w.Fatalf("no offer: %+v", w.log.Leases())
	}
	return o
}

// node returns the protocol of a node, on the log whose faults are those of the row.
func (w *world) node(name string) *claim.Protocol {
	rec := *w.rec
	rec.Log = &w.faults
	return &claim.Protocol{Recorder: &rec, Node: node.ID(name), Session: "session of " + name, Accounts: &events.Accounts{Log: w.log, Beats: w.log, Lease: lease}}
}

// claimedBy makes a node claim the offer that comes next, and returns that offer.
func (w *world) claimedBy(name string) *events.Offer {
	w.Helper()
	o, p := w.next(), w.node(name)
	p.Recorder = w.rec
	var t task.Task
	if mine, err := p.Claim(w.Context(), o, &t); !mine || err != nil {
		w.Fatalf("node %s does not claim: %v", name, err)
	}
	return o
}

// calendar stores a calendar.
func (w *world) calendar(name, rules string) {
	w.Helper()
	def := task.Named(task.DefCalendar, name)
	is, err := w.log.Definition(w.Context(), def)
	w.must(err)
	next, err := is.Next([]byte(`{"name":"` + name + `","rules":[` + rules + `]}`))
	w.must(err)
	event := task.DefinitionApplied{Edition: next}
	_, err = w.log.Append(w.Context(), &events.Fact{ID: events.NewID(time.Now()), At: time.Now(), Type: events.TypeOf(event), Def: def, Event: event}, is.Head)
	w.must(err)
}

// says records what an operator says of the default queue.
func (w *world) says(c queue.Command) {
	w.Helper()
	_, _, err := w.rec.DoQueue(w.Context(), "default", c)
	w.must(err)
}

// admitted makes the world's task one that the rate of its queue has admitted.
func (w *world) admitted() {
	w.Helper()
	w.says(queue.Limit{Rate: &limit.Rate{Limit: 1}})
	o, p := w.next(), w.node("a")
	var t task.Task
	if mine, err := p.Claim(w.Context(), o, &t); mine || err != nil {
		w.Fatalf("the rate does not put it back: %v", err)
	}
	q, err := w.rec.LoadQueue(w.Context(), "default")
	w.must(err)
	w.place(task.AdmittedOffer(w.task(), q.RateSince))
}

// opens opens the breaker of the job.
func (w *world) opens() {
	w.Helper()
	_, _, err := w.rec.DoBreaker(w.Context(), "j", func(limit.Circuit, time.Time) events.Verdict {
		return events.Verdict{Event: limit.Opened{Reason: "all fails", Until: time.Now().Add(time.Minute)}}
	})
	w.must(err)
}

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }

func ptr[T any](v T) *T { return &v }

// drop acknowledges the offer that was placed first.
func (w *world) drop() {
	w.Helper()
	seq := w.log.Leases()[0].Seq
	w.log.Redeliver(seq, true)
	o := w.next()
	if o.Seq != seq {
		w.Fatalf("the offer is #%d, want #%d", o.Seq, seq)
	}
	w.must(o.Ack())
}

// rival places another birth of the world's task, in another queue.
func (w *world) rival(queue string) {
	w.Helper()
	born, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "h"}, Queue: queue}, nil, 0, time.Now())
	w.must(err)
	w.place(born)
}

// fires makes the log accept a timer that nothing has set.
func (w *world) fires(id task.ID, turn uint64) {
	w.Helper()
	_, err := w.log.Place(w.Context(), w.rec.Fact(id, task.Due{After: turn, Route: w.task().Route, Due: time.Now()}))
	w.must(err)
}

// read reads a message as a log does.
func read(text string) (events.Fact, error) { return events.Decode([]byte(text)) }

// noDefinitions is a log whose definitions cannot be read.
type noDefinitions struct{ events.Log }

func (noDefinitions) Definition(context.Context, task.Def) (task.Definition, error) {
	return task.Definition{}, errDown
}

// full takes the only place of the node for the job's tasks, with another one of them.
func full(w *world, p *claim.Protocol) {
	w.Helper()
	w.submit(job.Spec{PerNode: one})
	var t task.Task
	if mine, err := p.Claim(w.Context(), w.next(), &t); !mine || err != nil {
		w.Fatalf("the other task is not claimed: %v", err)
	}
}

// preferring knows one other node.
func preferring(name string, labels map[string]string) claim.Preferring {
	return claim.Preferring{Peers: func(context.Context, *task.Task, string) []duties.Peer {
		return []duties.Peer{{Node: name, Labels: labels}}
	}}
}
