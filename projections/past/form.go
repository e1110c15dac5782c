package past

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"strings"

	"millrace/events"
	"millrace/internal/form"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/quota"
)

// The kinds of entries. An entry begins with a number: its kind in the low bits, and a value in the others.
// Numbers are varints, so an entry has a few bytes: a task that runs once has about 40. Entries are read from
// the first one on, at 10 ns each: 0.1 s for a million tasks.
const (
	entrySeq    = iota // distance of the next messages' sequence from the one before
	entryPlace         // a new place: the length of its text, which follows
	entryOrigin        // a new origin, likewise
	entryBirth         // a new task: how many bytes its id shares with the one before; the rest follows
	entryFrom          // origin of the task at a distance from the newest one: its number, the time of submission, and a schedule's tick
	entryMove          // place of the task at a distance from the newest one after the message, since when if it is pending, and how long it ran if it did
	entryName          // a new name: the length of its text, which follows
	entryNote          // a note that is not about a task's place, see below: its length
)

// The kinds of notes, and their contents.
const (
	noteGrant  = iota // limits admitted a task: its id, the turn, and the rate of its queue
	noteRate          // a rate is used up until a time: its name, and the time
	noteShift         // attempts under budgets ended or began: the counters' names, and the [limit.Shift]
	noteTick          // a decision on a schedule's ticks up to one: its name, the tick, how many got no task, and why
	noteFact          // a message that is about no task: the name that is its [otherFact]
	noteWaits         // the newest task waits since its birth, and for its limits alone: its turn, and the name that its line is, see [lined]
	noteLabels        // what the newest task has from its birth on: its labels and step, each as [labelText] and [stepText] have it
	noteBase          // the index was trimmed: how much greater the rows' numbers of tasks are, and the first sequence of which it tells
)

// labelText is a label as a text, and stepText a step: none of one is one of the other.
func labelText(name, value string) string { return string(appendTexts(nil, name, value)) }
func stepText(step string) string         { return string(appendTexts(nil, step)) }

// place is what lists ask of a task that may change with each message about it, and the traits of the
// message that brought it there. Many tasks share a place, so it is written once, and has a number.
type place struct {
	state   task.State
	dead    bool // a dead letter
	limited bool // it has limits, or was admitted by the rate of its queue
	waits   bool // only its limits hold it
	failed  bool // it failed with this message
	anyFact bool // its traits are left out
	ran     bool // [task.Task.Ran] is not 0
	first   bool // this message of the log is the first one about it
	route   placement.Route
	home    string // the display name of a selector route's queue; else "": see [place.queue]
	node    string
	batch   string
	traits  // those of the message
}

// mostPlaces is how many places there may be with traits. If each message had an actor of its own, and so
// made a place of its own, the table of places would take too much memory.
const mostPlaces = 1 << 16

func placeOf(t *task.Task) place {
	p := place{
		state:   t.State,
		dead:    t.Dead(),
		limited: t.Rated != 0 || t.Limited(),
		waits:   t.Admissible(),
		ran:     t.Ran > 0,
		route:   t.Route,
		node:    t.Node,
		batch:   t.Batch,
	}
	if t.Route.Selected() {
		p.home = t.QueueName()
	}
	return p
}

// queue is the display name of the task's queue: [task.Work.QueueName].
func (p *place) queue() string {
	if p.home != "" {
		return p.home
	}
	return p.route.Queue()
}

// clone returns a copy that shares no memory with a task.
func (p place) clone() place {
	p.route, p.home, p.node, p.batch = placement.Route(strings.Clone(string(p.route))), strings.Clone(p.home), strings.Clone(p.node), strings.Clone(p.batch)
	p.traits = traits{events.Type(strings.Clone(string(p.typ))), strings.Clone(p.actor), strings.Clone(p.factNode)}
	return p
}

// origin is what lists ask of a task that does not change after its birth, unless several births of one id
// compete. Many tasks share an origin, so it is written once, and has a number.
type origin struct {
	job, schedule string
	root          bool
}

func originOf(t *task.Task) origin { return origin{t.Job, t.Schedule, t.Parent == ""} }

func (o origin) clone() origin {
	o.job, o.schedule = strings.Clone(o.job), strings.Clone(o.schedule)
	return o
}

