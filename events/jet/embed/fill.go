package embed

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"millrace/internal/files"
)

// A server numbers the messages that are published to it, and stamps them with its own time. A log
// whose sequences and times must be kept can only be written into the server's directory, in the
// server's own format:
//
//	meta.inf the configuration; meta.sum its checksum
//	msgs/N.blk messages, one after the other; the server makes a missing index itself
//
//	length(4) sequence(8) time(8) length of the subject(2) subject [length of the header(4) header] body checksum(8)
//
// Servers have read this format since 2.2; the highest bit of the length means that there is a
// header.

// Message is a message of a stream.
type Message struct {
	Seq     uint64
	At      time.Time
	Subject string
	Header  nats.Header
	Body    []byte
}

// ErrFilled: the directory already holds streams.
var ErrFilled = errors.New("there are streams in this data directory already")

// ErrNoMessage refuses what no server can have stored. Times are nanoseconds since 1970, in 64 bits.
var ErrNoMessage = errors.New("no NATS server stores that")

// Stream is a stream to be written into a data directory.
type Stream struct {
	// Config is its configuration, as the API of JetStream has it.
	Config []byte
	// Created is when it was created.
	Created time.Time
	// Messages are in the order of their sequences. Gaps between sequences stay.
	Messages iter.Seq2[Message, error]
}

// Fill writes streams into a data directory before a server is started on it. The error wraps
// [ErrFilled] if there are any, [ErrLocked] if a server runs there, [ErrNoMessage], or is the error of
// a sequence of messages.
func Fill(dir string, streams ...Stream) error {
	unlock, err := vacant(dir)
	if err != nil {
		return err
	}
	defer unlock()
	at := streamsDir(dir)
	for _, s := range streams {
		if err := fill(at, s); err != nil {
			return fmt.Errorf("fill the data directory: %w", err)
		}
	}
	return nil
}

// Move moves the streams of a data directory into another one that has none. No server may run on
// either. The error wraps [ErrFilled] or [ErrLocked].
func Move(from, to string) error {
	unlock, err := vacant(to)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.RemoveAll(storeDir(to)); err != nil { // it has no streams
		return err
	}
	return files.Move(storeDir(from), storeDir(to))
}

// vacant locks a data directory that has no streams.
func vacant(dir string) (unlock func(), err error) {
	lock, err := LockDir(dir)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = lock.Unlock() }
	there, err := os.ReadDir(streamsDir(dir))
	switch {
	case err == nil && len(there) > 0:
		err = fmt.Errorf("%w: %s", ErrFilled, dir)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

func streamsDir(dir string) string {
	return filepath.Join(storeDir(dir), server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams")
}

func fill(at string, s Stream) error {
	meta := server.FileStreamInfo{Created: s.Created.UTC()}
	if err := json.Unmarshal(s.Config, &meta.StreamConfig); err != nil {
		return err
	}
	dir := filepath.Join(at, meta.Name)
	if err := os.MkdirAll(filepath.Join(dir, "msgs"), 0o700); err != nil {
		return err
	}
	if err := fillBlocks(dir, meta.Name, s.Messages); err != nil {
		return err
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	sum, err := checksum(meta.Name, text)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, server.JetStreamMetaFile), text, 0o600),
		os.WriteFile(filepath.Join(dir, server.JetStreamMetaFileSum), []byte(hex.EncodeToString(sum)), 0o600))
}

// Bounds of a block.
const (
	blockSize = 4 << 20 // bytes at which it ends
	// Missing sequences in a row allowed within it: the server notes each; and each block is a
	// file.
	blockGap   = 1 << 17
	maxSubject = 1 << 10
	maxSeq     = 1 << 62 // a log goes on behind it
	headed     = 1 << 31 // in the length of a message with a header
)

