package ipc

import (
	"bytes"
	"io"
)

// Bounds of a line, in bytes without its end.
const (
	// MaxLine is the longest log text delivered in one piece.
	MaxLine = 64 << 10
	// MaxMessage is the longest line that can be a message. A longer line that begins as a message,
	// with its type, is refused; any other is log text.
	MaxMessage = 1 << 20
)

const (
	// A task that prints little costs little; one that prints much soon gets a buffer of the size
	// of the kernel's pipe.
	smallBuffer = 4 << 10
	flowBuffer  = 64 << 10
	// keepBuffer is the largest buffer that Reset keeps; a larger one is freed.
	keepBuffer = 128 << 10
)

// Item is one piece of a process's output: a message if Message.Type is set, a remark if Withheld
// is set, else log text.
type Item struct {
	Message Message
	Line    Line
	// Withheld is the type of a message that does not count because of the [Gate]. Its line comes
	// next, as log text. Only the first such message of a stream is named.
	Withheld string
}

// IsMessage tells whether the item is a message.
func (i Item) IsMessage() bool { return i.Message.Type != "" }

// Reader divides what a process writes into messages and log text. Every byte comes back in an
// item, in the order of writing, except line feeds and the content of messages that carry
// too much. Its memory is bounded by about twice [MaxMessage], and is a few kilobytes for a stream
// of short lines that flows slowly. Use it from one goroutine at a time.
type Reader struct {
	src      io.Reader
	textOnly bool
	gate     Gate
	// Limits are fields so that tests can reach them with little input.
	maxLine, maxMessage int

	buf     []byte
	start   int  // buf[start:end] is read and not delivered
	end     int  //
	scanned int  // buf[start:scanned] holds no line end
	singly  int  // lines before it are examined one by one
	asText  bool // the line at start is text, and may be partly delivered
	full    bool // the last read filled the buffer
	err     error

	over     *refusing // the line at start is being skipped
	said     bool      // an item has named a message that does not count
	withheld string    // that item, until it is delivered
	text     []byte    // buffer for text with replaced bytes
	more     []Message // messages of one line that are not delivered yet
}

// NewReader returns a Reader of a stream that may hold messages: a standard output.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, maxLine: MaxLine, maxMessage: MaxMessage}
}

// NewTextReader returns a Reader that delivers every line as log text: for a standard error.
func NewTextReader(src io.Reader) *Reader {
	r := NewReader(src)
	r.textOnly = true
	return r
}

// Reset makes r read src as if r were new, with a gate for its messages. It keeps the buffers
// unless they have become large.
func (r *Reader) Reset(src io.Reader, g Gate) {
	fresh := Reader{src: src, gate: g, textOnly: r.textOnly, maxLine: r.maxLine, maxMessage: r.maxMessage}
	if len(r.buf) <= keepBuffer {
		fresh.buf = r.buf
	}
	if cap(r.text) <= keepBuffer {
		fresh.text = r.text[:0]
	}
	*r = fresh
}

// Next returns the next item. Lines of log text that were read together may come together. A last
// line without an end counts as a line. After the last item it always returns [io.EOF], or the
// error with which the source ended. The caller may keep a message; text is valid only until the
// next call.
func (r *Reader) Next() (Item, error) {
	if text, n := r.run(); n > 0 {
		return Item{Line: Line{Text: text, Several: n}}, nil
	}
	m, raw, partial, err := r.next()
	switch {
	case err != nil:
		return Item{}, err
	case r.withheld != "":
		item := Item{Withheld: r.withheld}
		r.withheld = ""
		return item, nil
	case m.Type != "":
		return Item{Message: m}, nil
	}
	line := Line{Partial: partial}
	line.Text, line.Replaced = clean(r.text[:0], raw)
	if line.Replaced {
		r.text = line.Text
	}
	return Item{Line: line}, nil
}