// appendText writes a place, or an origin, as text.
func (p place) appendText(b []byte) []byte {
	b = append(b, byte(p.state), bit(p.dead)|bit(p.limited)<<1|bit(p.waits)<<2|bit(p.failed)<<3|bit(p.anyFact)<<4|bit(p.ran)<<5|bit(p.first)<<6)
	return appendTexts(b, string(p.route), p.home, p.node, p.batch, string(p.typ), p.actor, p.factNode)
}

func (o origin) appendText(b []byte) []byte {
	return appendTexts(append(b, bit(o.root)), o.job, o.schedule)
}

func bit(is bool) byte {
	if is {
		return 1
	}
	return 0
}

func appendTexts(b []byte, texts ...string) []byte {
	for _, t := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(t))), t...)
	}
	return b
}

// reader parses numbers and texts from its bytes; bad says that they ended too early.
type reader struct {
	b   []byte
	at  int
	bad bool
}

func (r *reader) uint() uint64 {
	if r.at < len(r.b) && r.b[r.at] < 0x80 { // as nearly all are
		r.at++
		return uint64(r.b[r.at-1])
	}
	return r.long()
}

func (r *reader) long() uint64 {
	n, size := binary.Uvarint(r.b[r.at:])
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.at += size
	return n
}

func (r *reader) int() int64 {
	u := r.uint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) text(n uint64) []byte {
	if n > uint64(len(r.b)-r.at) {
		r.bad = true
		return nil
	}
	r.at += int(n)
	return r.b[r.at-int(n) : r.at]
}

func (r *reader) string() string { return string(r.text(r.uint())) }

func readPlace(text []byte) (p place, ok bool) {
	r := reader{b: text}
	is := r.text(2)
	p.route, p.home, p.node, p.batch = placement.Route(r.string()), r.string(), r.string(), r.string()
	p.traits = traits{events.Type(r.string()), r.string(), r.string()}
	if r.bad {
		return p, false
	}
	p.state, p.dead, p.limited, p.waits = task.State(is[0]), is[1]&1 != 0, is[1]&2 != 0, is[1]&4 != 0
	p.failed, p.anyFact, p.ran, p.first = is[1]&8 != 0, is[1]&16 != 0, is[1]&32 != 0, is[1]&64 != 0
	return p, true
}

func readOrigin(text []byte) (o origin, ok bool) {
	r := reader{b: text}
	root := r.text(1)
	o.job, o.schedule = r.string(), r.string()
	if r.bad {
		return o, false
	}
	o.root = root[0] != 0
	return o, true
}

// progress is the state to which the next entry refers: the progress of the index.
type progress struct {
	seq       uint64 // the sequence of the latest message
	tasks     uint32 // how many there are, numbered from 1
	submitted int64  // of the latest entry with such a time, in microseconds since 1970
	since     int64  // likewise
	id        []byte // the id of the newest task
}

// End is the end of what was written of the index: how many bytes, and their checksum.
type End struct {
	Size int64
	Sum  uint32
}

// writer makes the entries of a batch. They count once the batch is committed.
type writer struct {
	file         *os.File
	end, written End // before the batch, and behind it
	progress
	places  table[place]
	origins table[origin]
	names   table[string]
	batch   []byte
	text    []byte

	counts  progress // up to the batch
	counted [3]int   // places, origins and names up to there
}

// table numbers values, from 0 on.
type table[T comparable] struct {
	numbers map[T]uint64
	values  []T
}

func (t *table[T]) add(v T) (number uint64) {
	if t.numbers == nil {
		t.numbers = map[T]uint64{}
	}
	number = uint64(len(t.values))
	t.numbers[v], t.values = number, append(t.values, v)
	return number
}

// cut removes all but the first n.
func (t *table[T]) cut(n int) {
	for _, v := range t.values[n:] {
		delete(t.numbers, v)
	}
	t.values = t.values[:n]
}

// begin begins a batch behind an end. If that is where the one before began, that one does not count.
func (w *writer) begin(end End) {
	if end == w.end {
		w.drop()
	} else {
		w.keep()
	}
	w.end, w.written = end, end
}

// drop discards the batch.
func (w *writer) drop() {
	w.places.cut(w.counted[0])
	w.origins.cut(w.counted[1])
	w.names.cut(w.counted[2])
	id := append(w.id[:0], w.counts.id...)
	w.progress, w.batch = w.counts, w.batch[:0]
	w.id = id
}

