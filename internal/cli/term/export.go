package term

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// Kind is a file format.
type Kind int

// The kinds of files.
const (
	JSONL Kind = iota
	CSV
	JSON // one array
)

// KindOf returns the format of that name or, if it is "", the one of a file name's extension; JSONL
// by default.
func KindOf(name, file string) Kind {
	if name == "" {
		name = strings.TrimPrefix(filepath.Ext(file), ".")
	}
	switch strings.ToLower(name) {
	case "csv":
		return CSV
	case "json":
		return JSON
	}
	return JSONL
}

// Source is what is written.
type Source struct {
	Records Records
	// Known returns the fields that records would have, for the header of a CSV without records.
	// Default: unknown.
	Known func() ([]string, error)
	// Most is how many different fields the records of a CSV may have; the error of more wraps [ErrWide].
	// Default: any number.
	Most int
	// Cells is what becomes of the cells of each row of a CSV. Default: nothing.
	Cells func([]string) []string
}

// Records calls each with every record in order, the same ones at each call, and stops with the
// error of each.
type Records func(each func(record []byte) error) error

// ErrOther: the file is not the beginning of this export.
var ErrOther = errors.New("it does not hold the beginning of these records: write to another file")

// ErrWide: the records have more fields than a table may have columns.
var ErrWide = errors.New("too many for a table")

// tellEach is the number of records between two progress reports.
const tellEach = 1000

// Write writes all records and returns their number.
func Write(w io.Writer, kind Kind, s Source, tell func(n int)) (int, error) {
	f, err := newForm(kind, s)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(w)
	if _, err := out.Write(f.head); err != nil {
		return 0, err
	}
	return f.write(out, 0, s.Records, tell)
}

// File is a file that may hold the beginning of an export.
type File interface {
	io.ReadWriteSeeker
	Truncate(size int64) error
}

// Resume appends the records that a file lacks, and returns how many it then has. It first cuts off
// anything after the last complete record. The error wraps [ErrOther] if that record differs from
// the one at its place in records. An array cannot be resumed.
func Resume(file File, kind Kind, s Source, tell func(n int)) (int, error) {
	if kind == JSON {
		return 0, errors.New("an array cannot be resumed")
	}
	records := s.Records
	f, err := newForm(kind, s)
	if err != nil {
		return 0, err
	}
	have, err := f.held(file)
	if err != nil {
		return 0, err
	}
	if have.n > 0 {
		if err := f.check(&have, records); err != nil {
			return 0, err
		}
	}
	if err := file.Truncate(have.end); err != nil {
		return 0, err
	}
	if _, err := file.Seek(have.end, io.SeekStart); err != nil {
		return 0, err
	}
	out := bufio.NewWriter(file)
	if have.end == 0 {
		if _, err := out.Write(f.head); err != nil {
			return 0, err
		}
	}
	return f.write(out, have.n, records, tell)
}

// form encodes records for a file.
type form struct {
	kind    Kind
	columns []string
	cells   func([]string) []string
	head    []byte
	foot    []byte
}

// AddFields appends those fields of a record that are not among all, in their order.
func AddFields(all []string, record []byte) []string {
	keys, _ := fields(record)
	for _, k := range keys {
		if !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all
}

func newForm(kind Kind, s Source) (*form, error) {
	f := &form{kind: kind, cells: s.Cells}
	if f.cells == nil {
		f.cells = func(cells []string) []string { return cells }
	}
	switch kind {
	case JSONL:
		return f, nil
	case JSON:
		f.head, f.foot = []byte("["), []byte("\n]\n")
		return f, nil
	}
	// A first pass finds the columns: those of the first record, then additional ones.
	err := s.Records(func(record []byte) error {
		if f.columns = AddFields(f.columns, record); s.Most > 0 && len(f.columns) > s.Most {
			return fmt.Errorf("%w: the records have more than %d different fields: export lines of JSON", ErrWide, s.Most)
		}
		return nil
	})
	if err == nil && len(f.columns) == 0 && s.Known != nil {
		f.columns, err = s.Known()
	}
	if err == nil && len(f.columns) > 0 {
		f.head, err = row(f.cells(slices.Clone(f.columns)))
	}
	return f, err
}

// encode returns a record as in the file, with its end.
func (f *form) encode(record []byte) ([]byte, error) {
	if f.kind != CSV {
		var b bytes.Buffer
		err := json.Compact(&b, record)
		if f.kind == JSONL {
			b.WriteByte('\n')
		}
		return b.Bytes(), err
	}
	return row(f.cells(Cells(f.columns, record)))
}

// Cells returns the values of a record's fields in the order of columns: a text as it is, anything else
// as JSON. A record that is no object is the value of the column "value".
func Cells(columns []string, record []byte) []string {
	_, values := fields(record)
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = cell(values[c])
	}
	return cells
}

