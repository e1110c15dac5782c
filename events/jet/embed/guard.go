package embed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"millrace/events"
)

// ErrNotBack: the embedded server had to be restarted, and that failed.
var ErrNotBack = errors.New("the embedded server does not come back")

// Times of the guard of a server.
const (
	guardLook = time.Second
	// guardRest and guardMost are the shortest and the longest pause after a restart: the pause
	// doubles while restarts do not help.
	guardRest, guardMost = 2 * time.Second, time.Minute
	// guardTries is how often the server may fail to start before the process ends.
	guardTries = 5
)

// Guard makes sure that the streams take messages, until ctx ends; then it returns nil.
//
// A stream that meets a full disk takes nothing until the NATS server is restarted, even when there
// is room again; its writers get no answer, and some failures shut all of JetStream down. Guard
// detects that, reports it in the log and through [Server.Trouble], waits until there is room, and
// restarts the server, within this process and at the same address. Connections come back by
// themselves; everything acknowledged is there.
//
// It returns an error that wraps [ErrNotBack] if the server cannot be restarted although there is
// room, or hangs.
func (s *Server) Guard(ctx context.Context) error {
	look := time.NewTicker(guardLook)
	defer look.Stop()
	rest, failed := guardRest, 0
	var restarted time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		case <-s.look:
		}
		wrong := s.wrong(ctx)
		if errors.Is(wrong, errStopped) {
			return nil
		}
		if wrong == nil {
			s.say(nil)
			rest = calmed(rest, time.Since(restarted))
			continue
		}
		if err := s.tryRoom(); err != nil {
			s.say(fmt.Errorf("%w: %w", events.ErrMute, err))
			continue
		}
		s.say(fmt.Errorf("%w: %w", events.ErrMute, wrong))
		if time.Since(restarted) < rest {
			continue
		}
		if !restarted.IsZero() {
			rest = min(2*rest, guardMost)
		}
		restarted = time.Now()
		switch err := s.restart(ctx); {
		case err == nil:
			failed = 0
			s.cfg.Log.Warn("there is room again: the embedded NATS server was started again", "took", time.Since(restarted).Round(time.Millisecond).String())
			if wrong = s.wrong(ctx); !errors.Is(wrong, errStopped) {
				s.say(wrong)
			}
		case errors.Is(err, errStopped):
			return nil
		case errors.Is(err, errHangs), failed+1 == guardTries:
			return fmt.Errorf("%w: %w", ErrNotBack, err)
		default:
			failed++
			s.cfg.Log.Error("the embedded NATS server could not be started again; trying again", "error", err)
		}
	}
}

// calmed returns the pause after the next restart, of a server that has been well since the last
// one: the shortest, if that one has helped for longer than the pause accounts for. A disk that runs
// full every minute is no reason to wait when there is room.
func calmed(rest, well time.Duration) time.Duration {
	if well > 2*rest {
		return guardRest
	}
	return rest
}

// Trouble returns why the streams take no messages; nil if they do, as far as [Server.Guard] knows.
// The error wraps [events.ErrMute].
func (s *Server) Trouble() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

// say sets the result of Trouble, and logs it if it is new.
func (s *Server) say(trouble error) {
	s.mu.Lock()
	before := s.trouble
	s.trouble = trouble
	s.mu.Unlock()
	switch {
	case trouble != nil && (before == nil || before.Error() != trouble.Error()):
		s.cfg.Log.Error("the log takes no messages; the embedded NATS server is started again when there is room", "error", trouble)
	case trouble == nil && before != nil:
		s.cfg.Log.Info("the log takes messages again")
	}
}

// errHangs: the server gives no answer about its streams, or does not end. A timer that fires on a
// full disk can cause that: if there is room for its message, but none for the mark that the timer
// is gone, the NATS server (2.15) waits for itself, with the stream of timers and all that asks
// about it. Only the end of the process helps.
var errHangs = errors.New("the embedded NATS server hangs")

// wrong returns why any stream cannot be written to; errStopped if ctx ends before that is known.
func (s *Server) wrong(ctx context.Context) error {
	ns := s.current()
	if s.hangs(ns) {
		return errHangs
	}
	if !ns.Running() {
		return errors.New("the embedded NATS server does not run")
	}
	if !ns.JetStreamEnabled() {
		return errors.New("JetStream has shut down")
	}
	var health *server.HealthStatus
	err := s.await(ctx, ns, func() { health = ns.Healthz(&server.HealthzOptions{Details: true}) })
	if err != nil {
		return err
	}
	for _, e := range health.Errors {
		// The server has no other sign of it. Other errors of a stream are not cured by a restart.
		if e.Type == server.HealthzErrorStream && strings.Contains(e.Error, "write error") {
			return errors.New(e.Error)
		}
	}
	return nil
}

// await returns when the server has done something, or with errHangs when it was waited for twice as
// long as its patience, not counting what the machine kept from this process.
func (s *Server) await(ctx context.Context, ns *server.Server, do func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	step := time.NewTicker(waitStep)
	defer step.Stop()
	late := s.late()
	for waited, last := time.Duration(0), time.Now(); waited < 2*s.patience; {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return errStopped
		case <-step.C:
			now := time.Now()
			waited += counts(max(late(), now.Sub(last)-waitStep))
			last = now
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hung = ns
	return errHangs
}

// hangs tells whether a server was found to hang.
func (s *Server) hangs(ns *server.Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hung == ns
}

// tryRoom writes as much as the server needs to restart, and removes it.
func (s *Server) tryRoom() (err error) {
	free, err := diskFree(s.cfg.Dir)
	if err != nil {
		return err
	}
	// Always one name, so that the same error has the same text.
	f, err := os.OpenFile(filepath.Join(s.cfg.Dir, ".room"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return noSpace(err, s.cfg.Dir)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	const most, least = 16 << 20, 256 << 10
	_, err = f.Write(make([]byte, min(max(free/8, least), most)))
	if err == nil {
		err = f.Sync()
	}
	return noSpace(err, s.cfg.Dir)
}

// noSpace says in plain words that a disk is full.
func noSpace(err error, dir string) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("no space on %s", dir)
	}
	return err
}

// restart ends the running server and starts another one on the same data at the same address.
func (s *Server) restart(ctx context.Context) error {
	ns := s.current()
	err := s.await(ctx, ns, func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	if err != nil {
		return err
	}
	return s.start()
}