// keep makes the batch count.
func (w *writer) keep() {
	id := append(w.counts.id[:0], w.id...)
	w.counts, w.counted, w.batch = w.progress, [3]int{len(w.places.values), len(w.origins.values), len(w.names.values)}, w.batch[:0]
	w.counts.id = id
}

func (w *writer) head(kind int, says uint64) {
	w.batch = binary.AppendUvarint(w.batch, says<<3|uint64(kind))
}

// message begins the entries about a message.
func (w *writer) message(seq uint64) {
	if seq != w.seq {
		w.head(entrySeq, seq-w.seq)
		w.seq = seq
	}
}

// Indexed is what the index has of a task. Its origin is written with the first message after which the
// task is known, and again when it is another one.
type Indexed struct {
	// Number is the task's number in the index; 0 if it has none yet.
	Number          uint32
	told            bool // the index has its origin, and what follows here
	origin          origin
	submitted, tick int64
	labels          map[string]string
	step            string
}

// IndexedAs is what the index has of a task that it has under a number.
func IndexedAs(number uint32, t *task.Task) Indexed {
	return Indexed{number, t.State != task.Unknown, originOf(t), t.SubmittedAt.UnixMicro(), t.Tick.UnixMicro(), t.Labels, t.Step}
}

// tells tells whether the index has the origin that a task has now.
func (of *Indexed) tells(t *task.Task) bool {
	return of.told && t.SubmittedAt.UnixMicro() == of.submitted && t.Tick.UnixMicro() == of.tick && originOf(t) == of.origin &&
		t.Step == of.step && maps.Equal(t.Labels, of.labels)
}

// Move is what a record has made of its task.
type Move struct {
	// Task is the task after the record, and Failed says that it had failed before.
	Task   *task.Task
	Failed bool
	// Of is what the index has of the task. It is brought up to date.
	Of *Indexed
	// Spent is what began or ended of attempts under budgets, by these counters.
	Spent    limit.Shift
	Counters []limit.Counter
}

// note adds a task's place after a message.
func (w *writer) note(r *events.Record, m *Move) {
	t, of, seq := m.Task, m.Of, r.Seq
	if !m.Spent.None() {
		w.shift(seq, m)
	}
	w.message(seq)
	known := of.Number > 0
	if !known {
		of.Number = w.birth(string(t.ID))
	}
	if t.State != task.Unknown && !of.tells(t) {
		*of = IndexedAs(of.Number, t)
		w.from(of.Number, of.origin, of.submitted, of.tick)
		if !known {
			w.labels(seq, t)
			w.waits(seq, t)
		}
	}
	is := placeOf(t)
	is.first = !known
	is.failed = t.State.Failed() && !m.Failed
	if is.traits = traitsOf(r); len(w.places.values) >= mostPlaces {
		is.traits, is.anyFact = traits{}, true
	}
	w.move(of.Number, is, t.Since.UnixMicro(), ranMicros(t))
}

// birth adds a task, and returns its number.
func (w *writer) birth(id string) uint32 {
	shared := 0
	for shared < min(len(id), len(w.id)) && id[shared] == w.id[shared] {
		shared++
	}
	w.head(entryBirth, uint64(shared))
	w.batch = appendTexts(w.batch, id[shared:])
	w.id = append(w.id[:shared], id[shared:]...)
	w.tasks++
	return w.tasks
}

// from adds the origin of a task.
func (w *writer) from(number uint32, is origin, submitted, tick int64) {
	n := numberOf(w, &w.origins, entryOrigin, is)
	w.head(entryFrom, uint64(w.tasks-number))
	w.batch = binary.AppendVarint(binary.AppendUvarint(w.batch, n), submitted-w.submitted)
	if w.submitted = submitted; is.schedule != "" {
		w.batch = binary.AppendVarint(w.batch, tick-submitted)
	}
}

// move adds the place of a task. Since counts if it is pending, and ran if it ran.
func (w *writer) move(number uint32, is place, since int64, ran uint64) {
	n := numberOf(w, &w.places, entryPlace, is)
	w.head(entryMove, uint64(w.tasks-number))
	w.batch = binary.AppendUvarint(w.batch, n)
	if is.state == task.Pending {
		w.batch = binary.AppendVarint(w.batch, since-w.since)
		w.since = since
	}
	if is.ran {
		w.batch = binary.AppendUvarint(w.batch, ran)
	}
}

