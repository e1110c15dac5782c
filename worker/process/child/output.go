package child

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"

	"millrace/ipc"
)

// output is our end of a pipe that a process writes to. It ends when every writer has closed the
// pipe or, after finish, when everything that was in it has been read: a process that left the
// group may hold the pipe open for ever.
type output struct {
	file *os.File
	done atomic.Bool // everything has been read
	// holds is set while something that was read may not have been passed on, if watched.
	holds   atomic.Bool
	watched bool

	// Only the reading goroutine touches these.
	finishing bool
	left      int // after finish: bytes in the pipe that remain to be read
}

func newOutput(fd int) *output { return &output{file: os.NewFile(uintptr(fd), "|")} }

// finish ends the output after what the pipe holds now.
func (o *output) finish() {
	if o.done.Load() {
		return
	}
	// Wake a waiting reader. This fails only for a file that cannot be waited for.
	_ = o.file.SetReadDeadline(aLongTimeAgo)
}

// Read is that of [io.Reader].
func (o *output) Read(b []byte) (int, error) {
	if !o.finishing {
		n, err := o.read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		// The deadline also hides data that is ready to be read.
		o.finishing = true
		o.control(func(fd int) (err error) {
			o.left, err = unix.IoctlGetInt(fd, fionread)
			return err
		})
	}
	b = b[:min(len(b), o.left)]
	n := 0
	o.control(func(fd int) (err error) {
		n, err = syscall.Read(fd, b)
		return err
	})
	if n <= 0 {
		return 0, io.EOF
	}
	o.left -= n
	return n, nil
}

// read waits for output, and reads it.
func (o *output) read(b []byte) (n int, err error) {
	if !o.watched {
		return o.file.Read(b)
	}
	conn, err := o.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		o.holds.Store(true) // before anything leaves the pipe
		failed = IgnoringEINTR(func() (err error) {
			n, err = syscall.Read(int(fd), b)
			return err
		})
		if waits := errors.Is(failed, syscall.EAGAIN); waits {
			o.holds.Store(false)
			return false
		}
		return true
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// passedOn tells whether all that is in the pipe now has been passed on.
func (o *output) passedOn() bool {
	if o.done.Load() {
		return true
	}
	left := 1
	o.control(func(fd int) (err error) {
		left, err = unix.IoctlGetInt(fd, fionread)
		return err
	})
	return left == 0 && !o.holds.Load() || o.done.Load()
}

// control makes a system call that does not block. After an error nothing more is read.
func (o *output) control(call func(fd int) error) {
	conn, err := o.file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_ = IgnoringEINTR(func() error { return call(int(fd)) })
	})
}

// replacement stands for what is not of the encoding.
var replacement = []byte("\uFFFD")

var (
	messageReaders = sync.Pool{New: func() any { return ipc.NewReader(nil) }}
	textReaders    = sync.Pool{New: func() any { return ipc.NewTextReader(nil) }}
)

// deliver passes everything that arrives to s, and returns at the end of the output. coded is its
// encoding, nil for UTF-8.
func (o *output) deliver(stream Stream, g ipc.Gate, coded encoding.Encoding, s Sink) error {
	defer func() { o.done.Store(true); o.file.Close() }()
	readers := &textReaders
	if stream == Stdout {
		readers = &messageReaders
	}
	r := readers.Get().(*ipc.Reader)
	if coded == nil {
		r.Reset(o, g)
	} else {
		r.Reset(transform.NewReader(o, coded.NewDecoder()), g)
	}
	defer func() { r.Reset(nil, ipc.Gate{}); readers.Put(r) }()
	for {
		item, err := r.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case item.IsMessage():
			s.Message(item.Message)
		case item.Withheld != "":
			s.Withheld(item.Withheld)
		default:
			if coded != nil && bytes.Contains(item.Line.Text, replacement) {
				item.Line.Replaced = true
			}
			s.Line(stream, item.Line)
		}
	}
}

// Stream says where log text came from.
type Stream uint8

// The streams of a process.
const (
	Stdout Stream = iota + 1
	Stderr
)

// String is "stdout" or "stderr".
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "unknown stream"
}

// Sink receives the output of a process. Calls for one stream come one after the other, in the
// order of writing; those for the two streams come from two goroutines concurrently. Messages come
// in order with the log text of Stdout. While a call blocks, that stream is not read, and the
// process waits as soon as it has filled the kernel's pipe (64 KiB): that is the back-pressure. A
// call that never returns keeps [Runner.Run] from returning, even after a kill.
type Sink interface {
	// Line takes log text, perhaps several lines. The text is valid only during the call.
	Line(s Stream, line ipc.Line)
	// Message takes a message; the receiver may keep it.
	Message(m ipc.Message)
	// Withheld is told the type of the first message that does not count because of
	// [Command.Messages], before its line comes as log text.
	Withheld(typ string)
}
