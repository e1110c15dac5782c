package view

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// story is a log under construction: one fact per second.
type story struct {
	t       *testing.T
	records []events.Record
	ids     int
}

func (s *story) now() time.Time { return noon.Add(time.Duration(len(s.records)) * time.Second) }

// add appends a fact and returns its sequence.
func (s *story) add(kind events.Kind, f events.Fact) uint64 {
	seq := uint64(len(s.records) + 1)
	f.At, f.Type = s.now(), events.TypeOf(f.Event)
	s.records = append(s.records, events.Record{Seq: seq, Stored: s.now(), Kind: kind, Fact: f, Place: "place", Raw: []byte("raw")})
	return seq
}

// submit records the birth of a task and returns its id.
func (s *story) submit(sub birth.Submission) task.ID {
	s.t.Helper()
	if sub.Spec == nil {
		sub.Spec = &job.Spec{Handler: "resize"}
	}
	return s.bear(sub, nil)
}

// bear records the birth of a task, perhaps of a job, and returns its id.
func (s *story) bear(sub birth.Submission, of *job.Job) task.ID {
	s.t.Helper()
	s.ids++
	id := task.ID("01JD6Z8V3M0QK4T7W2X9Y5AB0" + string(rune('A'+s.ids)))
	birth, err := birth.Of(sub, of, 0, s.now())
	if err != nil {
		s.t.Fatal(err)
	}
	s.add(events.KindOffer, events.Fact{Task: id, Event: birth})
	return id
}

// on appends a transition of a task.
func (s *story) on(id task.ID, e task.Event) uint64 {
	return s.add(events.KindChain, events.Fact{Task: id, Event: e})
}

// start begins an attempt on a node and returns its epoch.
func (s *story) start(id task.ID, on string) uint64 {
	t := events.FoldTask(id, s.about(Task(id)))
	return s.on(id, task.AttemptStarted{Attempt: t.Attempt + 1, Node: on, Session: "s-" + on, Offer: t.Seq})
}

func (s *story) finish(id task.ID, epoch uint64) {
	exit := 0
	s.on(id, task.AttemptFinished{Epoch: epoch, Exit: &exit})
}

func (s *story) fail(id task.ID, epoch uint64, message string) {
	s.on(id, task.AttemptFailed{Epoch: epoch, Class: value.Exit, Message: message})
}

// ready brings a node up that serves a queue.
func (s *story) ready(id node.ID, queue string, labels map[string]string) {
	session := "s-" + string(id)
	for _, e := range []node.Event{
		node.Registered{Session: session, Profile: node.Profile{Slots: 2, Queues: []string{queue}, Labels: labels, Probes: true}},
		node.WentOnline{Session: session, Connection: 1}, node.BecameReady{Session: session, Connection: 1},
	} {
		s.node(id, e)
	}
}

func (s *story) node(id node.ID, e node.Event) {
	s.add(events.KindNode, events.Fact{Node: id, Event: e})
}

func (s *story) about(ref Ref) []events.Record {
	s.t.Helper()
	records, err := Slice(s.records).About(s.t.Context(), ref)
	if err != nil {
		s.t.Fatal(err)
	}
	return records
}

// end is the world after all records.
func (s *story) end() *World { return Past(s.records, Moment{}) }

// at is the world after a sequence.
func (s *story) at(seq uint64) *World { return Past(s.records, Moment{Seq: seq}) }
