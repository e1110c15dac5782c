package chaos

import (
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// after is a time in a test, in seconds since noon.
func after(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

// story writes a log, message by message.
type story struct{ records []events.Record }

// put adds a message, and returns its sequence.
func (s *story) put(seconds float64, kind events.Kind, about, actor string, event any) uint64 {
	r := events.Record{Seq: uint64(len(s.records) + 1), Stored: after(seconds), Kind: kind}
	r.Fact = events.Fact{At: r.Stored, Type: events.TypeOf(event), Actor: actor, Event: event}
	if kind == events.KindNode {
		r.Fact.Node = node.ID(about)
	} else {
		r.Fact.Task = task.ID(about)
	}
	s.records = append(s.records, r)
	return r.Seq
}

func (s *story) born(seconds float64, id string) uint64 {
	return s.put(seconds, events.KindOffer, id, "chaos", task.Submitted{Work: task.Work{Spec: &job.Spec{}}})
}

func (s *story) chain(seconds float64, id string, e task.Event) uint64 {
	return s.put(seconds, events.KindChain, id, "", e)
}

func (s *story) started(seconds float64, id, n string, tookOver uint64) uint64 {
	e := task.AttemptStarted{Attempt: 1, Node: n, Session: n}
	if tookOver > 0 {
		e.TookOver = &task.TookOver{Epoch: tookOver}
	}
	return s.chain(seconds, id, e)
}

func (s *story) finished(seconds float64, id string, epoch uint64) {
	s.chain(seconds, id, task.AttemptFinished{Attempt: 1, Epoch: epoch})
}

// joined is a node that registers and goes online.
func (s *story) joined(seconds float64, n string) {
	s.put(seconds, events.KindNode, n, n, node.Registered{Session: n})
	s.put(seconds, events.KindNode, n, n, node.WentOnline{Session: n})
}
