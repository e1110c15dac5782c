package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// Span is a part of a log in memory, with the facts before it that give the initial state. Add all
// facts before using it.
type Span struct {
	from     uint64 // where the facts begin, including those before the span
	imported events.Import
	facts    []fact
	begin    int // where the span begins; earlier facts only give the initial state
	chains   map[view.Ref]*chain
	nodes    []view.Ref // by their ids
	words    words
	marks    []tally // before every [markEvery]th fact
	totals   tally   // after all of them
	pass     pass
	gaps     []Gap
	seen     atomic.Int64 // how many facts the latest pass has seen
}

// fact is a fact of the log, with its effect on its task.
type fact struct {
	seq    uint64
	stored int64 // when the log stored it
	latest int64 // the latest of these times so far: the log's clock may have been set back
	raw    []byte
	place  word
	kind   events.Kind
	bad    *events.Record // the unreadable record

	typ      word
	schedule word
	was, is  stand
}

// stand is the counted part of a task's state.
type stand struct {
	there bool
	state task.State
	queue word
	node  word // the node that runs it
}

// chain holds the places of the facts about one subject.
type chain struct {
	at []int32
	// folded is the subject after every [foldEvery]th fact; nil for a task, which has few facts.
	folded []view.Item
}

const (
	foldEvery = 32
	markEvery = 1 << 14
)

// Gap is a missing part of a log.
type Gap struct {
	// After is the sequence of the last fact before it, and Before that of the first one behind it;
	// 0 for none.
	After  uint64 `json:"after"`
	Before uint64 `json:"before,omitempty"`
	// Why explains the gap.
	Why string `json:"why"`
}

// tally counts tasks.
type tally map[place]int32

// place is a key of counts: a queue and a state of tasks, or a node that runs them.
type place struct {
	queue, node word
	state       task.State
}

// word is a text that occurs often.
type word uint32

// words number texts from 1; 0 is "".
type words struct {
	number map[string]word
	text   []string
}

func (w *words) of(text string) word {
	if text == "" {
		return 0
	}
	n, ok := w.number[text]
	if !ok {
		text = strings.Clone(text)
		w.text = append(w.text, text)
		n = word(len(w.text))
		w.number[text] = n
	}
	return n
}

func (w *words) say(n word) string {
	if n == 0 {
		return ""
	}
	return w.text[n-1]
}

// NewSpan returns a span without facts. They begin at a sequence: 1 for the beginning of the log.
func NewSpan(from uint64) *Span {
	s := &Span{from: max(from, 1), chains: map[view.Ref]*chain{}, words: words{number: map[string]word{}}, totals: tally{}}
	s.pass = s.start()
	return s
}

// errBackwards: the facts are not in the order of the log.
var errBackwards = errors.New("the log goes backwards")

// Add adds the next message of the log. Inside says that it belongs to the span and not before it.
// The span keeps r.Raw.
func (s *Span) Add(r *events.Record, inside bool) error {
	f := fact{seq: r.Seq, stored: r.Stored.UnixNano(), raw: r.Raw, place: s.words.of(r.Place), kind: r.Kind}
	if r.Err != nil {
		bad := *r
		f.bad = &bad
	}
	f.typ = s.words.of(typeOf(r))
	if err := s.append(f, inside); err != nil {
		return err
	}
	s.index(int32(len(s.facts)-1), r)
	return nil
}

// append adds a fact behind the others.
func (s *Span) append(f fact, inside bool) error {
	f.latest = f.stored
	if n := len(s.facts); n > 0 {
		before := &s.facts[n-1]
		if f.seq <= before.seq {
			return fmt.Errorf("%w: sequence %d comes after %d", errBackwards, f.seq, before.seq)
		}
		f.latest = max(f.latest, before.latest)
	}
	if !inside {
		s.begin = len(s.facts) + 1
	}
	if len(s.facts)%markEvery == 0 {
		s.marks = append(s.marks, maps.Clone(s.totals))
	}
	s.facts = append(s.facts, f)
	return nil
}

// Imported says what the log lacks because it was imported.
func (s *Span) Imported(is events.Import) { s.imported = is }

// Missing records that a part of the log is missing, behind the last added fact.
func (s *Span) Missing(why string) {
	g := Gap{Why: why}
	if n := len(s.facts); n > 0 {
		g.After = s.facts[n-1].seq
	}
	s.gaps = append(s.gaps, g)
}

// Gaps returns the missing parts.
func (s *Span) Gaps() []Gap {
	gaps := slices.Clone(s.gaps)
	for i := range gaps {
		if next := s.after(gaps[i].After); next < len(s.facts) {
			gaps[i].Before = s.facts[next].seq
		}
	}
	return gaps
}

// index enters the last fact into the chain of its subject, and into the counts.
func (s *Span) index(at int32, r *events.Record) {
	f := &s.facts[at]
	ref, was, is := s.pass.add(r)
	f.schedule = s.words.of(scheduleOf(r, is))
	if ref.Kind == 0 {
		return
	}
	c := s.chains[ref]
	if c == nil {
		c = &chain{}
	}
	s.enter(ref, c, at)
	if ref.Kind != view.Tasks {
		if len(c.at)%foldEvery == 0 {
			c.folded = append(c.folded, is.Clone())
		}
		return
	}
	f.was, f.is = s.standOf(was.Task), s.standOf(is.Task)
	s.totals.move(f, 1)
	s.pass.rests(ref, was, is)
}

