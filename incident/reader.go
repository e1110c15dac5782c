package incident

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"millrace/events"
)

// File is an incident file that was opened.
type File struct {
	Manifest Manifest
	// Blocks are those that the file has, or had.
	Blocks []Block
	// Notes are what people have noted, in the order in which they did.
	Notes []Note
	// Missing are the parts that are not there, or damaged; the rest is whole.
	Missing []Missing

	// Incomplete are the things of which facts are missing, such as "task 01J…"; nil as well if the index is not whole.
	Incomplete []string

	facts  [][]byte // lines
	output [][]byte
	index  map[string]int
}

// Missing is a part of a file that is not there.
type Missing struct {
	Section string `json:"section"`
	// After is the last sequence before it, and Before the first one behind it; 0 if there is none.
	After  uint64 `json:"after"`
	Before uint64 `json:"before,omitempty"`
	// Lines is how many facts, or batches, it had; 0 if nothing tells.
	Lines int    `json:"lines,omitempty"`
	Why   string `json:"why"`
}

// Errors of a file that is none, or cannot be read at all.
var (
	// ErrNone: it has nothing of an incident file.
	ErrNone = errors.New("it is no incident file: `millrace incident export` writes them")
	// ErrLater: it is of a later version, or needs what this program does not know.
	ErrLater = errors.New("use a newer millrace")
)

// Lead is how many bytes [Is] looks at.
var Lead = len(lead)

// Is tells whether a file begins as incident files do.
func Is(beginning []byte) bool { return bytes.HasPrefix(beginning, lead) }

// Open reads a file. What is cut off or damaged is left out, and [File.Missing] says what that was. The error wraps
// [ErrNone] if nothing at all can be read, or [ErrLater].
func Open(data []byte) (*File, error) { return OpenUpTo(data, maxFile) }

// OpenUpTo is [Open] of a file from somebody else: one that holds more than so many bytes is refused before it is unpacked.
func OpenUpTo(data []byte, most int) (*File, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlock))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	o := opening{file: &File{index: map[string]int{}}, seen: map[uint32]bool{}, most: most}
	if err := o.scan(data, dec); err != nil {
		return nil, err
	}
	return o.done()
}

// Read is [Open] of what a reader has.
func Read(r io.Reader) (*File, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return Open(data)
}

// opening is a file while it is read.
type opening struct {
	file  *File
	seen  map[uint32]bool // blocks that are whole, by their numbers
	whole []Block
	bad   map[uint32]string // why blocks are damaged whose heads are whole
	heads []Block           // of those
	known bool              // the manifest is
	end   *ending           // the last one that is whole
	cut   string            // what is wrong where no head could be read
	later error
	size  int // of all blocks
	most  int // that it may be
}

// scan passes over all blocks, and over what is between them.
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
		if h.unpacked <= maxBlock && o.size+int(h.unpacked) > o.most {
			return fmt.Errorf("it holds more than %d MiB", o.most>>20)
		}
		lines, err := h.lines(data[at:], dec)
		o.size += len(lines)
		switch {
		case h.version > Version:
			o.later = fmt.Errorf("it is an incident file of version %d, this program reads up to %d: %w", h.version, Version, ErrLater)
			return o.later
		case err == nil:
			err = o.take(&h, lines)
		}
		at += headSize
		if err != nil {
			if !o.seen[h.Number] {
				o.bad[h.Number] = err.Error()
				o.heads = append(o.heads, h.Block)
			}
			continue // its length may be wrong as well: the next one is looked for
		}
		at += int(h.packed)
	}
	return o.later
}

