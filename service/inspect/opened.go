// Package inspect keeps incident files that browsers have opened, in memory and for a while: each is
// a world of its own that can be viewed as of any moment, and stepped through.
//
// It verifies the log of a server on request of a page: one run at a time, which goes on
// even without a viewer, and the last one is remembered.
//
// It writes an incident file from a log, for the command line and for pages. It does
// not know the caller, nor where the file goes.
package inspect

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// Bounds of the open files.
const (
	// MaxUpload is how many bytes a file may have; unpacked [incident.MaxUnpacked].
	MaxUpload = 32 << 20
	// Most is how many files are open at one time, and mostOfOne how many of one caller. Beyond
	// that, the caller's least recently viewed file is closed.
	Most      = 8
	mostOfOne = 3
	// mostMemory is about how much memory the open files may take together, and mostMemoryOfOne those of one
	// caller, with their facts, indexes and folded moments. A caller's own make room for a further one.
	mostMemory      = 2 << 30
	mostMemoryOfOne = 1 << 30
	// Keep is how long an unviewed file stays open.
	Keep = time.Hour
	// maxFolded is how many moments of a file stay folded.
	maxFolded = 4
)

// What an open file takes, in bytes, beside its text: measured, see TestMemoryOfAFile.
const (
	ofFact = 640 // a fact and its place in the index
	ofText = 3   // a byte of a fact, decoded
	ofStep = 1 << 10
	ofLine = 256 // a batch of output, in its list
	// ofThing is a thing with facts, in each folded moment and in the one at which somebody steps.
	ofThing = (maxFolded + 1) << 10
)

// Errors of the shelf.
var (
	// ErrFull: other callers have taken all places, or all memory.
	ErrFull = errors.New("other incident files are open, and take all the room there is: close one, or wait")
	// ErrGone: there is no such file, or no longer.
	ErrGone = errors.New("there is no such incident file, or it was closed because it was not used for so long")
)

// Shelf holds the open files.
type Shelf struct {
	opening sync.Mutex // one is unpacked at a time

	// most and mostOfOne replace mostMemory and mostMemoryOfOne if set.
	most, mostOfOne int

	mu    sync.Mutex
	files []*File // guarded by mu; the most recently viewed is last
}

// File is an open incident file.
type File struct {
	// Name is its name in paths, and Title its file name.
	Name, Title string
	By          string
	Opened      time.Time
	// Size is its size in bytes.
	Size int
	*incident.File
	// From and To are the first and the last moment that it covers.
	From, To view.Point

	takes   int       // about how much memory, in bytes
	looked  time.Time // guarded by the shelf's mu
	records []events.Record
	ticks   view.Slice
	about   map[view.Ref][]int32 // places of records
	printed map[task.ID][]incident.Lines

	mu     sync.Mutex
	folded []view.Folded // guarded by mu; the most recently used is last
	steps  *stepping     // guarded by mu
}

// Open opens a file. The error says what is wrong with it, or is [ErrFull].
func (s *Shelf) Open(title, by string, data []byte, now time.Time) (*File, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if !s.makeRoom(by, now) {
		return nil, ErrFull
	}
	all, own := cmp.Or(s.most, mostMemory), cmp.Or(s.mostOfOne, mostMemoryOfOne)
	room := min(own, all-s.held(func(f *File) bool { return f.By != by }))
	f, err := read(data, room)
	switch {
	case errors.Is(err, incident.ErrLarge) && room < own:
		return nil, ErrFull
	case err != nil:
		return nil, err
	}
	s.yield(by, room-f.takes)
	f.Name, f.Title, f.By, f.Opened, f.Size, f.looked = strings.ToLower(rand.Text()[:12]), title, by, now, len(data), now
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = append(s.files, f)
	return f, nil
}

// makeRoom closes expired files, and the oldest of a caller that has its share; false if there is
// no room.
func (s *Shelf) makeRoom(by string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(now)
	mine := 0
	for _, f := range s.files {
		if f.By == by {
			mine++
		}
	}
	if mine >= mostOfOne {
		i := slices.IndexFunc(s.files, func(f *File) bool { return f.By == by })
		s.files = slices.Delete(s.files, i, i+1)
	}
	return len(s.files) < Most
}

// held is how much memory the open files of some callers take.
func (s *Shelf) held(of func(*File) bool) (size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if of(f) {
			size += f.takes
		}
	}
	return size
}

