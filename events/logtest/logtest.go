// Package logtest has the suite that every [events.Log] passes, and [Faulty], a
// log that loses answers.
//
// The suite only uses the port of the log, except for the hook [Options.Garbage]: the port has no
// way to store a message that is not a fact.
//
// Beside it are the histories of tasks that the tests of the packages below task share.
package logtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

// Options describe what the suite cannot see of a log.
type Options struct {
	// AckWait is the length of leases in the log under test. Default 1s.
	AckWait time.Duration
	// Around runs the body of each case, for example in a synctest bubble, where
	// the waits of the suite take no time. Default: calls body.
	Around func(t *testing.T, body func(t *testing.T))
	// Garbage stores a message that is not a fact on the chain of a task. Without it, the suite
	// omits the case that needs it.
	Garbage func(t *testing.T, log events.Log, about events.Fact, raw []byte)
	// Only are the names of the cases that run. Default: all. A name that no case has fails the test.
	Only []string
}

// patience is how long the suite waits for expected events; only a failure takes that long.
const patience = time.Minute

// timerError is how late a timer may be, beside what the machine withholds from each of the goroutines,
// about hands, through which a message passes on its way: here, and on three servers.
const (
	timerError = 2 * time.Second
	hands      = 20
)

// Run checks a log against the contract of [events.Log], and of [events.Timers], [events.Follower]
// and [events.Offerer], which it must implement as well. Each case opens an empty log; open should
// use t.Cleanup to close it.
func Run(t *testing.T, open func(t *testing.T) events.Log, options ...Options) {
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	if o.AckWait == 0 {
		o.AckWait = time.Second
	}
	if o.Around == nil {
		o.Around = func(t *testing.T, body func(*testing.T)) { body(t) }
	}
	starved := testkit.Starvation(t)
	ran := map[string]bool{}
	for _, group := range [][]testCase{chainCases, definitionCases, readCases, followCases, timerCases, offerCases, keeperCases, recorderCases, birthCases, beatCases, trimCases} {
		for _, c := range group {
			if c.garbage && o.Garbage == nil || o.Only != nil && !slices.Contains(o.Only, c.name) {
				continue
			}
			ran[c.name] = true
			t.Run(c.name, func(t *testing.T) {
				o.Around(t, func(t *testing.T) {
					log := open(t)
					c.body(&suite{
						T:       t,
						log:     log,
						timers:  is[events.Timers](t, log),
						all:     is[events.Follower](t, log),
						offerer: is[events.Offerer](t, log),
						o:       o,
						late:    func() time.Duration { return timerError + hands*starved() },
					})
				})
			})
		}
	}
	for _, name := range o.Only {
		if !ran[name] {
			t.Errorf("no case is %q", name)
		}
	}
}

// is returns a log as another of its ports.
func is[Port any](t *testing.T, log events.Log) Port {
	t.Helper()
	p, ok := log.(Port)
	if !ok {
		t.Fatalf("the log is no %v", reflect.TypeFor[Port]())
	}
	return p
}

type testCase struct {
	name    string
	body    func(s *suite)
	garbage bool // needs the hook
}

// suite is one running case.
type suite struct {
	*testing.T
	log     events.Log
	timers  events.Timers
	all     events.Follower
	offerer events.Offerer
	o       Options
	late    func() time.Duration // how late a timer may be
	ids     atomic.Uint64
}

// id returns a new ULID. Every run has the same ones.
func (s *suite) id() string { return fmt.Sprintf("01JNA0%020d", s.ids.Add(1)) }

func (s *suite) task() task.ID { return task.ID(s.id()) }

// context ends when an expected event has not come.
func (s *suite) context() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	s.Cleanup(cancel)
	return ctx
}

// wait lets time pass, where the passing of time is the subject of the case.
func (s *suite) wait(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.Context().Done():
		s.Fatal("the test ended while it waited")
	}
}

func (s *suite) fact(id task.ID, e task.Event) *events.Fact {
	return &events.Fact{ID: s.id(), At: now(), Type: events.TypeOf(e), Task: id, Actor: "logtest", Event: e}
}

func (s *suite) nodeFact(id node.ID, e node.Event) *events.Fact {
	return &events.Fact{ID: s.id(), At: now(), Type: events.TypeOf(e), Node: id, Event: e}
}

func now() time.Time { return time.Now().UTC().Round(0) }

func work(queue string) task.Work {
	return task.Work{Spec: &job.Spec{Handler: "noop"}, Route: placement.QueueRoute(queue, placement.DefaultPriority)}
}

// note is an event that any chain accepts.
func note(text string) task.Event { return task.GivenUp{Reason: value.Expired, Detail: text} }

func (s *suite) append(f *events.Fact, last uint64) uint64 {
	s.Helper()
	seq, err := s.log.Append(s.context(), f, last)
	if err != nil {
		s.Fatalf("Append(%s, at %d): %v", f.Type, last, err)
	}
	return seq
}

func (s *suite) place(f *events.Fact) uint64 {
	s.Helper()
	seq, err := s.log.Place(s.context(), f)
	if err != nil {
		s.Fatalf("Place(%s): %v", f.Type, err)
	}
	return seq
}