// other adds a record that is not about a task.
func (w *writer) other(r *events.Record) {
	if r.IsFact() {
		f := otherFactOf(r)
		n := w.nameOf(f.text())
		w.add(r.Seq, binary.AppendUvarint(append(w.text[:0], noteFact), n))
	}
	switch e := r.Fact.Event.(type) {
	case task.Granted:
		if r.Kind != events.KindLimit {
			return
		}
		for _, g := range e.Grants {
			w.add(r.Seq, append(binary.AppendUvarint(binary.AppendUvarint(append(w.text[:0], noteGrant), g.Turn), g.Rated), g.Task...))
		}
		for name, used := range e.Rates {
			n := w.nameOf(name)
			w.add(r.Seq, binary.AppendVarint(binary.AppendUvarint(append(w.text[:0], noteRate), n), used.UnixNano()))
		}
	default:
		if d, ok := view.DecidedOn(r); ok {
			w.tick(r.Seq, &d)
		}
	}
}

func (w *writer) tick(seq uint64, d *view.TickDecision) {
	schedule, reason := w.nameOf(d.Schedule), w.nameOf(d.Reason)
	text := binary.AppendVarint(binary.AppendUvarint(append(w.text[:0], noteTick), schedule), d.Until.UnixMicro())
	w.add(seq, binary.AppendUvarint(binary.AppendUvarint(text, uint64(d.Skipped)), reason))
}

// shift adds a message's effect on attempts under budgets.
func (w *writer) shift(seq uint64, m *Move) {
	names := make([]string, len(m.Counters))
	for i := range m.Counters {
		names[i] = m.Counters[i].Name
	}
	n := w.nameOf(strings.Join(names, "\n")) // no name contains a line feed
	w.add(seq, m.Spent.Append(binary.AppendUvarint(append(w.text[:0], noteShift), n)))
}

func (w *writer) labels(seq uint64, t *task.Task) {
	if len(t.Labels) == 0 && t.Step == "" {
		return
	}
	text := append(w.text[:0], noteLabels)
	for name, value := range t.Labels {
		text = appendTexts(text, labelText(name, value))
	}
	if t.Step != "" {
		text = appendTexts(text, stepText(t.Step))
	}
	w.add(seq, text)
}

// lined is what tasks have in common that wait in the same line for their limits.
type lined struct {
	// Queue is the queue whose rate applies to them.
	Queue    string          `json:"queue,omitempty"`
	Counters []limit.Counter `json:"counters"`
}

var lineForm = form.Of[lined](form.Own())

// Shape tells one form of what the index has as JSON from another, as [form.Shape] does.
func Shape() string { return form.Shape[lined]() }

func (w *writer) waits(seq uint64, t *task.Task) {
	s := quota.StandOf(t)
	if s.State != task.Held || !s.Held || !s.First || !s.Due.IsZero() || s.Rated != 0 {
		return
	}
	counters, err := t.Counters()
	if err != nil {
		return // the limiter ignores it
	}
	if line, err := lineForm.Append(nil, &lined{s.Queue, counters}); err == nil {
		n := w.nameOf(string(line))
		w.add(seq, binary.AppendUvarint(binary.AppendUvarint(append(w.text[:0], noteWaits), s.Turn), n))
	}
}

// add adds a note about a message.
func (w *writer) add(seq uint64, note []byte) {
	w.message(seq)
	w.head(entryNote, uint64(len(note)))
	w.batch = append(w.batch, note...)
	w.text = note
}

// nameOf is the number of a name. It adds a new name.
func (w *writer) nameOf(name string) uint64 {
	n, known := w.names.numbers[name]
	if !known {
		w.head(entryName, uint64(len(name)))
		w.batch = append(w.batch, name...)
		n = w.names.add(strings.Clone(name))
	}
	return n
}

// written is a value that is written once, and then referred to by its number.
type written[T any] interface {
	comparable
	clone() T
	appendText(b []byte) []byte
}

// numberOf is the number of a value in a table of the writer. It adds a new value, with an entry of
// the given kind.
func numberOf[T written[T]](w *writer, in *table[T], kind int, is T) uint64 {
	n, known := in.numbers[is]
	if !known {
		w.text = is.appendText(w.text[:0])
		w.head(kind, uint64(len(w.text)))
		w.batch = append(w.batch, w.text...)
		n = in.add(is.clone())
	}
	return n
}

