package events

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/mailru/easyjson/jlexer"

	fields "millrace/internal/form"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/value"
)

// An export is part of a log in a file: lines of JSON, one for each message, in the order of the
// log. The first line may be a header ([ExportHeader]).
//
//	{"seq":7,"stored":"2026-03-01T12:00:00.5Z","kind":"chain","subject":"mr.task.01J…","body":{"type":"attempt.started",…}}
//
// body is the message byte for byte if that is one JSON object; otherwise bytes has it in base64. A
// message that the log could not read as a fact also has error, and the task or node on whose chain
// it lies. Headers of messages are not kept: Mr-Type repeats the body, and the others only matter
// to the server.

// ExportVersion is the version of the form that [ExportWriter] writes.
const ExportVersion = 1

// maxExportLine is the longest line that is read, in bytes: the largest message that a NATS server
// accepts is 64 MB, in base64.
const maxExportLine = 96 << 20

// ExportHeader is the first line of an export.
type ExportHeader struct {
	// Export is the version of the form, at present 1.
	Export int `json:"export"`
	// From is the sequence at which the export begins; 1 or 0 for the beginning of
	// the log, even if the first messages are gone.
	From uint64 `json:"from"`
	// To is the last requested sequence.
	To uint64 `json:"to,omitempty"`
	// Before is later than all its messages were stored; zero if nothing is said. Segments of archives
	// have it.
	Before time.Time `json:"before,omitzero"`
	// Import says what the log lacks because it was imported.
	Import
}

var kindNames = [...]string{KindOther: "other", KindOffer: "offer", KindHold: "hold", KindChain: "chain", KindNode: "node", KindDefinition: "definition", KindBreaker: "breaker", KindDead: "dead", KindProbe: "probe",
	KindQueue: "queue", KindFire: "fire", KindTick: "tick", KindLimit: "limit", KindCopies: "copies", KindKey: "key",
	KindHorizon: "horizon", KindCarried: "carried", KindTally: "tally"}

// String is the kind's name, as exports spell it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

func kindOf(name string) (Kind, error) {
	for k, n := range kindNames {
		if n == name {
			return Kind(k), nil
		}
	}
	if name == "job" || name == "schedule" { // see [FormerOf]
		return KindOther, nil
	}
	return 0, fmt.Errorf("the kind is %q, want one of %s", name, value.List(kindNames[:]))
}

// ExportWriter writes an export. It is for one goroutine.
type ExportWriter struct {
	w    *bufio.Writer
	line []byte
}

// NewExportWriter begins an export with its header, of the present version. [ExportWriter.Flush]
// guarantees that everything has reached w.
func NewExportWriter(w io.Writer, h ExportHeader) (*ExportWriter, error) {
	e := &ExportWriter{w: bufio.NewWriterSize(w, 64<<10)}
	h.Export = ExportVersion
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	_, err = e.w.Write(append(head, '\n'))
	return e, err
}

// Write adds one record. The error is that of w.
func (e *ExportWriter) Write(r *Record) error {
	e.line = AppendLine(e.line[:0], r)
	_, err := e.w.Write(e.line)
	return err
}