func (s *suite) arm(f *events.Fact) {
	s.Helper()
	if err := s.log.Arm(s.context(), f); err != nil {
		s.Fatalf("Arm(%s): %v", f.Type, err)
	}
}

func (s *suite) history(id task.ID) []events.Record {
	s.Helper()
	records, err := s.log.Task(s.context(), id)
	if err != nil {
		s.Fatalf("Task(%s): %v", id, err)
	}
	return records
}

func (s *suite) offers(queues ...string) events.Offers {
	s.Helper()
	offers, err := s.offerer.Offers(s.context(), queues)
	if err != nil {
		s.Fatalf("Offers(%v): %v", queues, err)
	}
	s.Cleanup(offers.Close)
	return offers
}

func (s *suite) next(from events.Offers) *events.Offer {
	s.Helper()
	offer, err := from.Next(s.context())
	if err != nil {
		s.Fatalf("Next: %v; an offer was to come", err)
	}
	return offer
}

// following returns the next offer after one that was acknowledged. If the machine was suspended, the
// lease of that one may have expired before the server read the acknowledgement: it then
// comes again, a lease after it was placed at the earliest.
func (s *suite) following(from events.Offers, acked *events.Offer, placed time.Time) *events.Offer {
	s.Helper()
	for {
		offer := s.next(from)
		if offer.Seq != acked.Seq {
			return offer
		}
		if after := time.Since(placed); after < s.o.AckWait {
			s.Fatalf("offer %d came again %v after it was placed, and was acknowledged", offer.Seq, after)
		}
		s.ack(offer)
	}
}

// nothing checks that no offer comes for a while.
func (s *suite) nothing(from events.Offers, while time.Duration) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), while)
	defer cancel()
	offer, err := from.Next(ctx)
	if err == nil {
		s.Fatalf("Next gave offer %d of task %s (delivery %d); none was to come", offer.Seq, offer.Fact.Task, offer.Deliveries)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Fatalf("Next: %v, want the error of the context", err)
	}
}

// holds checks that no offer comes to others for a while than to the holder of the lease. It is
// false if one came when the lease had expired before its last renewal reached the server: a
// suspended machine keeps no lease. Word is therefore the time of the last renewal but one, or of
// the first if there is no other.
func (s *suite) holds(others events.Offers, while time.Duration, word time.Time) bool {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), while)
	defer cancel()
	offer, err := others.Next(ctx)
	if err == nil {
		after := time.Since(word)
		if after < s.o.AckWait {
			s.Fatalf("offer %d of task %s came again (delivery %d) %v after a word that holds for %v",
				offer.Seq, offer.Fact.Task, offer.Deliveries, after, s.o.AckWait)
		}
		s.Logf("offer %d came again %v after the last word but one: too late to tell anything", offer.Seq, after)
		s.ack(offer)
		return false
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		s.Fatalf("Next: %v, want the error of the context", err)
	}
	return true
}

// until repeats a case until its outcome is conclusive, each time with new sources of offers: this
// machine may be suspended for longer than a lease.
func (s *suite) until(told func(mine, others events.Offers) bool) {
	s.Helper()
	s.repeat(func() bool {
		mine, others := s.offers("default"), s.offers("default")
		defer mine.Close()
		defer others.Close()
		return told(mine, others)
	})
}

// repeat repeats a case until it tells that its outcome is conclusive.
func (s *suite) repeat(told func() bool) {
	s.Helper()
	for range 20 {
		if told() {
			return
		}
	}
	s.Fatalf("this machine stood still for longer than a lease of %v, 20 times", s.o.AckWait)
}

func (s *suite) ack(offer *events.Offer) {
	s.Helper()
	if err := offer.Ack(); err != nil {
		s.Fatalf("Ack of offer %d: %v", offer.Seq, err)
	}
}

// same checks that a record equals the written fact, at its place.
func (s *suite) same(got *events.Record, kind events.Kind, seq uint64, want *events.Fact) {
	s.Helper()
	if got.Err != nil {
		s.Fatalf("record %d: %v", got.Seq, got.Err)
	}
	if got.Seq != seq || got.Kind != kind {
		s.Errorf("got record %d of kind %d, want %d of kind %d", got.Seq, got.Kind, seq, kind)
	}
	raw, err := events.Encode(nil, want)
	if err != nil {
		s.Fatal(err)
	}
	if again, err := events.Encode(nil, &got.Fact); err != nil || !bytes.Equal(again, raw) {
		s.Errorf("record %d holds\n%s (%v), want\n%s", got.Seq, again, err, raw)
	}
	if !json.Valid(got.Raw) || !bytes.Equal(got.Raw, raw) {
		s.Errorf("record %d has the raw form\n%s, want\n%s", got.Seq, got.Raw, raw)
	}
	if away := time.Since(got.Stored).Abs(); away > time.Minute {
		s.Errorf("record %d says that it was stored %v away from now", got.Seq, away)
	}
	if got.Place == "" {
		s.Errorf("record %d does not say where it is kept", got.Seq)
	}
}

func sequences(records []events.Record) []uint64 {
	seqs := make([]uint64, len(records))
	for i := range records {
		seqs[i] = records[i].Seq
	}
	return seqs
}
