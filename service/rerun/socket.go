package rerun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"millrace/events"
	"millrace/task"
)

// Variable is the environment variable with the socket of `millrace replay --with`. A program that has it opens no
// server: its workers run what they are told to.
const Variable = "MILLRACE_REPLAY"

// hello is the first line of a worker: the functions that it has.
type hello struct {
	Functions []string `json:"functions"`
}

// ask is a task to run again. Records are an export of what it can know of.
type ask struct {
	Task    task.ID `json:"task"`
	Records []byte  `json:"records"`
	// Apart are results of steps that these do not have, by digest.
	Apart map[string][]byte `json:"apart,omitempty"`
}

// Dial is a past in which each worker runs what is asked on a socket.
func Dial(address string) *Past {
	p := newPast()
	p.play = func(ctx context.Context, functions []string, run func([]events.Record, map[string][]byte, task.ID) Outcome) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
		if err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		in, out := json.NewDecoder(conn), json.NewEncoder(conn)
		if err := out.Encode(hello{functions}); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		for {
			var a ask
			if err := in.Decode(&a); errors.Is(err, io.EOF) || ctx.Err() != nil {
				return nil
			} else if err != nil {
				return fmt.Errorf("replay: %w", err)
			}
			from, err := ReadExport(bytes.NewReader(a.Records))
			if err != nil {
				return fmt.Errorf("replay: %w", err)
			}
			if err := out.Encode(run(from, a.Apart, a.Task)); err != nil {
				return fmt.Errorf("replay: %w", err)
			}
		}
	}
	return p
}

// ReadExport reads all records of an export.
func ReadExport(in io.Reader) (all []events.Record, err error) {
	lines, err := events.NewExportReader(in)
	for err == nil {
		var r events.Record
		if r, err = lines.Next(); err == nil {
			all = append(all, r)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}

// Serve has the workers of a program that dial a socket run all endings again whose functions they have. It calls each
// with what comes of one, never twice at once, until that returns false, and returns when no worker is left, or ctx has
// ended.
func (l *Log) Serve(ctx context.Context, socket net.Listener, each func(*Ending, Outcome) bool) error {
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	defer context.AfterFunc(ctx, func() { _ = socket.Close() })()
	var mu sync.Mutex
	var workers sync.WaitGroup
	var failed error // guarded by mu
	active := 0      // guarded by mu
	for {
		conn, err := socket.Accept()
		if err != nil {
			workers.Wait()
			return failed
		}
		mu.Lock()
		active++
		mu.Unlock()
		workers.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			err := l.serve(ctx, conn, func(e *Ending, o Outcome) bool {
				mu.Lock()
				defer mu.Unlock()
				goes := ctx.Err() == nil && each(e, o)
				if !goes {
					enough()
				}
				return goes
			})
			mu.Lock()
			defer mu.Unlock()
			if failed == nil && ctx.Err() == nil {
				failed = err
			}
			if active--; active == 0 {
				enough()
			}
		})
	}
}

// serve has one worker run its endings.
func (l *Log) serve(ctx context.Context, conn net.Conn, each func(*Ending, Outcome) bool) error {
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	var has hello
	if err := in.Decode(&has); err != nil {
		return fmt.Errorf("the program says nothing: %w", err)
	}
	for i := range l.Endings {
		e := &l.Endings[i]
		if !slices.Contains(has.Functions, e.Function) {
			continue
		}
		a := ask{Task: e.Task}
		from := l.before(e)
		a.Apart = l.apart(from)
		for _, r := range from {
			a.Records = events.AppendLine(a.Records, &r)
		}
		var o Outcome
		err := out.Encode(a)
		if err == nil {
			err = in.Decode(&o)
		}
		if err != nil {
			return fmt.Errorf("the program ends within task %s of %s: %w", e.Task, e.Function, err)
		}
		if !each(e, o) {
			return nil
		}
	}
	return nil
}
