package past

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/limit"
)

// Born is a task by its number in the index.
type Born struct {
	ID     task.ID
	Number uint32
}

// Born implements [Index].
func (m *index) Born(ctx context.Context, end End, before uint64) (born []Born, err error) {
	scan, base := scanner{until: before - 1}, uint32(0)
	scan.note = func(r *reader) {
		if r.uint() == noteBase {
			base = uint32(r.uint()) // it was one
		}
	}
	scan.birth = func(number uint32, id []byte) { born = append(born, Born{task.ID(id), base + number}) }
	_, err = eachPart(ctx, m.file, 0, end.Size, m.bounds.Block, &scan, nil)
	return born, err
}

// Trim implements [Index]. It reads the whole index, at some 50 ns for each entry.
func (m *index) Trim(ctx context.Context, path string, end End, from uint64, live []uint32) (_ Index, _ End, numbers []uint32, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, End{}, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("trim the index of the past: %w", err), file.Close(), os.Remove(path))
		}
	}()
	t := &trimmer{
		from: from, live: live, w: &writer{file: file}, of: make(map[uint32]*survivor, len(live)),
		grants: map[task.ID]grant{}, rates: map[string]int64{}, decided: map[string]int64{}, scan: scanner{until: math.MaxUint64},
	}
	t.scan.birth, t.scan.from, t.scan.move, t.scan.note = t.birth, t.origin, t.move, t.note
	var wrote error
	_, err = eachPart(ctx, m.file, 0, end.Size, m.bounds.Block, &t.scan, func(int64, []byte) {
		if len(t.w.batch) >= flushed && wrote == nil {
			wrote = t.flush()
		}
	})
	t.begin()
	if err = errors.Join(err, wrote, t.flush()); err == nil {
		err = file.Sync()
	}
	if err != nil {
		return nil, End{}, nil, err
	}
	t.w.keep()
	is := &index{file: file, bounds: m.bounds, damaged: m.damaged, writer: t.w}
	is.begin()
	for _, number := range live {
		numbers = append(numbers, t.of[number].is)
	}
	return is, t.w.end, numbers, nil
}

// flushed is how many bytes are written at once.
const flushed = 1 << 20

// recent is how far back skipped ticks, and attempts under budgets, count from the latest one: the longest
// period of a budget, and a day.
const recent = 32 * 24 * time.Hour

// survivor is a task that lives on: what the index has of it from before.
type survivor struct {
	is          uint32 // its new number
	id          string
	born        uint64
	told, again bool // its origin is known, and came again or after its birth
	of          origin
	submitted   int64
	tick        int64
	labels      []byte
	turn        uint64 // of its line, which is "" if it waits for more than its limits
	line        string
	in          place
	since       int64
	ran         uint64
	moved       int
	passed      uint64
	failed      int // when it failed last, counted in failures: several that an earlier trim wrote share one message
}

// trimmer copies an index. Before the first sequence that stays it collects what lives on, with which the
// copy begins.
type trimmer struct {
	scan scanner
	w    *writer
	from uint64
	live []uint32
	of   map[uint32]*survivor // by the old number
	base uint32               // what the scan's numbers lack
	// last is the newest task of before, by its old number; begun tells that the copy has begun.
	last     uint32
	begun    bool
	failures int // read so far, of tasks that live on

	grants  map[task.ID]grant
	rates   map[string]int64
	decided map[string]int64
	skips   []skipped
	shifts  []spent
}

// skipped are ticks of a schedule without a task, up to one.
type skipped struct {
	schedule string
	until    int64
	n        uint64
	reason   string
}

// spent is an effect on attempts under budgets.
type spent struct {
	names string
	limit.Shift
}

// flush writes what was made so far.
func (t *trimmer) flush() error {
	if len(t.w.batch) == 0 {
		return nil
	}
	end, err := t.w.write()
	t.w.end, t.w.batch = end, t.w.batch[:0]
	return err
}

// stays tells whether the message that is read stays, and begins the copy with the first that does.
func (t *trimmer) stays() bool {
	if t.scan.seq < t.from {
		return false
	}
	t.begin()
	t.w.message(t.scan.seq)
	return true
}

// number is the new number of a task; 0 if it is gone.
func (t *trimmer) number(read uint32) uint32 {
	number := t.base + read
	if number > t.last {
		return number
	}
	if s := t.of[number]; s != nil {
		return s.is
	}
	return 0
}

func (t *trimmer) birth(read uint32, id []byte) {
	if t.stays() {
		t.w.birth(string(id))
		return
	}
	t.last = t.base + read
	if _, lives := slices.BinarySearch(t.live, t.last); lives {
		t.of[t.last] = &survivor{id: string(id), born: t.scan.seq}
	}
}

func (t *trimmer) origin(read, of uint32, submitted, tick int64) {
	is := t.scan.origins[of]
	if t.stays() {
		if number := t.number(read); number > 0 {
			t.w.from(number, is, submitted, tick)
		}
	} else if s := t.of[t.base+read]; s != nil {
		s.again = s.told || t.scan.seq != s.born
		s.told, s.of, s.submitted, s.tick = true, is, submitted, tick
	}
}

func (t *trimmer) move(read, to uint32, since int64) {
	is := t.scan.places[to]
	if t.stays() {
		if number := t.number(read); number > 0 {
			t.w.move(number, is, since, t.scan.ran)
		}
		return
	}
	s := t.of[t.base+read]
	if s == nil {
		return
	}
	if s.in, s.since, s.ran = is, since, t.scan.ran; !is.waits {
		s.passed = t.scan.seq
	}
	if s.moved++; is.failed {
		t.failures++
		s.failed = t.failures
	}
}

