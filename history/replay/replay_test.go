package replay

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// story is a log under construction: one fact per second, unless it takes longer.
type story struct {
	t       testing.TB
	records []events.Record
	now     time.Time
	tasks   int
}

func newStory(t testing.TB) *story { return &story{t: t, now: noon} }

func (s *story) add(kind events.Kind, f events.Fact) uint64 {
	s.t.Helper()
	s.now = s.now.Add(time.Second)
	seq := uint64(len(s.records) + 1)
	f.ID, f.At, f.Type = fmt.Sprintf("01JNAF%020d", seq), s.now, events.TypeOf(f.Event)
	raw, err := events.Encode(nil, &f)
	if err != nil {
		s.t.Fatal(err)
	}
	s.records = append(s.records, events.Record{Seq: seq, Stored: s.now, Kind: kind, Fact: f, Place: "mr." + kind.String() + "." + f.About(), Raw: raw})
	return seq
}

func (s *story) node(id node.ID, e node.Event) uint64 {
	return s.add(events.KindNode, events.Fact{Node: id, Event: e})
}

// ready brings a node up that serves a queue: three facts.
func (s *story) ready(id node.ID, queue string) {
	session := "s-" + string(id)
	s.node(id, node.Registered{Session: session, Profile: node.Profile{Slots: 2, Queues: []string{queue}, Probes: true}})
	s.node(id, node.WentOnline{Session: session, Connection: 1})
	s.node(id, node.BecameReady{Session: session, Connection: 1})
}