// next is Next before bytes are replaced: a message, or raw text.
func (r *Reader) next() (m Message, raw []byte, partial bool, err error) {
	if len(r.more) > 0 {
		m, r.more = r.more[0], r.more[1:]
		return m, nil, false, nil
	}
	for {
		if r.over != nil {
			if m, ended := r.pass(); ended {
				return m, nil, false, nil
			}
			r.fill()
			continue
		}
		if r.withheld != "" {
			return Message{}, nil, false, nil
		}
		if i := bytes.IndexByte(r.buf[r.scanned:r.end], '\n'); i >= 0 {
			r.scanned += i
			if r.refuse(r.buf[r.start:r.scanned]) {
				continue
			}
			m, raw, partial = r.line(r.scanned, r.scanned+1)
			return m, raw, partial, nil
		}
		r.scanned = r.end
		pending := r.buf[r.start:r.end]
		switch {
		case len(pending) > r.limit(pending):
			if r.refuse(pending) {
				continue
			}
			return Message{}, r.piece(), true, nil
		case r.err == nil:
			r.fill()
		case r.refuse(pending):
		case len(pending) > 0:
			m, raw, partial = r.line(r.end, r.end)
			return m, raw, partial, nil
		default:
			return Message{}, nil, false, r.err
		}
	}
}

// line delivers the line that ends before end; the next one begins at next.
func (r *Reader) line(end, next int) (m Message, raw []byte, partial bool) {
	raw = r.buf[r.start:end]
	whole := raw
	if next > end {
		raw = bytes.TrimSuffix(raw, []byte{'\r'})
	}
	if !r.asText && len(raw) <= r.maxMessage && r.candidate(raw) {
		withheld := ""
		if m, key, ok := r.parse(raw); ok {
			if r.gate.opens(&m, key) {
				r.advance(next)
				return m, nil, false
			}
			withheld = m.Type
		} else if f := parseFlat(raw); len(f.all) > 0 {
			if withheld = r.gate.withholds(&f); withheld == "" {
				r.advance(next)
				r.more = f.all[1:]
				return f.all[0], nil, false
			}
		}
		if withheld != "" && r.withhold(withheld) {
			return Message{}, nil, false
		}
	}
	if len(raw) > r.maxLine {
		return Message{}, r.piece(), true
	}
	r.advance(next)
	return Message{}, whole, false
}

// withhold makes the next item a remark that a message does not count. It returns false if there
// was one.
func (r *Reader) withhold(typ string) bool {
	if r.said {
		return false
	}
	r.said, r.withheld = true, typ
	return true
}

// piece delivers the beginning of a line that is too long to be delivered in one piece.
func (r *Reader) piece() []byte {
	at := r.start + cut(r.buf[r.start:r.end], r.maxLine)
	raw := r.buf[r.start:at]
	r.start, r.asText = at, true
	return raw
}

func (r *Reader) advance(next int) {
	r.start, r.scanned, r.asText = next, next, false
}

// limit is how many bytes of a line may be read without its end before a piece of it is delivered.
// The CR of a line end may follow the text, and one byte more than a piece must be left for the
// next.
func (r *Reader) limit(pending []byte) int {
	if !r.asText && r.candidate(pending) {
		return r.maxMessage + 1
	}
	return r.maxLine + 1
}

// candidate tells whether a line may be a message, by its first byte that is not a space.
func (r *Reader) candidate(line []byte) bool {
	if r.textOnly {
		return false
	}
	for _, b := range line {
		if b != ' ' && b != '\t' {
			return b == '{'
		}
	}
	return false
}

// fill reads once, after making room.
func (r *Reader) fill() {
	if r.start == r.end {
		r.start, r.end, r.scanned, r.singly = 0, 0, 0, 0
	}
	switch {
	case r.end < len(r.buf) && !(r.full && r.start == 0 && len(r.buf) < flowBuffer):
	case r.start > 0 && !(r.full && len(r.buf) < flowBuffer):
		r.move(r.buf)
	default:
		r.move(make([]byte, max(smallBuffer, 2*len(r.buf))))
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		r.full = r.end == len(r.buf)
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// move moves what is not delivered to the beginning of buf.
func (r *Reader) move(buf []byte) {
	n := copy(buf, r.buf[r.start:r.end])
	r.buf, r.start, r.end, r.scanned, r.singly = buf, 0, n, r.scanned-r.start, max(r.singly-r.start, 0)
}