// write appends the batch to the file, and returns the new end. It overwrites bytes behind the old
// end. If there is nothing to write, what was written before becomes durable.
func (w *writer) write() (End, error) {
	var err error
	if len(w.batch) == 0 {
		err = w.file.Sync()
	} else {
		_, err = w.file.WriteAt(w.batch, w.end.Size)
	}
	if err != nil {
		return w.end, fmt.Errorf("write the index of the past: %w", err)
	}
	w.written = End{w.end.Size + int64(len(w.batch)), checksum(w.end.Sum, w.batch)}
	return w.written, nil
}

// scanner reads entries.
type scanner struct {
	progress
	until   uint64 // entries behind this sequence are not read
	whole   bool   // the tables hold all definitions
	places  []place
	origins []origin
	names   []string
	ran     uint64 // how long it ran, in microseconds; only if its place is one where it did
	bad     bool   // set by a function: the entries are not what was written
	buffer  []byte // for [eachPart]
	// Functions to call for entries; nil for none. Their arguments are valid until they return.
	birth func(number uint32, id []byte)
	from  func(number, origin uint32, submitted, tick int64)
	move  func(number, place uint32, since int64)
	note  func(*reader)
}

var ErrDamaged = errors.New("the file of the index of the past is not what was written")

// errLater: the following entries are about later messages.
var errLater = errors.New("later")

// read parses all complete entries, and returns how many bytes they have.
func (s *scanner) read(b []byte) (n int, err error) {
	r := reader{b: b}
	for {
		n = r.at
		if s.bad {
			return n, ErrDamaged
		}
		head := r.uint()
		says := head >> 3
		switch kind := head & 7; kind {
		case entrySeq:
			if r.bad {
				return n, nil
			}
			if s.seq+says > s.until {
				return n, errLater
			}
			s.seq += says
		case entryPlace, entryOrigin, entryName, entryNote:
			text := r.text(says)
			if r.bad {
				return n, nil
			}
			if !s.define(kind, text) {
				return n, ErrDamaged
			}
		case entryBirth:
			rest := r.text(r.uint())
			if r.bad {
				return n, nil
			}
			if says > uint64(len(s.id)) {
				return n, ErrDamaged
			}
			s.id = append(s.id[:says], rest...)
			if s.tasks++; s.birth != nil {
				s.birth(s.tasks, s.id)
			}
		case entryFrom:
			of, at := r.uint(), r.int()
			if r.bad {
				return n, nil
			}
			if says >= uint64(s.tasks) || of >= uint64(len(s.origins)) {
				return n, ErrDamaged
			}
			tick := int64(0)
			if s.origins[of].schedule != "" {
				if tick = r.int(); r.bad {
					return n, nil
				}
			}
			if s.submitted += at; s.from != nil {
				s.from(s.tasks-uint32(says), uint32(of), s.submitted, s.submitted+tick)
			}
		case entryMove:
			to := r.uint()
			if r.bad {
				return n, nil
			}
			if says >= uint64(s.tasks) || to >= uint64(len(s.places)) {
				return n, ErrDamaged
			}
			at := int64(0)
			if s.places[to].state == task.Pending {
				at = r.int()
			}
			if s.places[to].ran {
				s.ran = r.uint()
			}
			if r.bad {
				return n, nil
			}
			s.since += at
			if s.move != nil {
				s.move(s.tasks-uint32(says), uint32(to), s.since)
			}
		default:
			return n, ErrDamaged
		}
	}
}

// define parses an entry with a text.
func (s *scanner) define(kind uint64, text []byte) (ok bool) {
	switch {
	case kind == entryNote:
		r := reader{b: text}
		if s.note != nil {
			s.note(&r)
		}
		return !r.bad
	case s.whole:
		return true
	}
	switch kind {
	case entryPlace:
		var p place
		p, ok = readPlace(text)
		s.places = append(s.places, p)
	case entryOrigin:
		var o origin
		o, ok = readOrigin(text)
		s.origins = append(s.origins, o)
	case entryName:
		s.names = append(s.names, string(text))
		ok = true
	}
	return ok
}

// name is the name with a number.
func (s *scanner) name(r *reader) string {
	n := r.uint()
	if n >= uint64(len(s.names)) {
		r.bad = true
		return ""
	}
	return s.names[n]
}

// checksum continues the checksum of all bytes of the index.
func checksum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