// yield closes a caller's least recently viewed files until the others take at most so much.
func (s *Shelf) yield(by string, most int) {
	for s.held(func(f *File) bool { return f.By == by }) > most {
		s.mu.Lock()
		if i := slices.IndexFunc(s.files, func(f *File) bool { return f.By == by }); i >= 0 {
			s.files = slices.Delete(s.files, i, i+1)
		}
		s.mu.Unlock()
	}
}

// drop is called with mu held.
func (s *Shelf) drop(now time.Time) {
	s.files = slices.DeleteFunc(s.files, func(f *File) bool { return now.Sub(f.looked) > Keep })
}

// Find returns an open file and marks it as viewed. The error is [ErrGone].
func (s *Shelf) Find(name string, now time.Time) (*File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(now)
	i := slices.IndexFunc(s.files, func(f *File) bool { return f.Name == name })
	if i < 0 {
		return nil, ErrGone
	}
	f := s.files[i]
	f.looked = now
	s.files = append(slices.Delete(s.files, i, i+1), f)
	return f, nil
}

// Close closes a file.
func (s *Shelf) Close(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = slices.DeleteFunc(s.files, func(f *File) bool { return f.Name == name })
}

// Drop closes files that were not viewed for long.
func (s *Shelf) Drop(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(now)
}

// Files returns the open files, in the order in which they were opened.
func (s *Shelf) Files(now time.Time) []*File {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(now)
	return slices.SortedFunc(slices.Values(s.files), func(a, b *File) int { return a.Opened.Compare(b.Opened) })
}

func tooLarge(most int) error {
	return fmt.Errorf("it takes more than %s of memory here (`millrace incident open` opens it): %w", value.Size(most), incident.ErrLarge)
}