// enter puts a fact on the chain of its subject.
func (s *Span) enter(ref view.Ref, c *chain, at int32) {
	if len(c.at) == 0 {
		if s.chains[ref] = c; ref.Kind == view.Nodes {
			n, _ := slices.BinarySearchFunc(s.nodes, ref, byID)
			s.nodes = slices.Insert(s.nodes, n, ref)
		}
	}
	c.at = append(c.at, at)
}

func (s *Span) standOf(t *task.Task) stand {
	if t.Seq == 0 {
		return stand{}
	}
	is := stand{there: true, state: t.State, queue: s.words.of(t.QueueName())}
	if t.Live() {
		is.node = s.words.of(t.Node)
	}
	return is
}

// move counts the effect of a fact, by +1 or, backward, by -1.
func (t tally) move(f *fact, by int32) {
	if f.was == f.is {
		return
	}
	t.count(f.was, -by)
	t.count(f.is, by)
}

func (t tally) count(s stand, by int32) {
	if !s.there {
		return
	}
	t[place{queue: s.queue, state: s.state}] += by
	if s.node != 0 {
		t[place{node: s.node}] += by
	}
}

// tallyAt returns the counts of some places after a fact.
func (s *Span) tallyAt(pos int, places []place) []int32 {
	counts := make([]int32, len(places))
	if len(s.facts) == 0 {
		return counts
	}
	mark := (pos + 1) / markEvery
	if mark >= len(s.marks) {
		mark = len(s.marks) - 1
	}
	for i, p := range places {
		counts[i] = s.marks[mark][p]
	}
	one := tally{}
	for at := mark * markEvery; at <= pos; at++ {
		f := &s.facts[at]
		if f.was == f.is {
			continue
		}
		clear(one)
		one.move(f, 1)
		for i, p := range places {
			counts[i] += one[p]
		}
	}
	return counts
}

// record is a fact as it was in the log.
func (s *Span) record(at int) events.Record {
	f := &s.facts[at]
	if f.bad != nil {
		return *f.bad
	}
	r := events.Record{Seq: f.seq, Stored: timeOf(f.stored), Kind: f.kind, Place: s.words.say(f.place), Raw: f.raw}
	if r.IsFact() {
		r.Fact, r.Err = events.Decode(f.raw)
	}
	return r
}

// fold is a subject after its facts up to a place.
func (s *Span) fold(ref view.Ref, pos int) view.Item {
	item := view.Nothing(ref)
	c := s.chains[ref]
	if c == nil {
		return item
	}
	end := c.upTo(pos)
	from := min(end/foldEvery, len(c.folded))
	if from > 0 {
		item = c.folded[from-1].Clone()
	}
	for _, at := range c.at[from*foldEvery : end] {
		r := s.record(int(at))
		item.Add(ref, &r)
	}
	return item
}

// upTo is how many facts of the chain lie at or before a place.
func (c *chain) upTo(pos int) int {
	return sort.Search(len(c.at), func(i int) bool { return int(c.at[i]) > pos })
}

// after is the place of the first fact behind a sequence.
func (s *Span) after(seq uint64) int {
	return sort.Search(len(s.facts), func(i int) bool { return s.facts[i].seq > seq })
}

// at is the place of the last fact that the log had at a time.
func (s *Span) at(t time.Time) int {
	nano := t.UnixNano()
	return sort.Search(len(s.facts), func(i int) bool { return s.facts[i].latest > nano }) - 1
}

// last is the place of the last fact.
func (s *Span) last() int { return len(s.facts) - 1 }

// From is the first sequence of the span, 0 for none.
func (s *Span) From() uint64 {
	if s.begin >= len(s.facts) {
		return 0
	}
	return s.facts[s.begin].seq
}

// To is the last sequence of the span, 0 for none.
func (s *Span) To() uint64 {
	if s.begin >= len(s.facts) {
		return 0
	}
	return s.facts[s.last()].seq
}

// Last is the last sequence in the span or before it; 0 for none.
func (s *Span) Last() uint64 {
	if len(s.facts) == 0 {
		return 0
	}
	return s.facts[s.last()].seq
}

// Len is how many messages of the log the span has.
func (s *Span) Len() int { return len(s.facts) - s.begin }

// time is when the log had a fact and all before it.
func (s *Span) time(pos int) time.Time {
	if pos < 0 {
		return time.Time{}
	}
	return timeOf(s.facts[pos].latest)
}

func timeOf(nano int64) time.Time { return time.Unix(0, nano).UTC() }

// typeOf is the type of a fact, or a name for other messages.
func typeOf(r *events.Record) string {
	switch {
	case r.Unreadable() != "":
		return Unreadable
	case !r.IsFact():
		return r.Kind.String()
	}
	return string(r.Fact.Type)
}

// Unreadable is the type of an unreadable message.
const Unreadable = "unreadable"

// scheduleOf is the schedule to which a fact relates.
func scheduleOf(r *events.Record, is view.Item) string {
	if is.Task != nil {
		return is.Task.Schedule
	}
	if r.Fact.Def.Kind() == task.DefSchedule {
		return strings.TrimPrefix(string(r.Fact.Def), task.DefSchedule+".")
	}
	return r.Fact.Schedule
}
