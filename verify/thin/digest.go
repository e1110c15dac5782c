package thin

import (
	"encoding/json"
	"hash/maphash"
	"strconv"
	"time"
	"unicode/utf8"

	"millrace/internal/form"
	"millrace/task"
	"millrace/task/job"
)

// Digest stands for a value that is compared with others and never shown: equal values have equal
// digests. 0 stands for none. It is good for one process.
type Digest uint64

// Digests makes digests. The digest of a value is that of the same value after it was written as
// JSON and read, as rows of a read model are.
type Digests struct {
	seed maphash.Seed
	buf  []byte
	// born is for what work writes, and scratch what it writes it of: so no other work need lie on the heap.
	born    []byte
	scratch task.Work
	// specs are those of specs, which many facts and rows share, so that each is written but once.
	specs map[*job.Spec]Digest
}

// manySpecs bounds how many specs are remembered.
const manySpecs = 1024

// NewDigests makes digests that are good as long as it is kept.
func NewDigests() Digests {
	return Digests{seed: maphash.MakeSeed(), specs: map[*job.Spec]Digest{}}
}

// sum is the digest of what was collected.
func (d *Digests) sum(b []byte) Digest {
	d.buf = b[:0] // kept for its memory
	return max(Digest(maphash.Bytes(d.seed, b)), 1)
}

// Text is the digest of a text; 0 of none.
func (d *Digests) Text(s string) Digest {
	if s == "" {
		return 0
	}
	return d.sum(appendText(d.buf[:0], s))
}

// Raw is the digest of JSON, however it is spelled; 0 of none.
func (d *Digests) Raw(r json.RawMessage) Digest {
	if len(r) == 0 {
		return 0
	}
	return d.sum(AppendCanonical(d.buf[:0], r))
}

// Value is the digest of what JSON writes of v. A value that JSON cannot write came from none.
func (d *Digests) Value(v any) Digest {
	text, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return d.Raw(text)
}

// spec is the digest of a spec, which is not modified: many facts share one, and so do the rows of a page.
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

// bornWith is the form of what a task was born with and keeps for its life, but for parts with digests of their own.
var bornWith = form.Of[task.Work](form.Without("spec", "needs", "route", "start_by", "end_by", "holds", "inputs", "asked"))

// Work is the digest of what a task was born with and keeps for its life.
func (d *Digests) Work(k *task.Task) Digest {
	spec, needs := d.spec(k.Spec), Digest(0)
	if k.Needs != nil {
		needs = d.Value(k.Needs)
	}
	d.scratch = k.Work
	text, err := bornWith.Append(d.born[:0], &d.scratch)
	if d.born = text; err != nil {
		return 0 // it came from no fact
	}
	b := strconv.AppendUint(d.buf[:0], uint64(spec), 10)
	b = strconv.AppendUint(append(b, ','), uint64(needs), 10)
	return d.sum(AppendCanonical(appendText(b, string(k.RetryOf)), text))
}

// appendText appends a text as JSON would have it, and its end.
func appendText(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s)) // each wrong byte becomes a sign of its own, as in JSON
	}
	return append(append(b, s...), 0)
}

// AppendCanonical appends JSON in one spelling: without white space between values, and with
// strings that escape nothing but what JSON forbids. The order of fields, and how numbers are
// written, stay.
func AppendCanonical(b, raw []byte) []byte {
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

// appendString appends a string of JSON, which escapes nothing if it is plain.
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

// StampOf is a time as a stamp.
func StampOf(t time.Time) Stamp {
	switch {
	case t.IsZero():
		return 0
	case t.UnixMicro() == 0:
		return 1
	}
	return Stamp(t.UnixMicro())
}

// Time is what it stands for, in UTC.
func (s Stamp) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(s)).UTC()
}
