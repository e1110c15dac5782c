package child

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"millrace/ipc"
)

// maxQueued is how many bytes may wait for a process that does not read its input. The rest is
// dropped and counted: waiting would stop the reading of its output, and so perhaps the process.
const maxQueued = 1 << 20

// stdin is our end of a process's standard input. Nearly every message fits into the pipe and is
// written at once; a goroutine writes the others.
type stdin struct {
	mu      sync.Mutex
	fd      int      // guarded by mu; -1 once it is closed
	file    *os.File // guarded by mu; owns fd, once a message had to wait
	queue   [][]byte // guarded by mu
	size    int      // guarded by mu; bytes in the queue
	dropped int      // guarded by mu; messages
	broken  bool     // guarded by mu; the process reads it no more
}

// send writes a message to the process. It does not block. With must, the message is queued beyond
// the bound.
func (s *stdin) send(m ipc.Message, must bool) {
	line, err := ipc.Encode(m)
	if err != nil {
		return // ours always encode
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 || s.broken {
		return
	}
	if len(s.queue) == 0 {
		n, err := s.write(line)
		s.broken = err != nil && !errors.Is(err, syscall.EAGAIN)
		if n == len(line) || s.broken {
			return
		}
		line = line[n:]
		s.push(line)
		if s.file == nil {
			s.file = os.NewFile(uintptr(s.fd), "stdin of a child")
		}
		go s.drain(s.file)
		return
	}
	if s.size+len(line) > maxQueued && !must {
		s.dropped++
		return
	}
	s.push(line)
}

func (s *stdin) push(line []byte) {
	s.queue = append(s.queue, line)
	s.size += len(line)
}

func (s *stdin) write(line []byte) (n int, err error) {
	err = IgnoringEINTR(func() (err error) {
		n, err = syscall.Write(s.fd, line)
		return err
	})
	return max(n, 0), err
}

// drain writes queued messages until none is left or the input is closed.
func (s *stdin) drain(file *os.File) {
	for {
		s.mu.Lock()
		line := s.queue[0]
		s.mu.Unlock()
		_, err := file.Write(line) // waits until there is room
		s.mu.Lock()
		s.queue, s.size = s.queue[1:], s.size-len(line)
		if err != nil {
			s.queue, s.size, s.broken = nil, 0, true
		}
		done := len(s.queue) == 0
		s.mu.Unlock()
		if done {
			return
		}
	}
}

// close ends the input. It returns how many messages were dropped.
func (s *stdin) close() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fd < 0:
	case s.file != nil:
		s.file.Close()
	default:
		syscall.Close(s.fd)
	}
	s.fd = -1
	return s.dropped
}