// AppendLine appends the line of a record, with its end.
func AppendLine(b []byte, r *Record) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendUint(b, r.Seq, 10)
	b = append(b, `,"stored":"`...)
	b = r.Stored.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","kind":"`...)
	b = append(b, r.Kind.String()...)
	b = append(b, `","subject":`...)
	b = fields.AppendString(b, r.Place)
	if r.Err != nil {
		if r.Fact.Task != "" {
			b = fields.AppendString(append(b, `,"task":`...), string(r.Fact.Task))
		}
		if r.Fact.Node != "" {
			b = fields.AppendString(append(b, `,"node":`...), string(r.Fact.Node))
		}
		b = fields.AppendString(append(b, `,"error":`...), r.Err.Error())
	}
	if embeds(r.Raw) {
		b = append(append(b, `,"body":`...), r.Raw...)
	} else {
		b = append(b, `,"bytes":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, r.Raw), '"')
	}
	return append(b, "}\n"...)
}

// Flush writes everything to w.
func (e *ExportWriter) Flush() error { return e.w.Flush() }

// embeds tells whether a message can be part of a line unchanged.
func embeds(raw []byte) bool {
	return len(raw) > 1 && raw[0] == '{' && raw[len(raw)-1] == '}' && bytes.IndexByte(raw, '\n') < 0 && json.Valid(raw)
}

// ExportReader reads an export. It is for one goroutine.
type ExportReader struct {
	r      *bufio.Reader
	number int // of the line read last
	header ExportHeader
	ahead  []byte // the first line, if it was not a header
	last   uint64
	err    error
	skips  bool // err concerns a single line, and the next ones may be valid
}

// NewExportReader reads the header, if there is one. The error explains an invalid first line. An
// empty file is an export without messages.
func NewExportReader(r io.Reader) (*ExportReader, error) {
	e := &ExportReader{r: bufio.NewReaderSize(r, 64<<10)}
	line, err := e.nextLine()
	if errors.Is(err, io.EOF) {
		e.err = io.EOF
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	var seen struct {
		Export *int `json:"export"`
	}
	if err := json.Unmarshal(line, &seen); err != nil || seen.Export == nil {
		e.ahead = bytes.Clone(line)
		return e, nil
	}
	if *seen.Export < 1 || *seen.Export > ExportVersion {
		return nil, e.wrong(fmt.Errorf("it is an export of version %d, this program reads up to %d: use a newer millrace", *seen.Export, ExportVersion))
	}
	if err := json.Unmarshal(line, &e.header); err != nil {
		return nil, e.wrong(value.Plainly(err))
	}
	return e, nil
}

// Header returns the first line's header; Export is 0 if there is none.
func (e *ExportReader) Header() ExportHeader { return e.header }

// Next returns the next record, or [io.EOF] at the end. Any other error names the invalid line and
// the expected form. After it, reading can only continue with [ExportReader.Skip].
func (e *ExportReader) Next() (Record, error) {
	if e.err != nil {
		return Record{}, e.err
	}
	r, err := e.next()
	e.err = err
	return r, err
}

// Skip skips an invalid line, so that the ones behind it can be read; false if the error was of
// another kind.
func (e *ExportReader) Skip() bool {
	if !e.skips {
		return false
	}
	e.skips, e.err = false, nil
	return true
}

func (e *ExportReader) next() (Record, error) {
	line := e.ahead
	e.ahead = nil
	if line == nil {
		var err error
		if line, err = e.nextLine(); err != nil {
			return Record{}, err
		}
	}
	r, err := ReadLine(line)
	if err != nil {
		e.skips = true
		return Record{}, e.wrong(err)
	}
	if r.Seq <= e.last {
		e.skips = true
		return Record{}, e.wrong(fmt.Errorf("sequence %d comes after %d: the lines must be in the order of the log", r.Seq, e.last))
	}
	e.last = r.Seq
	return r, nil
}

func (e *ExportReader) wrong(err error) error {
	return fmt.Errorf("line %d of the export: %w", e.number, err)
}

// nextLine returns the next non-empty line, valid until the next call.
func (e *ExportReader) nextLine() ([]byte, error) {
	for {
		e.number++
		line, err := e.r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			line, err = e.longLine(bytes.Clone(line))
		}
		line = bytes.TrimSpace(line)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, e.wrong(err)
		case len(line) > 0:
			return line, nil
		case err != nil:
			return nil, io.EOF
		}
	}
}

func (e *ExportReader) longLine(line []byte) ([]byte, error) {
	for {
		more, err := e.r.ReadSlice('\n')
		line = append(line, more...)
		if len(line) > maxExportLine {
			return nil, fmt.Errorf("it is longer than %d MB, so it is none that `millrace events export` has written", maxExportLine>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// errNoExport explains the valid lines.
var errNoExport = errors.New("it is no line of an export; `millrace events export` writes them")

// ReadLine parses the line of a record. The error explains an invalid line.
func ReadLine(line []byte) (Record, error) {
	var r Record
	var kind, problem string
	var about Fact
	var body []byte
	l := &jlexer.Lexer{Data: line}
	l.Delim('{')
	for l.Ok() && !l.IsDelim('}') {
		key := l.UnsafeFieldName(false)
		l.WantColon()
		switch key {
		case "seq":
			r.Seq = fields.Unsigned(l)
		case "stored":
			r.Stored = fields.Instant(l)
		case "kind":
			kind = l.UnsafeString()
		case "subject":
			r.Place = l.String()
		case "task":
			about.Task = task.ID(l.String())
		case "node":
			about.Node = node.ID(l.String())
		case "error":
			problem = l.String()
		case "body":
			if r.ends(kind, problem, line[l.GetPos():]) {
				return r, nil
			}
			body = l.Raw()
		case "bytes":
			body = l.Bytes()
		default:
			l.SkipRecursive()
		}
		l.WantComma()
	}
	l.Delim('}')
	l.Consumed()
	if err := l.Error(); err != nil {
		return r, fmt.Errorf("%w: %w", errNoExport, value.Plainly(err))
	}
	if r.Seq == 0 || kind == "" {
		return r, fmt.Errorf("%w: seq or kind is missing", errNoExport)
	}
	var err error
	if r.Kind, err = kindOf(kind); err != nil {
		return r, err
	}
	r.Raw = bytes.Clone(body) // the decoded fact shares its memory, and the line's buffer is reused
	r.today()
	r.understand(about, problem)
	return r, nil
}

// ends decodes the fact that ends a line as [AppendLine] writes it; false for any other line. Decoding
// checks the fact, which otherwise would be looked through twice more to find its end.
func (r *Record) ends(kind, problem string, rest []byte) bool {
	is, err := kindOf(kind)
	body, ok := bytes.CutPrefix(rest, []byte(":{"))
	if err != nil || !ok || problem != "" || r.Seq == 0 || r.Place == formerAdmit || !bytes.HasSuffix(body, []byte("}}")) {
		return false
	}
	if r.Kind = is; !r.IsFact() {
		return false
	}
	raw := bytes.Clone(rest[1 : len(rest)-1])
	f, err := Decode(raw)
	if err != nil {
		return false
	}
	r.Raw, r.Fact = raw, f
	return true
}

// understand decodes the message. A message that the log could not read stays unreadable here, too,
// because it may lie in the wrong place.
func (r *Record) understand(about Fact, problem string) {
	if !r.IsFact() {
		return
	}
	f, err := Decode(r.Raw)
	switch {
	case problem != "":
		r.Err = told{problem, err}
	case err != nil:
		r.Err = err
	default:
		r.Fact = f
		return
	}
	if about.Task == "" && about.Node == "" {
		about = Fact{Task: f.Task, Node: f.Node}
	}
	r.Fact = about
}

// told explains why a message is unreadable: in the words of the exporter, and our own error if
// there is one.
type told struct {
	words string
	own   error
}

func (t told) Error() string { return t.words }

func (t told) Unwrap() error { return t.own }

// Import says what a log lacks because it was imported from an incident file, or has forgotten its front.
// It is zero for any other log.
type Import struct {
	// Hidden is the sequence up to which values may be hidden, because the file was redacted. 0 if
	// none are.
	Hidden uint64 `json:"hidden,omitempty"`
	// Lacks is the sequence up to which facts are missing: the file held only what lived in its
	// span, or the log begins at its horizon. 0 if none are.
	Lacks uint64 `json:"lacks,omitempty"`
}
