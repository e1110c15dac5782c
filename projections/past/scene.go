package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"sort"
	"sync"

	"millrace/projections/view"
	"millrace/task"
)

// Bounds bound the memory and the reading of an index. Sizes are in bytes.
type Bounds struct {
	// Block is the smallest part of the index that makes a block.
	Block int
	// Frame is the smallest distance between two frames in the index. They are also at least one
	// Part-th of the preceding index apart.
	Frame, Part int64
	// Frames is the largest size of all frames. Beyond it, every second one is dropped.
	Frames int
	// Scenes is for how many moments the places of all tasks are kept, and Tasks how many tasks
	// these may have in total, unless it is one moment.
	Scenes, Tasks int
	// Near is how much of the index is searched for the messages of a task. Where that is too little for
	// at most Few tasks, the log is asked for the messages of each.
	Near int64
	Few  int
}

// UsualBounds are the bounds for a server.
var UsualBounds = Bounds{
	Block:  16 << 10,
	Frame:  256 << 10,
	Part:   64,
	Frames: 32 << 20,
	Scenes: 3,
	Tasks:  4 << 20,
	Near:   1 << 20,
	Few:    100,
}

// mark is where reading can continue: between two entries, at an offset in the file.
type mark struct {
	progress
	at int64
}

// mark is where the scan has come to, at an offset in the file.
func (s *scanner) mark(at int64) mark {
	is := mark{s.progress, at}
	is.id = slices.Clone(s.id)
	return is
}

// block is a part of the file with a summary of its entries, which tells whether a question has to read it.
type block struct {
	mark
	rank int // among the blocks
	end  int64
	// until is its last task. Low and high are the least and the greatest id among the tasks that
	// it introduces.
	until     uint32
	low, high string
	// first and last bound the times of submission.
	first, last int64
	// skips is the time of the latest ticks without a task in the block. Limits says that it has
	// entries about limits.
	skips int64
	// since is the earliest time since when a task is pending. Failed says that tasks failed.
	since          int64
	limits, failed bool
	// places are those that tasks came to, groups those of these tasks, and names those of messages that
	// are about no task.
	places, groups, names sieve
}

// sieve is a set of numbers. Several numbers share a bit, so it may say that it has one that it has not.
type sieve [16]uint64

func (b *sieve) add(n uint32) { b[n/64%16] |= 1 << (n % 64) }

func (b *sieve) has(n uint32) bool { return b[n/64%16]&(1<<(n%64)) != 0 }