// take takes a block that is whole.
func (o *opening) take(h *head, lines []byte) error {
	f := o.file
	if o.seen[h.Number] && h.Section != SectionEnd {
		return nil // the same once more
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
	case SectionNotes:
		for line := range bytes.Lines(lines) {
			var n Note
			if err := json.Unmarshal(line, &n); err != nil {
				return err
			}
			f.Notes = slices.DeleteFunc(f.Notes, func(old Note) bool { return old.Name == n.Name })
			f.Notes = append(f.Notes, n)
		}
	case SectionIndex:
		for line := range bytes.Lines(lines) {
			var e entry
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
			f.index[e.Of] = e.Facts
		}
	case SectionEnd:
		var e ending
		if err := json.Unmarshal(lines, &e); err != nil {
			return err
		}
		o.end, f.Manifest, o.known = &e, e.Manifest, true
	}
	o.seen[h.Number] = true
	o.whole = append(o.whole, h.Block)
	return nil
}

// done says what is missing.
func (o *opening) done() (*File, error) {
	f := o.file
	switch {
	case len(o.whole) == 0:
		return nil, ErrNone
	case len(f.Manifest.Needs) > 0:
		return nil, fmt.Errorf("it needs %v: %w", f.Manifest.Needs, ErrLater)
	}
	f.Blocks = o.listed()
	for i, b := range f.Blocks {
		if o.seen[b.Number] {
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
		m.After, m.Before = o.around(i, b.Section)
		f.Missing = append(f.Missing, m)
	}
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
		f.index = nil // nobody knows whether it is whole
	}
	f.findIncomplete()
	return f, nil
}

// lacks tells whether something of a section is missing.
func (f *File) lacks(s Section) bool {
	return slices.ContainsFunc(f.Missing, func(m Missing) bool { return m.Section == s.String() })
}

// findIncomplete finds the things of which facts are missing.
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

// Until is up to which sequence all facts of the file are there; false if all are, or if it is known what is [File.Incomplete].
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

// Whole are the facts of those things of which none is missing, or, if it is not known of which that is so, those before the first that
// is missing. What they add up to is what it was.
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

// listed are the blocks that there are or were, as far as anything tells: the end of the file, or else their numbers.
func (o *opening) listed() []Block {
	var all []Block
	add := func(more ...Block) {
		for _, b := range more {
			if !slices.ContainsFunc(all, func(a Block) bool { return a.Number == b.Number }) {
				all = append(all, b)
			}
		}
	}
	if o.end != nil {
		all = slices.Clone(o.end.Blocks)
	}
	known := len(all)
	var beyond []Block
	for _, b := range slices.Concat(o.whole, o.heads) {
		if known == 0 || b.Number >= uint32(known) { //nolint:gosec // a file has fewer
			beyond = append(beyond, b)
		}
	}
	add(beyond...)
	slices.SortStableFunc(all, func(a, b Block) int { return int(a.Number) - int(b.Number) })
	if o.end != nil {
		return all
	}
	// Numbers that are left out are blocks of which nothing is left.
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

// around are the sequences between which a block lies.
func (o *opening) around(i int, s Section) (after, before uint64) {
	if s != SectionFacts && s != SectionOutput {
		return 0, 0
	}
	for _, b := range slices.Backward(o.file.Blocks[:i]) {
		if b.Section == s && o.seen[b.Number] {
			after = b.Last
			break
		}
	}
	for _, b := range o.file.Blocks[i+1:] {
		if b.Section == s && o.seen[b.Number] {
			return after, b.First
		}
	}
	return after, 0
}

func (o *opening) lastFact() (last uint64) {
	for _, b := range o.whole {
		if b.Section == SectionFacts {
			last = max(last, b.Last)
		}
	}
	return last
}

// Facts are the facts of the file, in the order of the log. A line that cannot be read is an error, behind which others follow.
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

// Output is what tasks have printed, as far as the file has it.
func (f *File) Output() iter.Seq2[Lines, error] {
	return func(yield func(Lines, error) bool) {
		for _, block := range f.output {
			for line := range bytes.Lines(block) {
				var l Lines
				if err := json.Unmarshal(line, &l); !yield(l, err) {
					return
				}
			}
		}
	}
}
