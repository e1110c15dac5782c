package streams

import (
	"archive/tar"
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/klauspost/compress/s2"

	"millrace/task/value"
)

// The form in which a NATS server hands out a stream: packed with s2, a word, and entries. The first
// one says what the stream is, the others are its messages, and one with nothing ends it. Servers
// before 2.15 hand out their files instead, as a tar. Millrace reads as much of it as it takes to
// know that nothing is missing, and changes one number ([advance]).

// archiveWord begins the entries.
const archiveWord = "NATSARC1"

// stateEntry is the name of the first entry.
const stateEntry = "state.json"

// errCut: the stream is not there to its end.
var errCut = errors.New("it is cut off")

// entry is an entry of a saved stream, before its content.
type entry struct {
	name         string
	at           int64
	seq          uint64
	header, body uint64 // sizes
}

// maxName is more than any subject has, and an entry's content is less than 2^40 bytes.
const maxName, maxContent = 1 << 20, 1 << 40

func readEntry(in *bufio.Reader) (e entry, err error) {
	var name uint64
	if name, err = binary.ReadUvarint(in); err == nil {
		e.at, err = binary.ReadVarint(in)
	}
	for _, to := range []*uint64{&e.seq, &e.header, &e.body} {
		if err == nil {
			*to, err = binary.ReadUvarint(in)
		}
	}
	if err == nil && (name > maxName || e.header > maxContent || e.body > maxContent) {
		err = errors.New("it is no saved stream")
	}
	if err == nil {
		text := make([]byte, name)
		_, err = io.ReadFull(in, text)
		e.name = string(text)
	}
	return e, cut(err)
}

func (e *entry) write(to io.Writer) error {
	text := binary.AppendVarint(binary.AppendUvarint(nil, uint64(len(e.name))), e.at)
	for _, n := range []uint64{e.seq, e.header, e.body} {
		text = binary.AppendUvarint(text, n)
	}
	_, err := to.Write(append(text, e.name...))
	return err
}

// cut replaces the error of an input that ends too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

// unpack returns the entries of a saved stream, or those of the tar that an older server wrote.
func unpack(from io.Reader) (in *bufio.Reader, old bool, err error) {
	in = bufio.NewReaderSize(s2.NewReader(from), 1<<16)
	word, err := in.Peek(len(archiveWord))
	if err == nil && string(word) == archiveWord {
		_, err = in.Discard(len(archiveWord))
		return in, false, err
	}
	return in, true, cut(err)
}

// countMessages reads a saved stream to its end, and returns how many messages it has; of one that an
// older server wrote -1. The error wraps errCut if it has no end.
func countMessages(from io.Reader) (messages int64, err error) {
	in, old, err := unpack(from)
	if err != nil {
		return 0, err
	}
	if old {
		for files := tar.NewReader(in); err == nil; {
			_, err = files.Next()
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return -1, cut(err)
	}
	for {
		e, err := readEntry(in)
		if err != nil {
			return messages, err
		}
		if e == (entry{}) {
			return messages, nil
		}
		if e.seq > 0 {
			messages++
		}
		if _, err := io.CopyN(io.Discard, in, int64(e.header+e.body)); err != nil {
			return messages, cut(err)
		}
	}
}

// advance copies a saved stream, and moves the end of its sequences up: the next message gets a number
// that is so much higher. It copies what an older server wrote as it is, and returns false.
func advance(from io.ReadSeeker, to io.Writer, by uint64) (bool, error) {
	in, old, err := unpack(from)
	if err != nil {
		return false, err
	}
	if old {
		if _, err = from.Seek(0, io.SeekStart); err == nil {
			_, err = io.Copy(to, from)
		}
		return false, err
	}
	e, err := readEntry(in)
	if err != nil {
		return false, err
	}
	if e.name != stateEntry || e.header > 0 || e.body > maxName {
		return false, errors.New("it is no saved stream")
	}
	text := make([]byte, e.body)
	if _, err := io.ReadFull(in, text); err != nil {
		return false, cut(err)
	}
	var state map[string]json.RawMessage
	if err := json.Unmarshal(text, &state); err != nil {
		return false, err
	}
	last, err := strconv.ParseUint(string(state["last_seq"]), 10, 64)
	if err != nil {
		return false, fmt.Errorf("it does not say where it ends: %w", value.Plainly(err))
	}
	state["last_seq"] = strconv.AppendUint(nil, last+by, 10)
	if text, err = json.Marshal(state); err != nil {
		return false, err
	}
	e.body = uint64(len(text))
	packed := s2.NewWriter(to)
	if _, err = io.WriteString(packed, archiveWord); err == nil {
		err = e.write(packed)
	}
	if err == nil {
		_, err = packed.Write(text)
	}
	if err == nil {
		_, err = io.Copy(packed, in)
	}
	return true, errors.Join(err, packed.Close())
}
