package incident

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"

	"millrace/events"
)

// Writer writes an incident file. It is for one goroutine.
type Writer struct {
	w      io.Writer
	enc    *zstd.Encoder
	m      Manifest
	blocks []Block
	now    Block // the block to which lines are added
	lines  []byte
	size   int            // of all lines in earlier blocks
	things map[string]int // the number of facts of each subject
}

// NewWriter begins a file. The counts of the manifest need not be known yet: the end of the file
// repeats it.
func NewWriter(w io.Writer, m Manifest) (*Writer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	m.Incident = Version
	x := &Writer{w: w, enc: enc, m: m, things: map[string]int{}}
	return x, x.line(SectionManifest, 0, m)
}

// Fact adds a fact, in the order of the log.
func (x *Writer) Fact(r *events.Record) error {
	if last := x.lastFact(); r.Seq <= last {
		return fmt.Errorf("sequence %d comes after %d", r.Seq, last)
	}
	x.m.Facts++
	if of := thing(r); of != "" {
		x.things[of]++
	}
	return x.add(SectionFacts, r.Seq, func(b []byte) []byte { return events.AppendLine(b, r) })
}

// lastFact is the sequence of the last fact; 0 if there is none.
func (x *Writer) lastFact() uint64 {
	if x.now.Section == SectionFacts {
		return x.now.Last
	}
	for i := len(x.blocks) - 1; i >= 0; i-- {
		if x.blocks[i].Section == SectionFacts {
			return x.blocks[i].Last
		}
	}
	return 0
}

// Output adds a batch of a task's output lines.
func (x *Writer) Output(l *Lines) error {
	x.m.Output++
	return x.line(SectionOutput, l.Seq, l)
}

// MaxResults is how many bytes the results of steps in a file may have, so that [Open] reads it.
const MaxResults = 96 << 20

// Result adds the result of a step.
func (x *Writer) Result(r Result) error {
	x.m.Results++
	return x.line(SectionResults, 0, r)
}

// Note adds a note.
func (x *Writer) Note(n Note) error { return x.line(SectionNotes, 0, n) }

// Close ends the file with the final manifest, which change may complete.
func (x *Writer) Close(change func(*Manifest)) error {
	if change != nil {
		change(&x.m)
	}
	for _, of := range slices.Sorted(maps.Keys(x.things)) {
		if err := x.line(SectionIndex, 0, entry{of, x.things[of]}); err != nil {
			return err
		}
	}
	if err := x.flush(); err != nil {
		return err
	}
	if err := x.line(SectionEnd, 0, ending{x.blocks, x.m}); err != nil {
		return err
	}
	return errors.Join(x.flush(), x.enc.Close())
}

func (x *Writer) line(s Section, seq uint64, of any) error {
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	return x.add(s, seq, func(b []byte) []byte { return append(append(b, text...), '\n') })
}

// add adds a line to the block of its section.
func (x *Writer) add(s Section, seq uint64, line func([]byte) []byte) error {
	if x.now.Section != s || len(x.lines) >= min(max(x.size/blockShare, minBlock), maxLines) {
		if err := x.flush(); err != nil {
			return err
		}
		x.now = Block{Section: s, Number: x.next(), First: seq}
	}
	x.lines = line(x.lines)
	x.now.Lines++
	x.now.Last = seq
	return nil
}

// next is the number of the next block.
func (x *Writer) next() uint32 {
	if n := len(x.blocks); n > 0 {
		return x.blocks[n-1].Number + 1
	}
	return 0
}

// flush writes the present block.
func (x *Writer) flush() error {
	if x.now.Section == 0 {
		return nil
	}
	_, err := x.w.Write(appendBlock(nil, x.enc, x.now, x.lines))
	x.size += len(x.lines)
	x.blocks = append(x.blocks, x.now)
	x.now, x.lines = Block{}, x.lines[:0]
	return err
}

// ErrDamaged refuses to append to a file with missing parts, because that would hide them.
var ErrDamaged = errors.New("something is missing in the incident file, so nothing is added to it")

// Append adds notes to the end of a file.
func Append(w io.Writer, f *File, notes []Note) error {
	if len(f.Missing) > 0 {
		return ErrDamaged
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	var all bytes.Buffer // so that it is written at once
	x := &Writer{w: &all, enc: enc, m: f.Manifest, blocks: f.Blocks}
	for _, n := range notes {
		if err := x.Note(n); err != nil {
			return err
		}
	}
	if err := x.Close(nil); err != nil {
		return err
	}
	_, err = w.Write(all.Bytes())
	return err
}

// WriteAll writes a whole log without any redaction: for a failed run whose tasks are not
// confidential.
func WriteAll(w io.Writer, m Manifest, records []events.Record) error {
	tasks := map[string]bool{}
	for i := range records {
		if r := &records[i]; r.Fact.Task != "" {
			tasks[string(r.Fact.Task)] = true
		}
	}
	m.Raw, m.Tasks, m.AllOf = true, len(tasks), len(tasks)
	if n := len(records); n > 0 {
		m.From, m.To = Point{records[0].Seq, records[0].Stored}, Point{records[n-1].Seq, records[n-1].Stored}
	}
	x, err := NewWriter(w, m)
	for i := range records {
		if err == nil {
			err = x.Fact(&records[i])
		}
	}
	if err != nil {
		return err
	}
	return x.Close(nil)
}
