package incident

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"millrace/events"
	"millrace/task"
	"millrace/task/value"
)

// File is an open incident file.
type File struct {
	Manifest Manifest
	// Blocks are the blocks that the file has or had.
	Blocks []Block
	// Notes are the notes of people, in order of writing.
	Notes []Note
	// Missing are the parts that are absent or damaged; the rest is intact.
	Missing []Missing

	// Incomplete are the subjects that lack facts, such as "task 01J…"; also nil if the index is
	// not intact.
	Incomplete []string
	// Unpacked is the size of its blocks as their heads claim it, in bytes: about what it takes in memory.
	Unpacked int

	facts   [][]byte // lines
	output  [][]byte
	results map[string][]byte // by their digests
	index   map[string]int
}

// Missing is a part that the file lacks.
type Missing struct {
	Section string `json:"section"`
	// After is the last sequence before it, and Before the first one behind it; 0 if there is none.
	After  uint64 `json:"after"`
	Before uint64 `json:"before,omitempty"`
	// Lines is how many facts, or batches, it had; 0 if unknown.
	Lines int    `json:"lines,omitempty"`
	Why   string `json:"why"`
}

// Errors of files that are not incident files, or entirely unreadable.
var (
	// ErrNone: the data has no part of an incident file.
	ErrNone = errors.New("it is no incident file: `millrace incident export` writes them")
	// ErrRuined: the data has parts of an incident file, and none of them is intact.
	ErrRuined = errors.New("no part of this incident file is intact: it is cut or damaged from its beginning on")
	// ErrLater: the file is of a later version, or needs features unknown to this program.
	ErrLater = errors.New("use a newer millrace")
	// ErrLarge: the file holds more than the reader allows.
	ErrLarge = errors.New("more than is read at once")
)

// Is tells whether a block of an incident file begins somewhere in the given part of a file. The
// first block may be damaged.
func Is(part []byte) bool { return bytes.Contains(part, lead) }

// MaxUnpacked is the most that the blocks of a file may hold, unpacked, in bytes: their content is kept
// in memory. 256 MiB are some millions of facts.
const MaxUnpacked = 256 << 20

// Open reads a file whose blocks hold at most [MaxUnpacked]. It leaves out cut or damaged parts, and
// [File.Missing] lists them. The error wraps [ErrNone] or [ErrRuined] if nothing is readable, or
// [ErrLater].
func Open(data []byte) (*File, error) { return OpenUpTo(data, MaxUnpacked) }

// OpenUpTo is [Open] with another bound, in bytes. What the heads of blocks claim counts, so a file
// beyond it is refused before it costs that much; the error wraps [ErrLarge].
func OpenUpTo(data []byte, most int) (*File, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	o := opening{file: &File{index: map[string]int{}, results: map[string][]byte{}}, seen: map[uint32]bool{}, notes: map[string]int{}, most: most}
	if err := o.scan(data, dec); err != nil {
		return nil, err
	}
	o.file.Unpacked = o.size
	if len(o.whole) == 0 && Is(data) {
		return nil, ErrRuined
	}
	return o.done()
}

// opening is a file while it is being read.
type opening struct {
	file  *File
	seen  map[uint32]bool // intact blocks, by number
	whole []Block
	bad   map[uint32]string // the damage of blocks with intact heads
	heads []Block           // the heads of these
	known bool              // the manifest was read
	end   *ending           // the last intact one
	cut   string            // the fault where no head could be read
	later error
	size  int            // of all blocks, as their heads claim it, and of what is kept of their lines
	most  int            // the allowed size
	tried int            // bytes of the blocks that could not be read
	notes map[string]int // where the last note of a name is
}

// Blocks that cannot be read may lie within each other: all of them are tried as long as they have, in
// all, at most so many times the bytes of the file. No damage makes more of an honest file.
const maxTried = 16

// maxEnding is the largest manifest or end, and ofEntry about what a note, an entry of the index or a
// listed block takes in memory, in bytes: their lines may be far shorter.
const (
	maxEnding = 2 << 20
	ofEntry   = 128
)

func (o *opening) large() error {
	return fmt.Errorf("it holds more than %s, unpacked: %w", value.Size(o.most), ErrLarge)
}

// room counts some entries, and tells whether they are allowed.
func (o *opening) room(entries int) error {
	if o.size += ofEntry * entries; o.size > o.most {
		return o.large()
	}
	return nil
}

// note adds a note in place of the one of its name.
func (o *opening) note(n Note) error {
	if err := o.room(1); err != nil {
		return err
	}
	o.notes[n.Name] = len(o.file.Notes)
	o.file.Notes = append(o.file.Notes, n)
	return nil
}

