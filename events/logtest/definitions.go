package logtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
)

var definitionCases = []testCase{
	{name: "definitions are compared and set on chains of their own", body: definitionChains},
	{name: "of two who define at once one wins", body: definedAtOnce},
	{name: "a definition of the largest size", body: largeDefinition},
}

// definitionFact is the next fact of a definition; of its removal if text is nil.
func (s *suite) definitionFact(def task.Def, was *task.Definition, text []byte) *events.Fact {
	s.Helper()
	next, err := was.Next(text)
	if err != nil {
		s.Fatal(err)
	}
	var event any = task.DefinitionApplied{Edition: next}
	if text == nil {
		event = task.DefinitionRemoved{Revision: next.Revision}
	}
	return &events.Fact{ID: s.id(), At: now(), Actor: "ada", Type: events.TypeOf(event), Def: def, Event: event}
}

func definitionChains(s *suite) {
	feed := s.follow(1)
	// Chains of the same name beside them do not move them.
	s.append(&events.Fact{ID: s.id(), At: now(), Type: events.BreakerOpened, Job: "a", Event: limit.Opened{Reason: "r", Until: now()}}, 0)
	s.append(&events.Fact{
		ID:       s.id(),
		At:       now(),
		Type:     events.ScheduleQueued,
		Schedule: "a",
		Event:    task.ScheduleQueued{Revision: 1, Tick: now(), Trigger: task.TriggerSchedule},
	}, 0)
	total := 2
	for _, kind := range []string{task.DefJob, task.DefSchedule, task.DefBundle} {
		def := task.Named(kind, "a")
		var is task.Definition
		for n, text := range [][]byte{[]byte(`{"name":"a","n":1}`), []byte(`{"name":"a", "n":2, "html":"<&>"}`), nil, []byte(`{"name":"a","n":4}`)} {
			f := s.definitionFact(def, &is, text)
			if n > 0 {
				if _, err := s.log.Append(s.context(), f, 0); !errors.Is(err, events.ErrConflict) {
					s.Fatalf("%s: defined at 0 once more: %v, want ErrConflict", def, err)
				}
			}
			is = task.EvolveDefinition(is, s.append(f, is.Head), f.At, f.Actor, f.Event.(task.DefinitionEvent))
			total++
		}
		s.append(s.definitionFact(task.Named(kind, "b"), &task.Definition{}, []byte(`{"name":"b"}`)), 0) // another name, another chain
		total++
		var chain []events.Record
		for _, r := range s.read(feed, total) {
			if r.Kind == events.KindDefinition && r.Fact.Def == def {
				chain = append(chain, r)
			}
		}
		total = 0
		var so task.Definition
		for j := range chain {
			e, ok := chain[j].Fact.Event.(task.DefinitionEvent)
			if !ok {
				s.Fatalf("%s: record %d is %+v", def, j, chain[j])
			}
			if err := so.Follows(e); err != nil {
				s.Errorf("%s: record %d: %v", def, j, err)
			}
			so = events.FoldDefinition(chain[:j+1])
		}
		if now, err := s.log.Definition(s.context(), def); err != nil || now.Head != so.Head || now.Revision != 4 || string(now.Text) != string(so.Text) {
			s.Errorf("%s: the log has it as %+v (%v), want %+v", def, now, err, so)
		}
		if never, err := s.log.Definition(s.context(), task.Named(kind, "never")); err != nil || never.Head != 0 || never.Exists() {
			s.Errorf("%s: of what never was the log has %+v, %v", def, never, err)
		}
		if len(chain) != 4 || so.Revision != 4 || so.Head != is.Head || string(so.Text) != `{"name":"a","n":4}` || so.Digest != is.Digest || so.Actor != "ada" || !so.Changed.Equal(is.Changed) {
			s.Errorf("%s: %d facts add up to %+v, want %+v", def, len(chain), so, is)
		}
	}
}

func definedAtOnce(s *suite) {
	var head uint64
	var is task.Definition
	for round := range 8 {
		head = s.race(4, head, func(w int) *events.Fact {
			return s.definitionFact("job.a", &is, fmt.Appendf(nil, `{"round":%d,"writer":%d}`, round, w))
		})
		is.Revision++
	}
}

func largeDefinition(s *suite) {
	frame := `{"name":"a","x":""}`
	text := json.RawMessage(strings.Replace(frame, `""`, `"`+strings.Repeat("x", task.MaxDefinition-len(frame))+`"`, 1))
	feed := s.follow(1)
	var none task.Definition
	if _, err := none.Next(append(text, ' ')); !errors.Is(err, task.ErrLongDefinition) {
		s.Errorf("a definition of %d bytes: %v, want ErrLongDefinition", len(text)+1, err)
	}
	s.append(s.definitionFact("job.a", &none, text), 0)
	records := s.read(feed, 1)
	if is := events.FoldDefinition(records); string(is.Text) != string(text) || task.DigestOf(is.Text) != is.Digest {
		s.Errorf("a definition of %d bytes comes back with %d", len(text), len(is.Text))
	}
}