func (b *sieve) meets(other *sieve) bool {
	for i := range b {
		if b[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// groupOf is the group of a task, by its number: tasks that were born together move together.
func groupOf(number uint32) uint32 { return number / 1024 }

// index is an [Index]. What it has in memory is made at the first question.
type index struct {
	file    *os.File
	bounds  Bounds
	damaged func()  // called when the file is not what was written
	writer  *writer // of the goroutine that writes; nil until it begins
	present *scene  // at the end of the index; [index.Now] moves it on, so it costs no copy as scenes of the past do

	mu     sync.Mutex
	scan   scanner // guarded by mu; over the blocks' content. Its tables have all definitions so far
	read   int64   // guarded by mu; the position of scan
	born   uint64  // guarded by mu; the sequence of the message that introduced the newest task
	base   uint32  // guarded by mu; the rows' numbers of tasks are so much greater than those in here
	first  uint64  // guarded by mu; the first sequence of which the index tells
	blocks []block
	from   []uint32            // guarded by mu; of each task, one more than the number of the origin with which it was born. Only appended to
	reborn map[uint32]bool     // guarded by mu; tasks whose origin came again, or after their birth
	later  []laterOrigin       // guarded by mu; these origins, in the order of the log
	labels bearers             // guarded by mu
	frames []frame             // guarded by mu; in order
	framed int                 // guarded by mu; their size in bytes
	apart  int64               // guarded by mu; the factor by which their distance was widened for lack of room
	scenes []*scene            // guarded by mu; the most recently used last
	named  map[uint32]numbered // guarded by mu; see [mostNamed]
}

// bearers are the numbers of the tasks that were born with a label or a step, ascending.
type bearers map[string]*[]uint32

func (l bearers) add(label []byte, number uint32) {
	of := l[string(label)]
	if of == nil {
		of = new([]uint32)
		l[string(label)] = of
	}
	*of = append(*of, number)
}

// laterOrigin is the origin of a task from a sequence on, which it was not born with.
type laterOrigin struct {
	seq          uint64
	number, from uint32
}

// begin forgets what was read. It needs mu held.
func (m *index) begin() {
	m.scan, m.read, m.born, m.blocks, m.reborn, m.scenes = scanner{until: math.MaxUint64}, 0, 0, nil, map[uint32]bool{}, nil
	m.from, m.later, m.labels = make([]uint32, 1), nil, bearers{}
	m.frames, m.framed, m.apart, m.named = nil, 0, 1, map[uint32]numbered{}
	m.base, m.first = 0, 0
}

// cover makes blocks of the index up to a sequence, or of its first size bytes. It needs mu held.
func (m *index) cover(ctx context.Context, size int64, seq uint64) error {
	s := &m.scan
	c := blockSummary{m: m}
	s.birth, s.from, s.move, s.note = c.birth, c.from, c.move, c.note
	buffer := make([]byte, m.bounds.Block)
	for m.read < size && s.seq <= seq {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read the index of the past: %w", err)
		}
		n := int(min(int64(len(buffer)), size-m.read))
		if _, err := m.file.ReadAt(buffer[:n], m.read); err != nil {
			return notWritten(err)
		}
		m.blocks = append(m.blocks, block{
			mark:  s.mark(m.read),
			rank:  len(m.blocks),
			until: s.tasks,
			first: math.MaxInt64,
			last:  math.MinInt64,
			skips: math.MinInt64,
			since: math.MaxInt64,
		})
		c.of = &m.blocks[len(m.blocks)-1]
		used, err := s.read(buffer[:n])
		if err == nil && used == 0 && int64(n) == size-m.read {
			err = ErrDamaged
		}
		if err != nil {
			m.begin()
			return err
		}
		if used == 0 { // an entry is longer
			m.blocks = m.blocks[:len(m.blocks)-1]
			buffer = make([]byte, 2*len(buffer))
			continue
		}
		m.read += int64(used)
		c.of.end = m.read
	}
	return nil
}

// blockSummary sums up the entries of the last block, as the scan of the index reads them.
type blockSummary struct {
	m  *index
	of *block
}

func (c *blockSummary) birth(number uint32, id []byte) {
	b := c.of
	if is := string(id); b.until == b.tasks {
		b.low, b.high = is, is
	} else {
		b.low, b.high = min(b.low, is), max(b.high, is)
	}
	b.until, c.m.born = number, c.m.scan.seq
	c.m.from = append(c.m.from, 0)
}

func (c *blockSummary) from(number, origin uint32, submitted, _ int64) {
	m, s, of := c.m, &c.m.scan, c.of
	switch {
	case number != s.tasks || s.seq != m.born:
		m.reborn[number] = true
		m.later = append(m.later, laterOrigin{s.seq, number, origin + 1})
		return
	case number == c.of.tasks: // a block before ends within the message of its birth
		m.blocks = slices.Clone(m.blocks) // other callers may look at that
		of, c.of = &m.blocks[blockOf(m.blocks, number)], &m.blocks[len(m.blocks)-1]
	}
	m.from[number] = origin + 1 // no scene has the task yet
	of.first, of.last = min(of.first, submitted), max(of.last, submitted)
}

func (c *blockSummary) move(number, place uint32, since int64) {
	s, b := &c.m.scan, c.of
	p := &s.places[place]
	b.places.add(place)
	b.groups.add(groupOf(number))
	b.failed = b.failed || p.failed
	if p.state == task.Pending {
		b.since = min(b.since, since)
	}
}

func (c *blockSummary) note(r *reader) {
	switch r.uint() {
	case noteTick:
		c.m.scan.name(r)
		until := r.int()
		if n := r.uint(); n > 0 {
			c.of.skips = max(c.of.skips, until)
		}
	case noteFact:
		c.of.names.add(uint32(r.uint())) // there are no more names
	case noteBase:
		c.m.base, c.m.first = uint32(r.uint()), r.uint() // the first was such a number
	case noteLabels:
		for r.at < len(r.b) {
			c.m.labels.add(r.text(r.uint()), c.m.scan.tasks)
		}
	default:
		c.of.limits = true
	}
}

// blockOf is the block that introduces a task.
func blockOf(blocks []block, number uint32) int {
	return sort.Search(len(blocks), func(i int) bool { return blocks[i].until >= number }) // a block is large: none is copied
}

// scene has the places and origins of all tasks as of a sequence, by their numbers. Here the number of a place
// or an origin is one more than in the file: 0 is none. Only the guarded fields change.
type scene struct {
	mark
	of      *index
	base    uint32 // that of the index, as is first
	first   uint64
	reached uint64 // the sequence
	// tables has the places, origins and names up to then, and perhaps later ones. Blocks tell where to
	// read; reborn are the tasks whose origin came again, or after their birth.
	tables scanner
	blocks []block
	reborn map[uint32]bool
	labels bearers // those of the index, and guarded by its mu: later tasks are added

	in   paged    // one more than the number of the place
	n    []int    // how many tasks are in each place, after one entry for no place
	from []uint32 // one more than the number of the origin; the map's own list if none is a later one
	late int      // how many are later ones
	// byJob and bySchedule are the latest tasks of each origin. Decided is the latest tick by the
	// number of the schedule's name.
	byJob, bySchedule []view.Latest
	decided           []int64

	mu     sync.Mutex
	cached answers // guarded by mu
}

// frame is what reading starts from that makes a scene: the nearest one before the sequence. It shares with
// the frames before and after it what has not changed.
type frame struct {
	mark
	in                paged
	n                 []int
	byJob, bySchedule []view.Latest
	decided           []int64
}

// size is roughly how many bytes it has beside the frame before.
func (f *frame) size(before *frame) int {
	return 200 + f.in.Bytes(&before.in) + 16*(len(f.byJob)+len(f.bySchedule)) + 8*(len(f.n)+len(f.decided))
}

// frame is a copy of a scene.
func (s *scene) frame(mark mark) frame {
	return frame{mark, s.in.Copy(), slices.Clone(s.n), slices.Clone(s.byJob), slices.Clone(s.bySchedule), slices.Clone(s.decided)}
}

// sceneAt returns the places of all tasks at a sequence that the index has reached; size is the
// length of the index.
func (m *index) sceneAt(ctx context.Context, size int64, seq uint64) (*scene, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range m.scenes {
		if s.reached == seq {
			m.scenes = append(slices.Delete(m.scenes, i, i+1), s)
			return s, nil
		}
	}
	if err := m.cover(ctx, size, seq); err != nil {
		return nil, err
	}
	if seq < m.first {
		return nil, view.Forgotten{Seq: m.first}
	}
	s := m.before(seq)
	scan := s.tables
	scan.progress, scan.until = s.progress, seq
	scan.id = slices.Clone(s.id)
	s.follow(&scan)
	at, err := eachPart(ctx, m.file, s.at, m.read, m.bounds.Block, &scan, func(at int64, _ []byte) { m.framing(s, &scan, at) })
	if err != nil {
		return nil, err
	}
	s.mark, s.reached = scan.mark(at), seq
	m.origins(s)
	s.blocks, s.reborn, s.labels, s.base = slices.Clip(m.blocks), maps.Clone(m.reborn), m.labels, m.base
	s.first = m.first
	m.keepScene(s)
	return s, nil
}

// tables has the definitions so far. It needs mu held.
func (m *index) tables() scanner {
	return scanner{
		places:  slices.Clip(m.scan.places),
		origins: slices.Clip(m.scan.origins),
		names:   slices.Clip(m.scan.names),
		whole:   true,
	}
}

// origins brings the origins of a scene's tasks up to its place. It needs mu held.
func (m *index) origins(s *scene) {
	from := m.from[: s.tasks+1 : s.tasks+1]
	switch late := sort.Search(len(m.later), func(i int) bool { return m.later[i].seq > s.seq }); {
	case late == 0:
		s.from = from
	case late == s.late:
		s.from = append(s.from, from[len(s.from):]...)
	default:
		s.from, s.late = slices.Clone(from), late
		for _, is := range m.later[:late] {
			s.from[is.number] = is.from
		}
	}
}

// before is the latest known scene up to a sequence, as a base for further reading.
func (m *index) before(seq uint64) *scene {
	tables := m.tables()
	var base *scene
	for _, s := range m.scenes {
		if s.reached <= seq && (base == nil || base.at < s.at) {
			base = s
		}
	}
	var frame *frame
	for i := range m.frames {
		if m.frames[i].seq <= seq {
			frame = &m.frames[i]
		}
	}
	s := m.newScene(tables)
	if base != nil && (frame == nil || frame.at <= base.at) {
		is := base.frame(base.mark)
		frame = &is
	}
	if frame != nil {
		s.mark, s.in = frame.mark, frame.in.Copy()
		s.n, s.byJob, s.bySchedule, s.decided = slices.Clone(frame.n), slices.Clone(frame.byJob), slices.Clone(frame.bySchedule), slices.Clone(frame.decided)
	}
	s.grow()
	return s
}

// newScene is the scene before the first task.
func (m *index) newScene(tables scanner) *scene {
	s := &scene{of: m, tables: tables, n: make([]int, 1)}
	s.in.Push(0)
	return s
}

// grow makes room for what the tables have.
func (s *scene) grow() {
	s.byJob, s.bySchedule = grown(s.byJob, len(s.tables.origins)), grown(s.bySchedule, len(s.tables.origins))
	s.n = grown(s.n, len(s.tables.places)+1)
}

func grown[T any](all []T, n int) []T { return append(all, make([]T, max(n-len(all), 0))...) }

// follow makes a scan advance the scene.
func (s *scene) follow(scan *scanner) {
	scan.birth = func(uint32, []byte) {
		s.in.Push(0)
		s.n[0]++
	}
	scan.move = func(number, place uint32, _ int64) {
		s.n[s.in.At(number)]--
		s.n[place+1]++
		s.in.Set(number, place+1)
	}
	scan.from = func(number, of uint32, submitted, tick int64) {
		later(&s.byJob[of], view.Latest{At: submitted, Number: number})
		later(&s.bySchedule[of], view.Latest{At: tick, Number: number})
	}
	scan.note = func(r *reader) {
		if r.uint() != noteTick {
			return
		}
		n := r.uint()
		if n >= uint64(len(s.tables.names)) {
			r.bad = true
			return
		}
		for uint64(len(s.decided)) <= n {
			s.decided = append(s.decided, math.MinInt64)
		}
		s.decided[n] = max(s.decided[n], r.int())
	}
}

// later keeps the later of two; the zero value is none.
func later(have *view.Latest, l view.Latest) {
	if have.Number == 0 || l.After(*have) {
		*have = l
	}
}

// framing makes frames of a scene that a scan has moved on to a place, if it is far from the frame
// before. It needs mu held.
func (m *index) framing(s *scene, scan *scanner, at int64) {
	n, _ := slices.BinarySearchFunc(m.frames, at+1, func(is frame, at int64) int { return cmp.Compare(is.at, at) })
	base := int64(0)
	if n > 0 {
		base = m.frames[n-1].at
	}
	if at-base >= max(m.bounds.Frame, base/m.bounds.Part)*m.apart {
		m.keepFrame(s.frame(scan.mark(at)))
	}
}

// keepFrame keeps a frame if there is none at its place.
func (m *index) keepFrame(f frame) {
	at, there := slices.BinarySearchFunc(m.frames, f.at, func(is frame, at int64) int { return int(is.at - at) })
	if there {
		return
	}
	before := &frame{}
	if at > 0 {
		before = &m.frames[at-1]
	}
	m.framed += f.size(before)
	m.frames = slices.Insert(m.frames, at, f)
	if m.framed <= m.bounds.Frames {
		return
	}
	left := m.frames[:0]
	m.framed, m.apart = 0, 2*m.apart
	before = &frame{}
	for i := 1; i < len(m.frames); i += 2 {
		is := m.frames[i]
		m.framed += is.size(before)
		left = append(left, is)
		before = &is
	}
	clear(m.frames[len(left):])
	m.frames = left
}

// keepScene keeps a scene, and drops the least recently used.
func (m *index) keepScene(s *scene) {
	m.scenes = append(m.scenes, s)
	tasks := 0
	for i := len(m.scenes) - 1; i >= 0; i-- {
		if tasks += int(m.scenes[i].in.Len()); i < len(m.scenes)-1 && (tasks > m.bounds.Tasks || len(m.scenes)-i > m.bounds.Scenes) {
			m.scenes = slices.Delete(m.scenes, 0, i+1)
			return
		}
	}
}

// notWritten turns the error of a read beyond the end of the file into ErrDamaged.
func notWritten(err error) error {
	if errors.Is(err, io.EOF) {
		return ErrDamaged
	}
	return fmt.Errorf("read the index of the past: %w", err)
}

// eachPart reads the index between two places, at most up to the sequence of s. After each part it
// calls then with the start of the next one and what it has read. It returns where it ended.
func eachPart(ctx context.Context, file io.ReaderAt, at, end int64, part int, s *scanner, then func(at int64, part []byte)) (int64, error) {
	if s.buffer == nil {
		s.buffer = make([]byte, part)
	}
	buffer := s.buffer
	for at < end {
		n := int(min(int64(len(buffer)), end-at))
		if _, err := file.ReadAt(buffer[:n], at); err != nil {
			return at, notWritten(err)
		}
		used, err := s.read(buffer[:n])
		at += int64(used)
		switch {
		case err == errLater: //nolint:errorlint // it comes as it is
			return at, nil
		case err != nil:
			return at, err
		case ctx.Err() != nil:
			return at, fmt.Errorf("read the index of the past: %w", ctx.Err())
		case used == 0 && int64(n) == end-at:
			return at, ErrDamaged
		case used == 0:
			buffer = make([]byte, 2*len(buffer))
			continue
		}
		if then != nil {
			then(at, buffer[:used])
		}
	}
	return at, nil
}

// toEnd moves the present on to the first size bytes of the index.
func (m *index) toEnd(ctx context.Context, size int64) error {
	is := m.present
	m.present = nil // until it is there
	if is == nil {
		is = m.newScene(scanner{})
	}
	m.mu.Lock()
	err := m.cover(ctx, size, math.MaxUint64)
	is.tables = m.tables()
	is.blocks, is.reborn, is.labels, is.base = slices.Clip(m.blocks), maps.Clone(m.reborn), m.labels, m.base
	is.first = m.first
	m.mu.Unlock()
	if err != nil {
		return err
	}
	is.grow()
	is.cached = answers{}
	scan := is.tables
	scan.progress, scan.until = is.progress, math.MaxUint64
	scan.id = slices.Clone(is.id)
	is.follow(&scan)
	at, err := eachPart(ctx, m.file, is.at, size, m.bounds.Block, &scan, func(at int64, _ []byte) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.framing(is, &scan, at)
	})
	if err != nil {
		return err
	}
	is.mark = scan.mark(at)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.origins(is)
	m.present = is
	return nil
}