func fillBlocks(dir, name string, messages iter.Seq2[Message, error]) (err error) {
	var b block
	defer func() { err = errors.Join(err, b.close()) }()
	for m, err := range messages {
		switch {
		case err != nil:
			return err
		case m.Seq <= b.last:
			return fmt.Errorf("sequence %d comes after %d: %w", m.Seq, b.last, ErrNoMessage)
		case !server.IsValidLiteralSubject(m.Subject) || len(m.Subject) > maxSubject:
			return fmt.Errorf("sequence %d lies at %q, where nothing can lie: %w", m.Seq, m.Subject, ErrNoMessage)
		case m.Seq > maxSeq:
			return fmt.Errorf("sequence %d is beyond what a log can hold: %w", m.Seq, ErrNoMessage)
		case m.At.Unix() < 0 || m.At.Unix() >= math.MaxInt64/int64(time.Second):
			return fmt.Errorf("sequence %d was stored at %s: %w", m.Seq, m.At.UTC().Format(time.RFC3339), ErrNoMessage)
		}
		if b.file == nil || b.size > blockSize || m.Seq-b.last > blockGap {
			if err := b.next(dir, name); err != nil {
				return err
			}
		}
		if err := b.add(&m); err != nil {
			return err
		}
	}
	return nil
}

// block is a file of messages.
type block struct {
	number int
	file   *os.File
	out    *bufio.Writer
	size   int
	last   uint64
	digest *highwayhash.Digest64
	record []byte
}

// next begins the next block.
func (b *block) next(dir, name string) (err error) {
	if err := b.close(); err != nil {
		return err
	}
	b.number, b.size = b.number+1, 0
	if b.digest, err = digest(fmt.Sprintf("%s-%d", name, b.number)); err != nil {
		return err
	}
	b.file, err = os.OpenFile(filepath.Join(dir, "msgs", fmt.Sprintf("%d.blk", b.number)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	b.out = bufio.NewWriter(b.file)
	return err
}

func (b *block) add(m *Message) error {
	header := encodeHeader(m.Header)
	le := binary.LittleEndian
	r := append(b.record[:0], 0, 0, 0, 0)
	r = le.AppendUint64(r, m.Seq)
	r = le.AppendUint64(r, uint64(m.At.UnixNano())) // as the server has it
	r = le.AppendUint16(r, uint16(len(m.Subject)))  // a subject is shorter
	r = append(r, m.Subject...)
	if len(header) > 0 {
		r = le.AppendUint32(r, uint32(len(header))) // a message is shorter
	}
	r = append(append(r, header...), m.Body...)
	length := uint32(len(r) + b.digest.Size()) // a message is shorter
	if len(header) > 0 {
		length |= headed
	}
	le.PutUint32(r, length)
	b.digest.Reset()
	for _, part := range [][]byte{r[4:20], []byte(m.Subject), header, m.Body} {
		_, _ = b.digest.Write(part) // never fails
	}
	b.record = b.digest.Sum(r)
	b.last, b.size = m.Seq, b.size+len(b.record)
	_, err := b.out.Write(b.record)
	return err
}

func (b *block) close() error {
	if b.file == nil {
		return nil
	}
	return errors.Join(b.out.Flush(), b.file.Close())
}

func digest(of string) (*highwayhash.Digest64, error) {
	key := sha256.Sum256([]byte(of))
	return highwayhash.NewDigest64(key[:])
}

func checksum(name string, text []byte) ([]byte, error) {
	d, err := digest(name)
	if err != nil {
		return nil, err
	}
	_, _ = d.Write(text) // never fails
	return d.Sum(nil), nil
}

// encodeHeader encodes a header for the wire; nothing if it is empty.
func encodeHeader(h nats.Header) []byte {
	if len(h) == 0 {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("NATS/1.0\r\n")
	keys := make([]string, 0, len(h))
	for key := range h {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		for _, value := range h[key] {
			b.WriteString(key + ": " + value + "\r\n")
		}
	}
	b.WriteString("\r\n")
	return b.Bytes()
}