// read unpacks a file that takes at most so much memory. It leaves out damaged parts.
func read(data []byte, most int) (*File, error) {
	is, err := incident.OpenUpTo(data, min(most, incident.MaxUnpacked))
	if err != nil {
		return nil, err
	}
	f := &File{File: is, takes: is.Unpacked, about: map[view.Ref][]int32{}, printed: map[task.ID][]incident.Lines{}}
	for r, err := range is.Whole() {
		if err != nil {
			return nil, fmt.Errorf("a fact cannot be read: %w", err)
		}
		f.takes += ofFact + ofText*len(r.Raw)
		if birth, ok := r.Fact.Event.(task.Submitted); ok && birth.Spec != nil {
			f.takes += ofStep * len(birth.Spec.Steps)
		}
		if ref := view.RefOf(&r); ref.Kind != 0 {
			if f.about[ref] == nil {
				f.takes += ofThing
			}
			f.about[ref] = append(f.about[ref], int32(len(f.records))) // a file of more does not go into memory
		}
		if r.Kind == events.KindTick {
			f.ticks = append(f.ticks, r)
		}
		if f.takes > most {
			return nil, tooLarge(most)
		}
		f.records = append(f.records, r)
	}
	if len(f.records) == 0 {
		return nil, errors.New("none of its facts is whole")
	}
	last := &f.records[len(f.records)-1]
	f.To = view.Point{Seq: last.Seq, At: last.Stored}
	f.From = view.Point{Seq: max(is.Manifest.From.Seq, 1), At: is.Manifest.From.Stored}
	for l, err := range is.Output() {
		if err == nil { // an unreadable batch counts as missing
			id := task.ID(l.Subject[strings.LastIndexByte(l.Subject, '.')+1:])
			if f.takes += ofLine + len(l.Body); f.takes > most {
				return nil, tooLarge(most)
			}
			f.printed[id] = append(f.printed[id], l)
		}
	}
	for _, all := range f.printed {
		slices.SortFunc(all, func(a, b incident.Lines) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return f, nil
}

// At returns the world as of a moment; the zero moment is the end. The error wraps [view.ErrQuery]
// if the file does not cover it.
func (f *File) At(ctx context.Context, m view.Moment) (view.Folded, view.Point, error) {
	p, found, err := f.PointAt(ctx, m)
	if err == nil && (!found || p.Seq < f.From.Seq || m.Seq > f.To.Seq) {
		err = fmt.Errorf("%w: the file tells of #%d to #%d, from %s to %s", view.ErrQuery, f.From.Seq, f.To.Seq, f.From.At.UTC().Format(time.RFC3339), f.To.At.UTC().Format(time.RFC3339))
	}
	if err != nil {
		return view.Folded{}, p, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.folded, func(is view.Folded) bool { at, _ := is.Point(ctx); return at.Seq == p.Seq })
	var is view.Folded
	if i >= 0 {
		is = f.folded[i]
		f.folded = slices.Delete(f.folded, i, i+1)
	} else {
		m := view.NewMemory()
		for i := range f.records[:f.place(p.Seq+1)] {
			m.Add(&f.records[i])
		}
		is = view.FoldedAt(m, facts{f}.About)
	}
	f.folded = append(f.folded, is)
	f.folded = f.folded[max(len(f.folded)-maxFolded, 0):]
	return is, p, nil
}

// facts are the facts about single things.
type facts struct{ *File }

// About is a [view.Facts].
func (f facts) About(ctx context.Context, ref view.Ref) (about []events.Record, err error) {
	if ref.Kind == view.Decisions {
		return f.ticks.About(ctx, ref)
	}
	for _, i := range f.about[ref] {
		about = append(about, f.records[i])
	}
	return about, nil
}

// place returns the index of the first record with at least this sequence.
func (f *File) place(seq uint64) int {
	i, _ := slices.BinarySearchFunc(f.records, seq, func(r events.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	return i
}

// Page returns at most most records from a sequence on.
func (f *File) Page(_ context.Context, from uint64, most int) ([]events.Record, error) {
	i := f.place(from)
	return f.records[i:min(i+most, len(f.records))], nil
}

// First returns where the file begins.
func (f *File) First(context.Context) (uint64, error) { return f.From.Seq, nil }

// Messages returns the records at these sequences that the file has.
func (f *File) Messages(ctx context.Context, seqs []uint64) ([]events.Record, error) {
	return view.Slice(f.records).Messages(ctx, seqs)
}

// PointAt returns the place of a moment; false if the file begins later.
func (f *File) PointAt(_ context.Context, m view.Moment) (view.Point, bool, error) {
	n := len(f.records)
	if m != (view.Moment{}) {
		if n = slices.IndexFunc(f.records, func(r events.Record) bool { return m.Before(&r) }); n < 0 {
			n = len(f.records)
		}
	}
	if n == 0 {
		return view.Point{}, false, nil
	}
	return view.Point{Seq: f.records[n-1].Seq, At: f.records[n-1].Stored}, true, nil
}

// Printout returns what a task has printed until a time, as far as the file has it; the zero time
// is its end.
func (f *File) Printout(_ context.Context, id task.ID, until time.Time) (answers.Printout, error) {
	var all printout
	for i := range f.printed[id] {
		b, err := lines(&f.printed[id][i])
		if err != nil {
			continue // a foreign message has no lines
		}
		for _, l := range b.Lines {
			if until.IsZero() || !l.At.After(until) {
				all = append(all, client.NumberedLine{Line: l, Attempt: b.Attempt, Epoch: b.Epoch})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b client.NumberedLine) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.N, b.N))
	})
	// Stored twice.
	all = slices.CompactFunc(all, func(a, b client.NumberedLine) bool { return a.Epoch == b.Epoch && a.N == b.N })
	for i := range all {
		all[i].Number = i + 1
	}
	return answers.Printout{Lines: len(all), Printed: all}, nil
}

// printout are all lines, in order.
type printout []client.NumberedLine

// Window implements [answers.Printed].
func (p printout) Window(_ context.Context, from, most int) (lead, lines []client.NumberedLine, err error) {
	from = min(max(from, 1), len(p)+1)
	return nil, p[from-1 : min(from-1+most, len(p))], nil
}

// Search implements [answers.Printed].
func (p printout) Search(_ context.Context, from, most int, back bool, m output.Match) (hits []client.NumberedLine, reached int, err error) {
	if back {
		for n := min(from, len(p)); n > 0; n-- {
			if m.Line(&p[n-1].Line) {
				return p[n-1 : n], n, nil
			}
		}
		return nil, 1, nil
	}
	for n := max(from, 1); n <= len(p) && len(hits) < most; n++ {
		if reached = n; m.Line(&p[n-1].Line) {
			hits = append(hits, p[n-1])
		}
	}
	return hits, max(reached, from-1), nil
}

// Decisions returns the decisions on ticks of a schedule from a time on.
func (f *File) Decisions(_ context.Context, name string, from time.Time) (all []events.Record, err error) {
	for i := range f.ticks {
		if r := &f.ticks[i]; r.Fact.Schedule == name && !r.Stored.Before(from) {
			all = append(all, *r)
		}
	}
	return all, nil
}