// scan visits all blocks, and skips the data between them.
func (o *opening) scan(data []byte, dec *zstd.Decoder) error {
	o.bad = map[uint32]string{}
	for at := 0; at < len(data); {
		h, ok := readHead(data[at:])
		if !ok {
			o.cut = "there is a part that cannot be read"
			next := bytes.Index(data[at+1:], lead)
			if next < 0 {
				return o.later
			}
			at += 1 + next
			continue
		}
		if h.unpacked <= maxBlock {
			o.size += int(h.unpacked)
		}
		if o.size > o.most {
			return o.large()
		}
		err := errSum
		var lines []byte
		if o.tried <= maxTried*len(data) {
			lines, err = h.lines(data[at:], dec)
		}
		switch {
		case h.version > Version:
			o.later = fmt.Errorf("it is an incident file of version %d, this program reads up to %d: %w", h.version, Version, ErrLater)
			return o.later
		case err == nil:
			err = o.take(&h, lines)
		}
		if o.size > o.most {
			return o.large()
		}
		at += headSize
		if err != nil {
			o.tried += int(min(uint64(h.packed), uint64(len(data))))
			if !o.seen[h.Number] {
				o.bad[h.Number] = err.Error()
				o.heads = append(o.heads, h.Block)
			}
			continue // its length may be wrong as well: search for the next one
		}
		at += int(h.packed)
	}
	return o.later
}

// take takes an intact block.
func (o *opening) take(h *head, lines []byte) error {
	f := o.file
	if o.seen[h.Number] && h.Section != SectionEnd {
		return nil // a repeated block
	}
	if (h.Section == SectionManifest || h.Section == SectionEnd) && len(lines) > maxEnding {
		return errSize
	}
	switch h.Section {
	case SectionManifest:
		if err := json.Unmarshal(lines, &f.Manifest); err != nil {
			return err
		}
		o.known = true
	case SectionFacts:
		f.facts = append(f.facts, lines)
	case SectionOutput:
		f.output = append(f.output, lines)
	case SectionResults:
		for line := range bytes.Lines(lines) {
			var r Result
			if err := json.Unmarshal(line, &r); err != nil {
				return err
			}
			if err := o.room(1); err != nil {
				return err
			}
			f.results[r.Digest] = r.Body
		}
	case SectionNotes:
		for line := range bytes.Lines(lines) {
			var n Note
			if err := json.Unmarshal(line, &n); err != nil {
				return err
			}
			if err := o.note(n); err != nil {
				return err
			}
		}
	case SectionIndex:
		for line := range bytes.Lines(lines) {
			var e entry
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
			if err := o.room(1); err != nil {
				return err
			}
			f.index[e.Of] = e.Facts
		}
	case SectionEnd:
		var e ending
		if err := json.Unmarshal(lines, &e); err != nil {
			return err
		}
		if err := o.room(len(e.Blocks)); err != nil {
			return err
		}
		o.end, f.Manifest, o.known = &e, e.Manifest, true
	}
	o.seen[h.Number] = true
	o.whole = append(o.whole, h.Block)
	return nil
}

// done determines the missing parts.
func (o *opening) done() (*File, error) {
	f := o.file
	switch {
	case len(o.whole) == 0:
		return nil, ErrNone
	case len(f.Manifest.Needs) > 0:
		return nil, fmt.Errorf("it needs %s: %w", value.List(f.Manifest.Needs), ErrLater)
	}
	at := -1
	f.Notes = slices.DeleteFunc(f.Notes, func(n Note) bool {
		at++
		return o.notes[n.Name] != at
	})
	f.Blocks = o.listed()
	last := map[Section]uint64{}
	var lost []int
	for i, b := range f.Blocks {
		if o.seen[b.Number] {
			last[b.Section] = b.Last
			continue
		}
		why := o.bad[b.Number]
		if why == "" {
			why = o.cut
		}
		if why == "" {
			why = errCut.Error()
		}
		m := Missing{Section: b.Section.String(), Lines: int(b.Lines), Why: why}
		if b.Section.inLog() {
			m.After = last[b.Section]
		}
		f.Missing, lost = append(f.Missing, m), append(lost, i)
	}
	o.bound(lost)
	if !o.known {
		f.Missing = append(f.Missing, Missing{Section: SectionManifest.String(), Why: "neither the manifest nor its copy at the end can be read"})
	}
	if o.end == nil {
		m := Missing{Section: SectionEnd.String(), Why: "the end of the file is missing, and with it whatever stood behind the last block"}
		if last := o.lastFact(); last > 0 {
			m.Section, m.After = SectionFacts.String(), last
		}
		f.Missing = append(f.Missing, m)
	} else if o.cut != "" && len(f.Missing) == 0 {
		f.Missing = append(f.Missing, Missing{Section: SectionNotes.String(), Why: o.cut + " behind the last block"})
	}
	if o.end == nil {
		f.index = nil // it may be incomplete
	}
	f.findIncomplete()
	return f, nil
}

// lacks tells whether part of a section is missing.
func (f *File) lacks(s Section) bool {
	return slices.ContainsFunc(f.Missing, func(m Missing) bool { return m.Section == s.String() })
}

// findIncomplete finds the subjects that lack facts.
func (f *File) findIncomplete() {
	if !f.lacks(SectionFacts) {
		return
	}
	if f.lacks(SectionIndex) || len(f.index) == 0 {
		f.index = nil
		return
	}
	there := map[string]int{}
	for r, err := range f.Facts() {
		if err == nil {
			there[thing(&r)]++
		}
	}
	for of, n := range f.index {
		if there[of] < n {
			f.Incomplete = append(f.Incomplete, of)
		}
	}
	slices.Sort(f.Incomplete)
}

