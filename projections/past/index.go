// Package past is the index of the past: a file beside the rows of the read model, from which lists, counts and
// sums are answered as of any place in the log. It is made from the log again if it is lost.
//
// Each task has a number, in the order in which the log first names them. The file is a sequence of entries. For
// each message about a task one tells the task's [place] after it; another tells its [origin] when it is born; what
// else the index has of a message is a note. In memory the file is divided into blocks, with summaries that tell
// which of them a question has to read. A [scene] has the places and origins of all tasks as of one sequence; it
// is read on from the nearest [frame].
//
// The index has no whole tasks. Those of a page come from the rows, if they have not changed since, and else from
// their messages in the log, which the index finds.
package past

import (
	"context"
	"errors"
	"math"
	"os"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// Index is the index of the past of one read model. One goroutine writes it, with Begin, Add and Write; any
// number may ask meanwhile.
type Index interface {
	// Begin begins a batch of entries behind an end that Write has returned; the zero one is the
	// beginning. Entries behind it do not count. The error wraps [ErrDamaged] if the file is not what was
	// written up to there.
	Begin(end End) error
	// Add adds a record to the batch: what it has made of its task, nil if it is about none.
	Add(r *events.Record, m *Move)
	// Write writes the batch to the file, and returns its end. A batch without entries makes durable
	// what was written before.
	Write() (End, error)
	// At answers as of a place in the log, as soon as the rows have reached it.
	At(p view.Point, rows Rows, log Log) *View
	// Born returns the tasks that the log up to an end names before a sequence.
	Born(ctx context.Context, end End, before uint64) ([]Born, error)
	// Trim writes to the file path an index of the log from a sequence on: of earlier messages it has what has
	// become of these tasks, by their numbers, in ascending order. It returns that index, its end, and the
	// new numbers of these tasks; all others keep theirs. This index goes on to answer.
	Trim(ctx context.Context, path string, end End, from uint64, live []uint32) (Index, End, []uint32, error)
	// Now answers as of the place to which rows have come, with the size of the index up to there. Use
	// the view before the next call, which must not come with an earlier place.
	Now(ctx context.Context, p view.Point, size int64, rows Rows) (*View, error)
	// Close closes the file. Later questions fail.
	Close() error
}

// Open opens the index of the past in a file, and creates that if needed. It calls damaged when a
// question shows that the file is not what was written.
func Open(path string, bounds Bounds, damaged func()) (Index, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	m := &index{file: file, bounds: bounds, damaged: damaged}
	m.begin()
	return m, nil
}

// Begin implements [Index].
func (m *index) Begin(end End) (err error) {
	if w := m.writer; w == nil || end != w.end && end != w.written {
		if m.writer, err = m.continued(end); err != nil {
			m.writer = nil
			return err
		}
	}
	m.writer.begin(end)
	return nil
}

// continued is a writer behind an end, after a look at all that was written before.
func (m *index) continued(end End) (*writer, error) {
	scan, sum := scanner{until: math.MaxUint64}, uint32(0)
	base := uint32(0)
	scan.note = func(r *reader) {
		if r.uint() == noteBase {
			base = uint32(r.uint()) // it was one
		}
	}
	_, err := eachPart(context.Background(), m.file, 0, end.Size, m.bounds.Block, &scan, func(_ int64, part []byte) { sum = checksum(sum, part) })
	if err == nil && sum != end.Sum {
		err = ErrDamaged
	}
	if err == nil {
		err = m.file.Truncate(end.Size)
	}
	w := &writer{file: m.file, progress: scan.progress}
	w.tasks += base
	for _, is := range scan.places {
		w.places.add(is)
	}
	for _, is := range scan.origins {
		w.origins.add(is)
	}
	for _, is := range scan.names {
		w.names.add(is)
	}
	w.keep()
	w.end = end
	return w, err
}

// Add implements [Index].
func (m *index) Add(r *events.Record, of *Move) {
	if of == nil {
		m.writer.other(r)
	} else {
		m.writer.note(r, of)
	}
}

// Write implements [Index].
func (m *index) Write() (End, error) { return m.writer.write() }

// At implements [Index].
func (m *index) At(p view.Point, rows Rows, log Log) *View {
	return &View{at: p, rows: rows, log: log}
}

// Now implements [Index].
func (m *index) Now(ctx context.Context, p view.Point, size int64, rows Rows) (*View, error) {
	if err := m.toEnd(ctx, size); err != nil {
		return nil, m.noticed(err)
	}
	m.present.reached = p.Seq
	return &View{at: p, rows: rows, present: m.present}, nil
}

// Close implements [Index].
func (m *index) Close() error { return m.file.Close() }

// noticed reports that the file is not what was written, if an error says so.
func (m *index) noticed(err error) error {
	if errors.Is(err, ErrDamaged) {
		m.damaged()
	}
	return err
}

// Rows are the rows of the read model that an index belongs to.
type Rows interface {
	// Reached returns the index, and its size, when the rows have come to a sequence, or further.
	Reached(ctx context.Context, seq uint64) (of Index, size int64, err error)
	// Known returns the known tasks among some, in no particular order.
	Known(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Numbers returns the numbers that known tasks have in the index.
	Numbers(ctx context.Context, ids []task.ID) (map[task.ID]uint32, error)
}

// Log reads what the index of the past only refers to.
type Log interface {
	// About returns the facts about a task, in the order of the log.
	About(ctx context.Context, ref view.Ref) ([]events.Record, error)
	// Messages returns the messages that exist at sequences, in no particular order.
	Messages(ctx context.Context, seqs []uint64) ([]events.Record, error)
}

// View answers as of one place in the log.
type View struct {
	at      view.Point
	rows    Rows
	log     Log
	present *scene // nil for a place in the past
}

// Point implements [view.Model].
func (p *View) Point(context.Context) (view.Point, error) { return p.at, nil }

// scene returns the places of all tasks.
func (p *View) scene(ctx context.Context) (*scene, error) {
	if p.present != nil {
		return p.present, nil
	}
	of, size, err := p.rows.Reached(ctx, p.at.Seq)
	if err != nil {
		return nil, err
	}
	m, ok := of.(*index)
	if !ok {
		return nil, view.ErrUnindexed
	}
	s, err := m.sceneAt(ctx, size, p.at.Seq)
	return s, m.noticed(err)
}

// scanBlock reads a block, up to the scene.
func (p *View) scanBlock(ctx context.Context, s *scene, b *block, to *scanner) error {
	id := append(to.id[:0], b.id...)
	to.progress, to.until, to.whole = b.progress, s.reached, true
	to.id = id
	to.places, to.origins, to.names = s.tables.places, s.tables.origins, s.tables.names
	_, err := eachPart(ctx, s.of.file, b.at, min(b.end, s.at), s.of.bounds.Block, to, nil)
	return s.of.noticed(err)
}
