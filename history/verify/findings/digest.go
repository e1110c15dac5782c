package findings

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"millrace/internal/form"
	"millrace/task"
	"millrace/task/job"
)

// Digest stands for a value that is only compared and never shown: equal values have equal digests.
// 0 stands for none. Digests are valid within one process.
type Digest uint64

// Digests makes digests. The digest of a value equals that of the value after a round trip through
// JSON, as in rows of a read model.
type Digests struct {
	seed maphash.Seed
	buf  []byte
	// born is the buffer for work, and scratch the value written to it: they avoid other work on
	// the heap.
	born    []byte
	scratch task.Work
	// specs caches digests of specs, which many facts and rows share.
	specs map[*job.Spec]Digest
}

// manySpecs bounds the remembered specs.
const manySpecs = 1024

// NewDigests returns a Digests. Its digests are only comparable with each other.
func NewDigests() Digests {
	return Digests{seed: maphash.MakeSeed(), specs: map[*job.Spec]Digest{}}
}

// sum is the digest of the collected bytes.
func (d *Digests) sum(b []byte) Digest {
	d.buf = b[:0] // to reuse its memory
	return max(Digest(maphash.Bytes(d.seed, b)), 1)
}

// Text is the digest of a text; 0 for none.
func (d *Digests) Text(s string) Digest {
	if s == "" {
		return 0
	}
	return d.sum(appendText(d.buf[:0], s))
}

// Raw is the digest of JSON, regardless of its spelling; 0 for none.
func (d *Digests) Raw(r json.RawMessage) Digest {
	if len(r) == 0 {
		return 0
	}
	return d.sum(AppendCanonical(d.buf[:0], r))
}

// Value is the digest of v's JSON. A value without JSON has none.
func (d *Digests) Value(v any) Digest {
	text, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return d.Raw(text)
}

// spec is the digest of an unmodified spec: many facts share one, and so do the rows of a page.
func (d *Digests) spec(s *job.Spec) Digest {
	if s == nil {
		return 0
	}
	if known, ok := d.specs[s]; ok {
		return known
	}
	sum := d.Value(s)
	if len(d.specs) >= manySpecs {
		clear(d.specs)
	}
	d.specs[s] = sum
	return sum
}

// bornWith is the form of a task's unchanging content, without the parts with their own digests.
var bornWith = form.Of[task.Work](form.Without("spec", "needs", "route", "start_by", "end_by", "holds", "inputs", "asked"))

// Work is the digest of a task's unchanging content: that of its work, and of the id of which it is a
// copy, combined with ^. Parameters that further submissions change are no part of it.
func (d *Digests) Work(k *task.Task) Digest {
	spec, needs := d.spec(k.Spec), Digest(0)
	is := k.Needs
	if p := k.Waits(); p != nil && p.Kind == task.StepCall && is != nil && is.Rule == "" && slices.Equal(is.Of, p.Of) {
		is = p.Before // while its function waits for children, the rest of the task has those
	}
	if is != nil {
		needs = d.Value(is)
	}
	d.scratch = k.Work
	if k.Spec != nil && k.Spec.Collapse != nil {
		d.scratch.Params = nil
	}
	text, err := bornWith.Append(d.born[:0], &d.scratch)
	if d.born = text; err != nil {
		return 0 // it came from no fact
	}
	b := strconv.AppendUint(d.buf[:0], uint64(spec), 10)
	b = strconv.AppendUint(append(b, ','), uint64(needs), 10)
	work := d.sum(AppendCanonical(append(b, ','), text))
	return work ^ d.Text(string(k.RetryOf))
}

// appendText appends a text as JSON would have it, and its end.
func appendText(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s)) // each invalid byte becomes a replacement character, as in JSON
	}
	return append(append(b, s...), 0)
}

// AppendCanonical appends JSON in one spelling: without white space between values, and with
// strings that escape only what JSON requires. It keeps the order of fields and the spelling of
// numbers.
func AppendCanonical(b, raw []byte) []byte {
	if canonical(raw) {
		return append(b, raw...)
	}
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end, plain := i+1, true
			for end < len(raw) && raw[end] != '"' {
				if raw[end] == '\\' {
					end++
					plain = false
				}
				end++
			}
			text := raw[i:min(end+1, len(raw))]
			i += len(text)
			b = appendString(b, text, plain)
		default:
			b = append(b, c)
			i++
		}
	}
	return b
}

// canonical tells whether JSON certainly has that spelling: it has no escapes and no white space,
// not even in strings. That holds for nearly all of our own facts.
func canonical(raw []byte) bool {
	for _, c := range [...]byte{'\\', ' ', '\n', '\t', '\r'} {
		if bytes.IndexByte(raw, c) >= 0 {
			return false
		}
	}
	return utf8.Valid(raw)
}

// appendString appends a JSON string. A plain one escapes nothing.
func appendString(b, text []byte, plain bool) []byte {
	if plain && utf8.Valid(text) {
		return append(b, text...)
	}
	var s string
	if json.Unmarshal(text, &s) != nil {
		return append(b, text...)
	}
	b = append(b, '"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(strconv.AppendUint(append(b, '\\', 'u'), uint64(c), 16), ';')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// Stamp is a time in microseconds, 0 for none: a third of the memory of a [time.Time].
type Stamp int64

// StampOf returns a time as a stamp.
func StampOf(t time.Time) Stamp {
	switch {
	case t.IsZero():
		return 0
	case t.UnixMicro() == 0:
		return 1
	}
	return Stamp(t.UnixMicro())
}

// Time returns the stamp's time, in UTC.
func (s Stamp) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(s)).UTC()
}
