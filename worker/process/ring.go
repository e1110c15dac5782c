package process

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
)

// ring is a file of consecutive frames. When it is full, new frames overwrite those that are stored
// elsewhere. A place in it counts bytes from the first byte ever written, so it never changes. Each
// frame bears its place and a checksum: a torn frame, or one of an earlier round, does not count.
type ring struct {
	file *os.File
	size int64
}

// ringSize is how many bytes of an attempt's output may wait to be stored. The file takes only as
// much disk space as was ever needed.
const ringSize = 64 << 20

func openRing(name string, size int64, flag int) (*ring, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return &ring{f, size}, nil
}

func (r *ring) close() error { return r.file.Close() }

// frame is one piece of a process's output.
type frame struct {
	kind    byte
	partial bool
	said    int64 // nanoseconds of the monotonic clock
	body    []byte
}

// Kinds of frames.
const (
	// One line or several, separated by line feeds; or, partial, a piece of one.
	frameStdout byte = iota + 1
	frameStderr
	frameMessage
	frameRefused  // a message with a secret outside any string; without its payload
	frameDropped  // a line in words about what was dropped
	frameWithheld // the type of a message that is only text
	frameReplaced // some of the output is not in its encoding
)

// headSize is the size of a frame beside its body: place, time, length, kind, flags, checksum.
const headSize = 8 + 8 + 4 + 1 + 1 + 4

// maxFrame is more than the longest line or message needs.
const maxFrame = 8 << 20

// errNoFrame: there is no frame at a place, or not yet.
var errNoFrame = errors.New("no frame is there")

// appendFrame appends a frame for a place.
func appendFrame(b []byte, at int64, f frame) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(at)) // never below zero
	b = binary.LittleEndian.AppendUint64(b, uint64(f.said))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.body))) // at most maxFrame
	flags := byte(0)
	if f.partial {
		flags = 1
	}
	b = append(b, f.kind, flags)
	sum := crc32.Update(crc32.ChecksumIEEE(b[start:]), crc32.IEEETable, f.body)
	b = binary.LittleEndian.AppendUint32(b, sum)
	return append(b, f.body...)
}

// parseFrame reads the frame at the beginning of b, which lies at a place, and returns its length
// n. If b is too short, more is how many bytes it needs.
func parseFrame(b []byte, at int64) (f frame, n, more int, err error) {
	if len(b) < headSize {
		return f, 0, headSize, errNoFrame
	}
	length := int(binary.LittleEndian.Uint32(b[16:]))
	if binary.LittleEndian.Uint64(b) != uint64(at) || length > maxFrame { // never below zero
		return f, 0, 0, errNoFrame
	}
	if n = headSize + length; len(b) < n {
		return f, 0, n, errNoFrame
	}
	f = frame{
		kind:    b[20],
		partial: b[21] == 1,
		said:    int64(binary.LittleEndian.Uint64(b[8:])),
		body:    b[headSize:n],
	} // as it was written
	if sum := crc32.Update(crc32.ChecksumIEEE(b[:headSize-4]), crc32.IEEETable, f.body); sum != binary.LittleEndian.Uint32(b[headSize-4:]) {
		return f, 0, 0, errNoFrame
	}
	return f, n, 0, nil
}

// writeAt writes bytes to a place.
func (r *ring) writeAt(b []byte, at int64) error {
	for len(b) > 0 {
		off := at % r.size
		n := min(int64(len(b)), r.size-off)
		if _, err := r.file.WriteAt(b[:n], off); err != nil {
			return err
		}
		b, at = b[n:], at+n
	}
	return nil
}

// readAt reads from a place as many bytes as there are.
func (r *ring) readAt(b []byte, at int64) (read int) {
	for len(b) > 0 {
		off := at % r.size
		n := min(int64(len(b)), r.size-off)
		m, err := r.file.ReadAt(b[:n], off)
		read += m
		if err != nil || int64(m) < n {
			return read
		}
		b, at = b[n:], at+n
	}
	return read
}

// ringReader reads frames from a place on.
type ringReader struct {
	ring *ring
	at   int64 // of the next frame
	buf  []byte
	have []byte // of buf, from at on
}

const ringChunk = 256 << 10

// next returns the next frame, whose body is valid until the next call, or [errNoFrame] if it has
// not been written yet.
func (r *ringReader) next() (frame, error) {
	f, n, more, err := parseFrame(r.have, r.at)
	if err != nil {
		size := max(ringChunk, more)
		if len(r.buf) < size {
			r.buf = make([]byte, size)
		}
		r.have = r.buf[:r.ring.readAt(r.buf, r.at)]
		if f, n, more, err = parseFrame(r.have, r.at); err != nil && more > len(r.buf) {
			r.buf = make([]byte, more)
			r.have = r.buf[:r.ring.readAt(r.buf, r.at)]
			f, n, _, err = parseFrame(r.have, r.at)
		}
		if err != nil {
			return f, err
		}
	}
	r.at += int64(n)
	r.have = r.have[n:]
	return f, nil
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