// Import says what a log lacks that consists of the facts of the file.
func (f *File) Import() events.Import {
	last := uint64(0)
	for _, b := range f.Blocks {
		if b.Section == SectionFacts {
			last = max(last, b.Last)
		}
	}
	is := events.Import{Hidden: last, Lacks: last}
	if f.Manifest.Raw {
		is.Hidden = min(f.Manifest.Hidden, last)
	}
	if f.Manifest.Left == 0 && !f.lacks(SectionFacts) {
		is.Lacks = min(f.Manifest.Lacks, last)
	}
	return is
}

// Until is the sequence up to which the file has all facts; false if it has all, or if
// [File.Incomplete] is known.
func (f *File) Until() (seq uint64, bounded bool) {
	if f.index != nil || !f.lacks(SectionFacts) {
		return 0, false
	}
	seq = math.MaxUint64
	for _, m := range f.Missing {
		if m.Section == SectionFacts.String() {
			seq = min(seq, m.After)
		}
	}
	return seq, true
}

// Whole returns the facts of subjects that lack none. If these subjects are not known, it returns
// the facts before the first missing one. The fold of these facts is the true state.
func (f *File) Whole() iter.Seq2[events.Record, error] {
	until, bounded := f.Until()
	return func(yield func(events.Record, error) bool) {
		for r, err := range f.Facts() {
			if bounded && r.Seq > until {
				return
			}
			if _, lacks := slices.BinarySearch(f.Incomplete, thing(&r)); !lacks && !yield(r, err) {
				return
			}
		}
	}
}

// listed returns the present and former blocks, as far as known: from the end of the file, or else
// from their numbers.
func (o *opening) listed() []Block {
	var all []Block
	if o.end != nil {
		all = slices.Clone(o.end.Blocks)
	}
	known, there := len(all), map[uint32]bool{}
	for _, b := range all {
		there[b.Number] = true
	}
	for _, b := range slices.Concat(o.whole, o.heads) {
		if known > 0 && b.Number < uint32(known) || there[b.Number] { // a file has fewer
			continue
		}
		there[b.Number], all = true, append(all, b)
	}
	slices.SortStableFunc(all, func(a, b Block) int { return int(a.Number) - int(b.Number) })
	if o.end != nil {
		return all
	}
	// Missing numbers are blocks that are lost entirely.
	var filled []Block
	for i, b := range all {
		first := uint32(0)
		if i > 0 {
			first = all[i-1].Number + 1
		}
		if b.Number > first {
			lost := Block{Section: b.Section, Number: first}
			if i > 0 && all[i-1].Section == SectionFacts {
				lost.Section = SectionFacts
			}
			if first == 0 {
				lost.Section = SectionManifest
			}
			filled = append(filled, lost)
		}
		filled = append(filled, b)
	}
	return filled
}

// inLog tells whether the lines of a section have sequences.
func (s Section) inLog() bool { return s == SectionFacts || s == SectionOutput }

// bound says before which sequences the missing blocks lie.
func (o *opening) bound(lost []int) {
	f, next := o.file, map[Section]uint64{}
	for i, b := range slices.Backward(f.Blocks) {
		switch n := len(lost) - 1; {
		case n < 0:
			return
		case i == lost[n]:
			if b.Section.inLog() {
				f.Missing[n].Before = next[b.Section]
			}
			lost = lost[:n]
		default:
			next[b.Section] = b.First
		}
	}
}

func (o *opening) lastFact() (last uint64) {
	for _, b := range o.whole {
		if b.Section == SectionFacts {
			last = max(last, b.Last)
		}
	}
	return last
}

// Facts returns the facts of the file, in the order of the log. An unreadable line is an error,
// after which others may follow.
func (f *File) Facts() iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		last := uint64(0)
		for _, block := range f.facts {
			for line := range bytes.Lines(block) {
				r, err := events.ReadLine(line)
				if err == nil && r.Seq <= last {
					err = fmt.Errorf("sequence %d comes after %d", r.Seq, last)
				}
				if err == nil {
					last = r.Seq
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

// Result is the result of a step that the log keeps apart, of which it has the digest and the size.
func (f *File) Result(_ task.ID, digest string, size int) ([]byte, error) {
	body, there := f.results[digest]
	switch {
	case !there:
		return nil, fmt.Errorf("the file does not have the %d bytes of a step's result: `millrace incident export --keep-params` takes those that are stored", size)
	case len(body) != size || value.Digest(body) != digest:
		return nil, fmt.Errorf("the file has other bytes than the %d of digest %.12s", size, digest)
	}
	return body, nil
}

// Output is the output of tasks, as far as the file has it.
func (f *File) Output() iter.Seq2[Lines, error] {
	return func(yield func(Lines, error) bool) {
		for _, block := range f.output {
			for line := range bytes.Lines(block) {
				var l Lines
				err := json.Unmarshal(line, &l)
				if err != nil {
					err = value.Plainly(err)
				}
				if !yield(l, err) {
					return
				}
			}
		}
	}
}
