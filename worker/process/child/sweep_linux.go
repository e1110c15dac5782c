package child

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

// sweeper kills the processes that a worker has left behind.
type sweeper struct {
	marker []byte
	spare  map[int]bool // groups that are not killed as groups
	groups map[int]bool // groups in which marked processes were found
	unsure int          // processes that the last round could not judge
	buf    []byte
}

// unsureBound is how long the sweeper waits for processes that it cannot judge. A process has no
// environment in the middle of an exec, or while it ends; soon it has one, or has ended. Some never
// have one.
const unsureBound = 200 * time.Millisecond

// sweep kills all processes with the marker in their environment and the members of their groups,
// except the group spare. It returns when two consecutive looks at all processes have found none,
// for a process that is started during one look can escape it. It returns an error if some survive
// SIGKILL for killBound.
func sweep(marker string, spare int) error {
	s := &sweeper{
		marker: []byte(marker),
		spare:  map[int]bool{0: true, 1: true, spare: true, syscall.Getpgrp(): true},
		groups: map[int]bool{},
		buf:    make([]byte, 4096),
	}
	deadline := time.Now().Add(killBound)
	sure := time.Now().Add(unsureBound)
	pause := time.Millisecond
	for clean := 0; clean < 2; {
		found := s.round()
		now := time.Now()
		switch {
		case found > 0:
			clean, sure = 0, now.Add(unsureBound)
		case s.unsure == 0 || now.After(sure):
			clean++
			continue
		}
		if now.After(deadline) && found > 0 {
			return fmt.Errorf("guard: %d processes of the worker that is gone survive SIGKILL: the kernel cannot end them now", found)
		}
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
	return nil
}

// round looks at all processes once and returns how many had to be killed.
func (s *sweeper) round() (found int) {
	s.unsure = 0
	for pid := range processes() {
		if s.kill(pid, s.marked) {
			found++
		}
	}
	if len(s.groups) == 0 {
		return found
	}
	for pid := range processes() {
		if s.kill(pid, s.grouped) {
			found++
		}
	}
	return found
}

// kill kills the process if it is ours.
func (s *sweeper) kill(pid int, ours func(pid int) bool) bool {
	return pid > 1 && pid != os.Getpid() && ours(pid) && signalIf(pid, syscall.SIGKILL, ours)
}

// marked tells whether a process carries the marker, and notes its group.
func (s *sweeper) marked(pid int) bool {
	environ, err := s.read("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || len(environ) > 0 && !holds(environ, s.marker) {
		return false
	}
	state, err := readStat(pid)
	if err != nil || state.ended() {
		return false
	}
	if len(environ) == 0 {
		if !state.kernel {
			s.unsure++
		}
		return false
	}
	if !s.spare[state.group] {
		s.groups[state.group] = true
	}
	return true
}

func (s *sweeper) grouped(pid int) bool {
	state, err := readStat(pid)
	return err == nil && s.groups[state.group] && !state.ended()
}

// read reads a whole file into the sweeper's buffer.
func (s *sweeper) read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n := 0
	for {
		if n == len(s.buf) {
			s.buf = append(s.buf, make([]byte, n)...)
		}
		m, err := f.Read(s.buf[n:])
		n += m
		if err == io.EOF {
			return s.buf[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// holds tells whether the marker is one of the variables, each of which ends with a zero byte.
func holds(environ, marker []byte) bool {
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(variable, marker) {
			return true
		}
	}
	return false
}