func (f *form) write(out *bufio.Writer, skip int, records Records, tell func(n int)) (int, error) {
	n := 0
	err := records(func(record []byte) error {
		if n++; n <= skip {
			return nil
		}
		line, err := f.encode(record)
		if err != nil {
			return fmt.Errorf("record %d: %w", n-1, err)
		}
		if n%tellEach == 0 {
			tell(n)
		}
		if f.kind == JSON {
			between := ",\n"
			if n == 1 {
				between = "\n"
			}
			if _, err := out.WriteString(between); err != nil {
				return err
			}
		}
		_, err = out.Write(line)
		return err
	})
	if err == nil {
		_, err = out.Write(f.foot)
	}
	return n, errors.Join(err, out.Flush())
}

// held is the content of a file: the number of records, the last one, and where the last complete
// one ends.
type held struct {
	n    int
	end  int64
	last []byte
}

func (f *form) held(r io.Reader) (held, error) {
	if f.kind == CSV {
		return f.heldRows(r)
	}
	var h held
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return h, nil // a torn line does not count
		}
		if err != nil {
			return h, err
		}
		h = held{h.n + 1, h.end + int64(len(line)), line}
	}
}

func (f *form) heldRows(r io.Reader) (held, error) {
	ends := &lastByte{r: r}
	in := csv.NewReader(ends)
	in.FieldsPerRecord = -1
	h := held{n: -1} // the header is not a record
	before := h
	for {
		cells, err := in.Read()
		if err != nil {
			var torn *csv.ParseError
			if !errors.Is(err, io.EOF) && !errors.As(err, &torn) {
				return h, err
			}
			if err == io.EOF && ends.b != '\n' {
				h = before // the last row has no end
			}
			h.n = max(h.n, 0)
			return h, nil
		}
		if h.n < 0 && !slices.Equal(cells, f.columns) {
			if _, err := in.Read(); err == io.EOF && ends.b != '\n' {
				return held{}, nil // not even the header is complete
			}
			return h, fmt.Errorf("its columns are others: %w", ErrOther)
		}
		before = h
		last, err := row(cells)
		if err != nil {
			return h, err
		}
		h = held{h.n + 1, in.InputOffset(), last}
	}
}

// check compares the last record of a file with the one that should be there.
func (f *form) check(h *held, records Records) error {
	n := 0
	found := errors.New("found")
	err := records(func(record []byte) error {
		if n++; n < h.n {
			return nil
		}
		line, err := f.encode(record)
		if err == nil {
			err = found
		}
		if !bytes.Equal(line, h.last) {
			err = ErrOther
		}
		return err
	})
	switch {
	case errors.Is(err, found):
		return nil
	case err == nil: // it holds more than there is
		return ErrOther
	}
	return err
}

// lastByte remembers the last byte read.
type lastByte struct {
	r io.Reader
	b byte
}

func (l *lastByte) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if n > 0 {
		l.b = b[n-1]
	}
	return n, err
}

// whole is the column of records that are not objects.
const whole = "value"

// fields returns the keys of a record, in their order, and their values.
func fields(record []byte) (keys []string, values map[string]json.RawMessage) {
	if err := json.Unmarshal(record, &values); err != nil || values == nil {
		return []string{whole}, map[string]json.RawMessage{whole: record}
	}
	d := json.NewDecoder(bytes.NewReader(record))
	_, _ = d.Token() // the brace; the record is valid
	for d.More() {
		key, err := d.Token()
		if err != nil {
			break
		}
		if k, ok := key.(string); ok && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			break
		}
	}
	return keys, values
}

// cell returns a JSON value for CSV: text as it is, nothing for null.
func cell(value json.RawMessage) string {
	var text string
	switch {
	case len(value) == 0 || string(value) == "null":
		return ""
	case json.Unmarshal(value, &text) == nil:
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return string(value)
	}
	return b.String()
}

func row(cells []string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	err := w.Write(cells)
	w.Flush()
	return b.Bytes(), errors.Join(err, w.Error())
}