func (s *story) submit(queue string, retries int) task.ID {
	s.t.Helper()
	s.tasks++
	id := task.ID(fmt.Sprintf("01JNAT%020d", s.tasks))
	birth, err := birth.Of(birth.Submission{Queue: queue, Spec: &job.Spec{Handler: "work", Retry: job.Retry{Max: retries}}}, nil, 0, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	s.add(events.KindOffer, events.Fact{Task: id, Event: birth})
	return id
}

func (s *story) on(id task.ID, by *task.By, e task.Event) uint64 {
	return s.add(events.KindChain, events.Fact{Task: id, Actor: "a", By: by, Event: e})
}

func (s *story) start(id task.ID, attempt int, on string) uint64 {
	return s.on(id, nil, task.AttemptStarted{Attempt: attempt, Node: on, Session: "s-" + on, Offer: uint64(len(s.records))})
}

func (s *story) span(from int) *Span {
	s.t.Helper()
	span := NewSpan(1)
	for i := range s.records {
		if err := span.Add(&s.records[i], i+1 >= from); err != nil {
			s.t.Fatal(err)
		}
	}
	return span
}

var judged = Config{
	Rules:  view.Rules{Task: duties.Settings{StartDeadline: 5 * time.Minute, AckWait: 30 * time.Second, Slack: 3 * time.Second, Timer: 15 * time.Second}, Node: node.Settings{TTL: 10 * time.Second}},
	Margin: 15 * time.Second,
	Time: func(text string, near time.Time) (time.Time, error) {
		at, err := time.Parse("15:04:05", text)
		return near.Truncate(24 * time.Hour).Add(at.Sub(at.Truncate(24 * time.Hour))), err
	},
}

func (s *story) session(from int, focus Focus) *Session {
	s.t.Helper()
	c := judged
	c.Focus = focus
	x, err := New(s.span(from), c)
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

// tale has a task that fails, is retried on another node and succeeds, one that is never claimed,
// and more.
func tale(t testing.TB) (s *story, a, b task.ID) {
	s = newStory(t)
	s.ready("a", "images") // 1 to 3
	s.ready("b", "images") // 4 to 6
	a = s.submit("images", 2)
	epoch := s.start(a, 1, "a") // 8
	s.on(a, &task.By{Drawn: 0.5}, task.AttemptFailed{Attempt: 1, Epoch: epoch, Class: value.Exit, Message: "no room",
		Retry: &task.RetryPlan{Attempt: 2, Due: s.now.Add(2 * time.Second)}})
	b = s.submit("bulk", 0) // 10
	s.add(events.KindQueue, events.Fact{Queue: "bulk", Actor: "kim", Event: queue.Paused{Reason: "too loud"}})
	s.add(events.KindOffer, events.Fact{Task: a, Event: task.Queued{Work: task.Work{Spec: &job.Spec{Handler: "work", Retry: job.Retry{Max: 2}}, Route: placement.QueueRoute("images", 5)}, Attempt: 2, After: 9}})
	epoch = s.start(a, 2, "b") // 13
	exit := 0
	s.on(a, nil, task.AttemptFinished{Attempt: 2, Epoch: epoch, Exit: &exit}) // 14
	s.records = append(s.records, events.Record{Seq: 15, Stored: s.now, Kind: events.KindChain, Err: errors.New("no JSON"), Raw: []byte("???"), Place: "mr.task.x"})
	s.add(events.KindQueue, events.Fact{Queue: "bulk", Actor: "kim", Event: queue.Resumed{}})
	s.now = s.now.Add(6 * time.Minute) // no node serves bulk
	s.node("a", node.WentOffline{Session: "s-a", Reason: "silent"})
	return s, a, b
}

// Each line is a command. Behind => is the resulting sequence, or a part of the answer.
func TestCommands(t *testing.T) {
	s, a, b := tale(t)
	for name, script := range map[string]string{
		"any":          "s => 1; s => 2; s 3 => 5; S => 4; rs 2 => 2; g 16 => 16; s => 17; s => none; g start => 0; S => none",
		"focus":        "o task " + string(a) + "; n => 7; n => 8; n 2 => 12; N => 9; rn => 8; rev n => 7; N => none",
		"part of id":   "o task 00000001; n => 7",
		"state":        "o task " + string(a) + "; f => 7; f => 8; f => 9; f => 12; f => 13; f => 14; f => none; F => 13; F => 12; F => 9; F => 8; F => 7; F => none",
		"node":         "o node b; n => 4; n 2 => 6; n => 13; n => 14; n => none; N => 13; N => 6",
		"queue":        "o queue bulk; n => 10; n => 11; n => 16; n => none",
		"type":         "b type attempt.started; c => 8; c => 13; c => none; C => 8; C => none",
		"kind of type": "b type attempt; c => 8; c => 9; c => 13; c => 14; c => none",
		"of nodes":     "b state ready; c => 3; c => 6; c => none",
		"of tasks":     "b state running; c => 8; c => 13; c => none; rc => 8",
		"on a node":    "b node b; g 6; c => 13; c => 14; c => none",
		"condition":    "b state running if task.attempt > 1; c => 13; c => none",
		"expression":   `b task.failures > 0 and type startsWith "attempt"; c => 9; c => 13; c => 14; c => none; C => 13`,
		"if":           "break if seq == 4; continue => 4",
		"late":         "b late; c => 16; p now() => 12:05:15; c => none; C => none",
		"late, if":     `b late if type == "queue.paused"; c => none`,
		"late, which":  `b late if task.id == "` + string(b) + `" and now() > date("2020-01-01"); c => 16; c => none`,
		"late, other":  `b late if task.id == "` + string(a) + `"; c => none`,
		"unreadable":   "b type unreadable; c => 15; s => 16",
		"several":      "b type attempt.failed; b state retrying; c => 9; c => none; b => 2 breakpoints; x 1 => 1 removed; x 1 => !no such; x all => 1 removed; c => !no breakpoint",
		"watch":        "o task " + string(a) + "; w attempt => 8; w attempt => 13; w attempt => none; g 14; w! attempt => 13; w! attempt => 13; w! node => 13; g 12; w! node => 8; rev w failures => none",
		"goto":         "g 12:00:08 => 8; g +3s => 11; g -3s => 8; g end => 17; g #4 => 4; g 99 => !from 1 to 17; g 11:00:00 => 0; g soon => !cannot parse",
		"find":         "/ no room => 9; / no room => none; /too loud => 11; / too loud => none; /! no room => 9; rev / no room => none; / => !say what",
		"marks":        `g 8; m began "the first one" => 8; g 14; m; ' began => 8; 'began => 8; ' => 2 marks; ' bagan => !did you mean began; g began => 8`,
		"causes":       "g 13; k => 13 12 9 8 7; g 9; K => 9 12",
		"print":        "g 9; p task.state => retrying; p task.message => no room; p seq + 1 => 10; p node.state => unknown; p tusk.state => !unknown name; o task " + string(b) + "; g 11; p task.state => pending",
		"errors":       "contine => !did you mean continue; zz => !`?` lists; s x => !no number; w state => !o task ID; f => !o task ID; o task 0009 => !; o nodes b => !want; b type attempt.strated => !did you mean attempt.started; b state runing => !did you mean running; b broken I-99 => !I-99; b state cordoned => !there are scheduled, held, pending, running, retrying, cancelling, finished, error, cancelled, abnormal, online, ready, draining, quarantined, offline, retired; b state unknown => !there is no state; b task.stat == 1 => !did you mean state; b fact.class > 3 => !> does not go with a text and a number; rev g 4 => !backwards",
		"when":         "g 8; . => 8; when => 8; ? => ",
	} {
		t.Run(name, func(t *testing.T) { play(t, s.session(0, Focus{}), script) })
	}
}

func play(t *testing.T, x *Session, script string) {
	t.Helper()
	for _, line := range Split(script) {
		do, want, told := strings.Cut(line, " => ")
		if !told {
			do, want, _ = strings.Cut(line, " =>")
		}
		answer, err := x.Do(t.Context(), do)
		have := ""
		switch {
		case err != nil:
			have = "!" + err.Error()
		case answer.None:
			have = "none"
		case len(answer.Lines) > 0:
			for _, l := range answer.Lines {
				have += fmt.Sprint(l.Seq) + " "
			}
		case answer.Marks != nil && answer.Says == "":
			have = fmt.Sprint(answer.Marks[0].Seq)
		case answer.Frame != nil:
			have = fmt.Sprint(answer.Seq)
		default:
			have = string(answer.Value) + answer.Says
		}
		have = strings.TrimSpace(have)
		switch part, fails := strings.CutPrefix(want, "!"); {
		case fails:
			if err == nil || !strings.Contains(have, part) {
				t.Fatalf("%s: %s, want an error with %q", do, have, part)
			}
		case err != nil:
			t.Fatalf("%s: %v", do, err)
		case want == "":
		case want != have && (answer.Frame != nil || !strings.Contains(have, want)):
			t.Fatalf("%s: %s, want %s", do, have, want)
		}
	}
}

// A point looks the same however it was reached, and regardless of later facts in the log.
func TestForwardAndBack(t *testing.T) {
	s, a, _ := tale(t)
	for _, from := range []int{0, 8} {
		for _, focus := range []Focus{{}, {"task", string(a)}, {"node", "b"}} {
			bothWays(t, s.session(from, focus))
		}
	}
}

// bothWays steps to the end of a span and back, and returns the frames.
func bothWays(t *testing.T, x *Session) (frames []*Frame) {
	t.Helper()
	for _, way := range []string{"s", "n"} {
		back := map[string]string{"s": "S", "n": "N"}[way]
		if _, err := x.Do(t.Context(), "g start"); err != nil {
			t.Fatal(err)
		}
		frames = nil
		for {
			answer, err := x.Do(t.Context(), way)
			if err != nil {
				t.Fatal(err)
			}
			if answer.None {
				break
			}
			frames = append(frames, answer.Frame)
		}
		if len(frames) == 0 {
			t.Fatal("there is nothing to step through")
		}
		for i := len(frames) - 2; i >= 0; i-- {
			answer, err := x.Do(t.Context(), back)
			if err != nil || answer.None || !reflect.DeepEqual(answer.Frame, frames[i]) {
				t.Fatalf("%s to #%d: %+v, %v; forward it was %+v", back, frames[i].Seq, answer.Frame, err, frames[i])
			}
		}
	}
	return frames
}

func TestFrame(t *testing.T) {
	s, a, b := tale(t)
	at := func(seq int) *Frame {
		t.Helper()
		answer, err := s.session(0, Focus{}).Do(t.Context(), fmt.Sprint("g ", seq))
		if err != nil {
			t.Fatal(err)
		}
		return answer.Frame
	}
	field := func(f *Frame, name string) string {
		for _, c := range f.Changed {
			if c.Field == name {
				return string(c.Was) + ">" + string(c.Is)
			}
		}
		return ""
	}
	started := at(8)
	for what, is := range map[string][2]any{
		"state":    {field(started, "state"), `"pending">"running"`},
		"node":     {field(started, "node"), `>"a"`},
		"about":    {started.About, "task " + string(a)},
		"queues":   {started.Queues, []Count{{Name: "images", State: task.Pending, Was: 1}, {Name: "images", State: task.Running, Is: 1}}},
		"nodes":    {started.Nodes, []Count{{Name: "a", State: task.Running, Is: 1, Slots: 2}}},
		"taken":    {started.Decision.Nodes[0].Taken, true},
		"slots":    {started.Decision.Nodes[1].Slots, 2},
		"other":    {string(started.Decision.Nodes[1].Node), "b"},
		"before":   {started.Owed.Before.Who, "worker"},
		"after":    {started.Owed.After.Who, "node a"},
		"a birth":  {field(at(7), "state"), `>"pending"`},
		"no owed":  {at(14).Owed.After, (*Duty)(nil)},
		"by":       {at(9).Decision.By.Drawn, 0.5},
		"error":    {at(15).Error, "no JSON"},
		"a node":   {at(3).Owed.Before.Who, "its worker"},
		"offline":  {field(at(17), "state"), `"ready">"offline"`},
		"nothing":  {len(at(0 + 15).Changed), 0},
		"of queue": {field(at(11), "paused.reason"), `>"too loud"`},
	} {
		if !reflect.DeepEqual(is[0], is[1]) {
			t.Errorf("%s: %+v, want %+v", what, is[0], is[1])
		}
	}
	x := s.session(0, Focus{})
	if _, err := x.Do(t.Context(), "b late"); err != nil {
		t.Fatal(err)
	}
	late, err := x.Do(t.Context(), "c")
	if err != nil || late.Stop == nil || late.Stop.About != "task "+string(b) || !late.Time.Equal(noon.Add(5*time.Minute+15*time.Second)) || late.Changed != nil ||
		!strings.Contains(late.Stop.Why, `start a worker that serves queue "bulk"`) || late.Owed == nil || late.Owed.After.Who != "operator" {
		t.Errorf("late: %+v, %+v, %v", late.Frame, late.Stop, err)
	}
}

// A span begins with the sum of the facts before it.
func TestBegin(t *testing.T) {
	s, _, _ := tale(t)
	whole, part := s.session(0, Focus{}), s.session(9, Focus{})
	play(t, part, "s => 9; S => 0; b state running; c => 13; c => none; C => none; g 8 => !from 9 to 17")
	play(t, whole, "g 13")
	play(t, part, "g 13")
	a, err := whole.Frame(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := part.Frame(t.Context())
	a.Nth, a.Of = b.Nth, b.Of
	if err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%+v, %v; in the whole log it is %+v", b, err, a)
	}
}

// A duty that is due at once is late only after a moment has passed.
func TestOwedAtOnce(t *testing.T) {
	for pause, hits := range map[time.Duration]int{0: 0, 5 * time.Second: 1} {
		s := newStory(t)
		s.ready("a", "images")
		a := s.submit("images", 0)
		epoch := s.start(a, 1, "a")
		s.node("a", node.WentOffline{Session: "s-a"})
		s.now = s.now.Add(pause)
		s.on(a, nil, task.AttemptLost{Attempt: 1, Epoch: epoch, Reason: "node a is offline"})
		answer, err := s.session(0, Focus{}).Do(t.Context(), "b late")
		if err != nil || answer.Set.Hits != hits {
			t.Errorf("lost after %v more: %+v, %v, want %d hits", pause, answer.Set, err, hits)
		}
	}
}

func TestNothingToLookAt(t *testing.T) {
	s, _, _ := tale(t)
	if _, err := New(s.span(0), Config{Focus: Focus{"node", "zebra"}}); err == nil || !strings.Contains(err.Error(), "no event about node zebra") {
		t.Error(err)
	}
	x, err := New(NewSpan(1), judged)
	if err != nil {
		t.Fatal(err)
	}
	play(t, x, "s => none; S => none; n => none; b type attempt; c => none; C => none; g end => 0; g start => 0; k => !before the first; p seq => !before the first")
}

func TestOrderOfTheLog(t *testing.T) {
	s, _, _ := tale(t)
	span := NewSpan(1)
	if err := errors.Join(span.Add(&s.records[1], true), span.Add(&s.records[0], true)); !errors.Is(err, errBackwards) {
		t.Error(err)
	}
}

// A cancelled pass ends.
func TestInterrupted(t *testing.T) {
	s, _, _ := tale(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := s.session(0, Focus{})
	for _, do := range []string{"b late", "b broken", "b seq > 1", "b type attempt"} {
		if _, err := x.Do(ctx, do); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", do, err)
		}
	}
}

// A claim in the name of another node's session breaks a promise, where it happens.
func TestBreaksAtTheSessionOfAnotherNode(t *testing.T) {
	s, _, _ := tale(t)
	play(t, s.session(0, Focus{}), "b broken I-7; c => 12; c => none") // the tale's offer comes too late
	claim := &s.records[7]
	e := claim.Fact.Event.(task.AttemptStarted)
	e.Session = "s-b"
	claim.Fact.Event = e
	raw, err := events.Encode(nil, &claim.Fact)
	if err != nil {
		t.Fatal(err)
	}
	claim.Raw = raw
	play(t, s.session(0, Focus{}), "b broken I-7; c => 8; c => none")
}

// Counts are right for any distance to the nearest mark.
func TestCountsBetweenMarks(t *testing.T) {
	s := newStory(t)
	for range 3 * markEvery {
		s.submit("bulk", 0)
	}
	span := s.span(0)
	for _, pos := range []int{-1, 0, 1, markEvery - 2, markEvery - 1, markEvery, 2*markEvery + 5, 3*markEvery - 1} {
		if have := span.tallyAt(pos, []place{{queue: span.words.of("bulk"), state: task.Pending}})[0]; int(have) != pos+1 {
			t.Errorf("behind fact %d: %d wait", pos+1, have)
		}
	}
}

// A subject with many facts equals the fold of all of them.
func TestLongChain(t *testing.T) {
	s := newStory(t)
	s.ready("a", "images")
	for i := range 100 {
		s.node("a", node.Labelled{Labels: map[string]*string{fmt.Sprint("l", i%7): new(fmt.Sprint(i))}})
	}
	span := s.span(0)
	for pos := range s.records {
		want := events.FoldNode("a", s.records[:pos+1])
		if have := *span.fold(view.Node("a"), pos).Node; !reflect.DeepEqual(have, want) {
			t.Fatalf("at %d: %+v, want %+v", pos, have, want)
		}
	}
}

// Around the point are the facts before and behind it, of everything or of the focus alone.
func TestAround(t *testing.T) {
	s, a, _ := tale(t)
	for name, c := range map[string]struct {
		from  int
		focus Focus
		at    string
		n     int
		along bool
		want  string
	}{
		"all":           {0, Focus{}, "g 8", 2, false, "6 7 >8 9 10"},
		"before":        {0, Focus{}, "g start", 2, false, "1 2"},
		"at the end":    {0, Focus{}, "g end", 2, false, "15 16 >17"},
		"within a span": {9, Focus{}, "g 9", 2, false, ">9 10 11"},
		"marked":        {0, Focus{"task", string(a)}, "g 10", 3, false, "7* 8* 9* >10 11 12* 13*"},
		"along":         {0, Focus{"task", string(a)}, "g 9", 1, true, "8* >9* 12*"},
		"between":       {0, Focus{"task", string(a)}, "g 10", 2, true, "8* 9* 12* 13*"},
		"of everything": {0, Focus{}, "g 8", 1, true, "7 >8 9"},
	} {
		x := s.session(c.from, c.focus)
		play(t, x, c.at)
		var have []string
		for _, l := range x.Around(c.n, c.along) {
			text := fmt.Sprint(l.Seq)
			if l.Here {
				text = ">" + text
			}
			if l.Focus {
				text += "*"
			}
			have = append(have, text)
		}
		if got := strings.Join(have, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestOverview(t *testing.T) {
	s, _, _ := tale(t)
	x := s.session(0, Focus{})
	play(t, x, "b late; b type attempt.failed; g 8; m began; m again; g end")
	o := x.Overview(47) // of eight seconds each
	facts := 0
	for i, c := range o.Cells {
		facts += c.Facts
		want := Cell{Facts: map[int]int{0: 8, 1: 8, 46: 1}[i]}
		switch i {
		case 0:
			want.Mark = "began"
		case 1:
			want.Hits = 1
		case 39:
			want.Hits, want.Wrong = 1, 1
		case 46:
			want.Here = true
		}
		if want.Facts = c.Facts; c != want {
			t.Errorf("cell %d: %+v, want %+v", i, c, want)
		}
	}
	if facts != 17 || !o.From.Equal(noon.Add(time.Second)) || !o.To.Equal(s.now) {
		t.Errorf("%d facts from %v to %v", facts, o.From, o.To)
	}
	if empty, err := New(NewSpan(1), judged); err != nil || empty.Overview(10).Cells != nil || empty.Around(5, false) == nil {
		t.Error(err)
	}
}

// A decision on a tick or on a limit is about no thing that has fields, and shows its inputs all
// the same. Causes lead from a task to its tick, and to the fire of that.
func TestTicksAndAdmissions(t *testing.T) {
	s := newStory(t)
	tick := s.now.Add(time.Minute)
	fire := s.add(events.KindFire, events.Fact{Schedule: "nightly", Event: task.ScheduleFired{Tick: tick, Due: tick}})
	s.add(events.KindQueue, events.Fact{Queue: "bulk", Event: queue.Resumed{}})
	id := task.ID("01JNAT00000000000000000009")
	s.add(events.KindTick, events.Fact{Schedule: "nightly", By: &task.By{Offer: fire}, Event: task.ScheduleAdmitted{Tick: tick, Due: tick, Made: id}})
	s.add(events.KindOffer, events.Fact{Task: id, Event: task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "bulk.5", Origin: task.Origin{Schedule: "nightly", Tick: tick}}}})
	s.add(events.KindLimit, events.Fact{Scope: "queue.bulk", By: &task.By{Seen: 3}, Event: task.Granted{Grants: []task.Grant{{Task: id}}}})
	x := s.session(0, Focus{})
	play(t, x, "g 4; k => 4 3 1; g 3; k => 3 1; K => 3 4; g 1; K => 1 3; g 2; K => 2")
	for seq, want := range map[int]Decision{3: {By: &task.By{Offer: fire}}, 5: {By: &task.By{Seen: 3}, Seen: 3, Behind: 1}} {
		answer, err := x.Do(t.Context(), fmt.Sprint("g ", seq))
		if err != nil || answer.Frame.Decision == nil || !reflect.DeepEqual(*answer.Frame.Decision, want) {
			t.Errorf("#%d: %+v, %v; want %+v", seq, answer.Frame.Decision, err, want)
		}
	}
}