func (t *trimmer) note(r *reader) {
	kind := r.uint()
	if kind == noteBase {
		t.base = uint32(r.uint()) // it was one
		t.last = t.base
		return
	}
	stays := t.stays()
	text := append(t.w.text[:0], byte(kind)) // it is small
	switch kind {
	case noteGrant:
		turn, rated := r.uint(), r.uint()
		id := task.ID(r.text(uint64(len(r.b) - r.at)))
		if t.grants[id] = (grant{task.Grant{Task: id, Turn: turn, Rated: rated}, t.scan.seq}); stays {
			t.grant(t.scan.seq, id)
		}
	case noteRate:
		name := t.scan.name(r)
		if t.rates[name] = r.int(); stays {
			t.w.add(t.scan.seq, binary.AppendVarint(t.named(text, name), t.rates[name]))
		}
	case noteShift:
		names := t.scan.name(r)
		rest := r.text(uint64(len(r.b) - r.at))
		if stays {
			t.w.add(t.scan.seq, append(t.named(text, names), rest...))
		} else if took, ok := limit.ReadShift(rest); ok {
			t.shifts = append(t.shifts, spent{names, took})
		}
	case noteTick:
		name, until := t.scan.name(r), r.int()
		is := skipped{name, until, r.uint(), t.scan.name(r)}
		if stays {
			t.tick(t.scan.seq, is)
			return
		}
		if before, known := t.decided[name]; !known || until > before {
			t.decided[name] = until
		}
		if is.n > 0 {
			t.skips = append(t.skips, is)
		}
	case noteFact:
		if name := t.scan.name(r); stays {
			t.w.add(t.scan.seq, t.named(text, name))
		}
	case noteWaits:
		turn, line := r.uint(), t.scan.name(r)
		if stays {
			t.waits(t.scan.seq, turn, line)
		} else if s := t.of[t.base+t.scan.tasks]; s != nil {
			s.turn, s.line = turn, line
		}
	case noteLabels:
		if s := t.of[t.base+t.scan.tasks]; stays {
			t.w.add(t.scan.seq, append(text, r.b[1:]...))
		} else if s != nil {
			s.labels = slices.Clone(r.b)
		}
		r.at = len(r.b)
	}
}

// named appends the number of a name to a note that has begun.
func (t *trimmer) named(note []byte, name string) []byte {
	n := t.w.nameOf(name)
	return binary.AppendUvarint(note, n)
}

func (t *trimmer) grant(seq uint64, id task.ID) {
	g := t.grants[id]
	t.w.add(seq, append(binary.AppendUvarint(binary.AppendUvarint(append(t.w.text[:0], noteGrant), g.Turn), g.Rated), id...))
}

func (t *trimmer) tick(seq uint64, is skipped) {
	text := binary.AppendUvarint(binary.AppendVarint(t.named(append(t.w.text[:0], noteTick), is.schedule), is.until), is.n)
	t.w.add(seq, t.named(text, is.reason))
}

func (t *trimmer) waits(seq, turn uint64, line string) {
	t.w.add(seq, t.named(binary.AppendUvarint(append(t.w.text[:0], noteWaits), turn), line))
}

// begin writes what lives on, as two messages before the first that stays: births in their order, and
// then origins that came later, and places, those of the tasks that failed last at the end.
func (t *trimmer) begin() {
	if t.begun {
		return
	}
	t.begun = true
	w, seq := t.w, t.from-2
	var all []*survivor
	for _, number := range t.live {
		all = append(all, t.of[number])
	}
	w.tasks = t.last - uint32(len(all)) // so that later tasks keep their numbers
	w.add(seq, binary.AppendUvarint(binary.AppendUvarint([]byte{noteBase}, uint64(w.tasks)), t.from))
	for _, s := range all {
		if s.is = w.birth(s.id); s.told {
			w.from(s.is, s.of, s.submitted, s.tick)
		}
		if len(s.labels) > 0 {
			w.add(seq, s.labels)
		}
		if s.line != "" && s.moved == 1 {
			t.waits(seq, s.turn, s.line)
		}
	}
	seq = t.from - 1
	w.message(seq)
	for _, s := range all {
		if s.again {
			w.from(s.is, s.of, s.submitted, s.tick)
		}
	}
	slices.SortStableFunc(all, func(a, b *survivor) int { return cmp.Compare(a.failed, b.failed) })
	for _, s := range all {
		is := s.in
		is.first, is.anyFact, is.traits, is.failed = false, false, traits{}, s.failed > 0 && is.state.Failed()
		w.move(s.is, is, s.since, s.ran)
		if g, admitted := t.grants[task.ID(s.id)]; admitted && g.seq > s.passed {
			t.grant(seq, g.Task)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.rates)) {
		w.add(seq, binary.AppendVarint(t.named(append(w.text[:0], noteRate), name), t.rates[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(t.decided)) {
		t.tick(seq, skipped{name, t.decided[name], 0, ""})
	}
	for _, is := range t.skips {
		if is.until > t.decided[is.schedule]-recent.Microseconds() {
			t.tick(seq, is)
		}
	}
	latest := time.Time{}
	for i := range t.shifts {
		if at := t.shifts[i].At; at.After(latest) {
			latest = at
		}
	}
	for i := range t.shifts {
		if s := &t.shifts[i]; s.At.After(latest.Add(-recent)) {
			w.add(seq, s.Shift.Append(t.named(append(w.text[:0], noteShift), s.names)))
		}
	}
	t.shifts, t.skips = nil, nil
}
